package com.example.producer.core;

/** Why an event is refused, in the words of the contract. It costs no stack trace: bad input is an everyday event. */
public class RefusedException extends RuntimeException {

    public RefusedException(String message) {
        super(message, null, false, false);
    }
}
