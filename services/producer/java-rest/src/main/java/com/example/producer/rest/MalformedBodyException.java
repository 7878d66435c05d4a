package com.example.producer.rest;

/** A body that is no JSON text that can be used; answered with 400. */
class MalformedBodyException extends RuntimeException {

    MalformedBodyException(String message) {
        super(message, null, false, false);
    }

    static MalformedBodyException json() {
        return new MalformedBodyException("Malformed JSON");
    }
}
