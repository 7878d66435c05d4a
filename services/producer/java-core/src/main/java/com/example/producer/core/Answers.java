package com.example.producer.core;

/** The words that every service responds with. */
public final class Answers {

    public static final String STORED = "Event processed successfully";
    public static final String UNAVAILABLE = "Database is unavailable";
    public static final String INTERNAL = "Internal server error";
    public static final String TIMED_OUT = "Request timed out";
    public static final String HEALTHY = "Producer API is healthy";

    private Answers() {
    }
}
