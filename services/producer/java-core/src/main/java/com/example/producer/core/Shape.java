package com.example.producer.core;

/** What a member of a JSON object turned out to be. */
public enum Shape {
    /** Missing, or null. */
    ABSENT,
    /** Of the type that the contract says. */
    IS,
    /** A number where a string is wanted; a date may be one. */
    NUMBER,
    /** Of another type. */
    OTHER
}
