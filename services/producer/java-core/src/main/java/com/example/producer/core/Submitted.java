package com.example.producer.core;

import java.util.List;

/** An event as it came, its types known and nothing else. */
public record Submitted(Shape shape, Header header, Body body) {

    /**
     * A scalar member.
     *
     * @param text the text of a string, or a number as it was written; empty for every other shape
     */
    public record Text(Shape shape, String text) {
        public static final Text ABSENT = new Text(Shape.ABSENT, "");
        public static final Text OTHER = new Text(Shape.OTHER, "");

        /** The member that a protobuf string is: without a presence of its own, so empty means absent. */
        public static Text ofProto(String text) {
            return text.isEmpty() ? ABSENT : new Text(Shape.IS, text);
        }
    }

    /** {@code eventHeader}. Only the event's name is required. */
    public record Header(Shape shape, Text uuid, Text eventName, Text createdDate, Text savedDate, Text eventType) {
        public static Header without(Shape shape) {
            return new Header(shape, Text.ABSENT, Text.ABSENT, Text.ABSENT, Text.ABSENT, Text.ABSENT);
        }
    }

    /**
     * {@code eventBody}.
     *
     * @param entities the shape of its only member
     */
    public record Body(Shape shape, Shape entities, List<Update> updates) {
        public static Body without(Shape shape) {
            return new Body(shape, Shape.ABSENT, List.of());
        }
    }

    /**
     * One of {@code entities}.
     *
     * @param attributes the text of a JSON object
     */
    public record Update(Shape shape, Text entityType, Text entityId, Text attributes) {
        public static Update without(Shape shape) {
            return new Update(shape, Text.ABSENT, Text.ABSENT, Text.ABSENT);
        }
    }
}
