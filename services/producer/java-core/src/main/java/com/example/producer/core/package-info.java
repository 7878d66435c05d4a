/**
 * What the two Java event-ingestion services share. A protocol turns its bytes into a {@link Submitted} event,
 * {@link EventCheck} says why it is refused or makes it an {@link Event}, and {@link EventStore} writes it in one
 * transaction. The rules are those of services/producer/README.md, which all six services follow.
 */
package com.example.producer.core;
