package com.example.producer.rest;

/** A body that did not arrive in the time that it has; refused with 408. */
class SlowBodyException extends RuntimeException {

    SlowBodyException() {
        super("Request body did not arrive before the timeout", null, false, false);
    }
}
