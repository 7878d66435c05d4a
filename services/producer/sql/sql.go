// Package sql holds the one statement of the event-ingestion services, so that every stack runs the same text.
package sql

import _ "embed"

// StoreEvent stores one event. Its parameters are three arrays of text of equal length: entity types, ids and attributes.
//
//go:embed store_event.sql
var StoreEvent string
