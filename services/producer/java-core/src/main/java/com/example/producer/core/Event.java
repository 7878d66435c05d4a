package com.example.producer.core;

/**
 * An event that may be stored: a column each for the types, ids and attributes of its entities, as the statement wants
 * them. An attribute is the text of a JSON object.
 */
public record Event(String[] types, String[] ids, String[] attributes) {

    public int entities() {
        return ids.length;
    }
}
