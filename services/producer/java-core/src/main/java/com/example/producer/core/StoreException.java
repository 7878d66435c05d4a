package com.example.producer.core;

/** Why an event was not stored although it kept the rules. Nothing of it was written. */
public class StoreException extends RuntimeException {

    /** Who can fix it. */
    public enum Kind {
        /** The database is away, overloaded or refused to work now; the same event may succeed later. */
        UNAVAILABLE,
        /** Anything else; a table that is missing, for one. */
        FAILED
    }

    private final Kind kind;

    public StoreException(Kind kind, Throwable cause) {
        super(cause.toString(), cause, false, false);
        this.kind = kind;
    }

    public Kind kind() {
        return kind;
    }
}
