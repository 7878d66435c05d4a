package com.example.producer.rest;

/** A body that is not a usable JSON text; refused with 400. */
class MalformedBodyException extends RuntimeException {

    MalformedBodyException(String message) {
        super(message, null, false, false);
    }

    static MalformedBodyException json() {
        return new MalformedBodyException("Malformed JSON");
    }
}
