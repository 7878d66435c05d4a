package com.example.producer.rest;

/** A body that did not arrive whole, because its client disconnected. */
class AbortedBodyException extends RuntimeException {

    AbortedBodyException(Throwable cause) {
        super(cause.toString(), cause, false, false);
    }
}
