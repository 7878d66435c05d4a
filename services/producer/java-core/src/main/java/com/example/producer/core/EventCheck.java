package com.example.producer.core;

import java.nio.charset.StandardCharsets;
import java.util.List;

import com.example.producer.core.Submitted.Header;
import com.example.producer.core.Submitted.Text;
import com.example.producer.core.Submitted.Update;

/** Whether a submitted event may be stored, and if not, why: the same rules and the same words in all six services. */
public final class EventCheck {

    /** Characters (code points) that an entity's type or id may have; what the table's columns hold. */
    private static final int NAME_CHARS = 255;

    private EventCheck() {
    }

    /**
     * Checks an event: header, then body, then entity by entity.
     *
     * @param scanAttributes may be false only where the whole body was scanned already and neither a NUL nor more than
     *     {@link JsonScan#ATTRIBUTE_DEPTH} levels were found
     * @throws RefusedException for the first rule that the event breaks
     */
    public static Event check(Submitted event, int maxEntities, boolean scanAttributes) {
        if (event.shape() != Shape.IS) {
            throw new RefusedException("Event must be an object");
        }
        checkHeader(event.header());
        if (event.body().shape() == Shape.OTHER) {
            throw new RefusedException("Invalid type: event_body must be an object");
        }
        if (event.body().entities() == Shape.OTHER) {
            throw new RefusedException("Invalid type: entities must be an array");
        }
        List<Update> updates = event.body().updates();
        if (updates.isEmpty()) {
            throw new RefusedException("Event body must contain at least one entity");
        }
        if (updates.size() > maxEntities) {
            throw new RefusedException("Event body must not contain more than " + maxEntities + " entities");
        }
        int count = updates.size();
        Event checked = new Event(new String[count], new String[count], new String[count]);
        for (int i = 0; i < count; i++) {
            Update update = updates.get(i);
            if (update.shape() != Shape.IS) {
                throw new RefusedException("Invalid type: entity must be an object");
            }
            checked.types()[i] = checkName(update.entityType(), "entity_type", "Entity type");
            checked.ids()[i] = checkName(update.entityId(), "entity_id", "Entity ID");
            checked.attributes()[i] = checkAttributes(update.attributes(), scanAttributes);
        }
        return checked;
    }

    private static void checkHeader(Header header) {
        if (header.shape() == Shape.OTHER) {
            throw new RefusedException("Invalid type: event_header must be an object");
        }
        checkText(header.eventName(), "event_name");
        if (header.eventName().text().isEmpty()) {
            throw new RefusedException("Event header event_name is required");
        }
        checkText(header.uuid(), "uuid");
        checkDate(header.createdDate(), "created_date");
        checkDate(header.savedDate(), "saved_date");
        checkText(header.eventType(), "event_type");
    }

    private static void checkText(Text text, String name) {
        if (text.shape() == Shape.NUMBER || text.shape() == Shape.OTHER) {
            throw new RefusedException("Invalid type: " + name + " must be a string");
        }
    }

    private static void checkDate(Text date, String name) {
        boolean readable = switch (date.shape()) {
            case ABSENT -> true;
            // The empty string is what a protobuf client sends for "none"; both protocols take it so.
            case IS -> date.text().isEmpty() || EventDate.isDate(date.text());
            case NUMBER -> EventDate.isEpochMillis(date.text());
            case OTHER -> false;
        };
        if (!readable) {
            throw new RefusedException("Invalid date: " + name);
        }
    }

    private static String checkName(Text name, String field, String words) {
        checkText(name, field);
        String text = name.text();
        if (text.isEmpty()) {
            throw new RefusedException(words + " cannot be empty");
        }
        if (text.length() > NAME_CHARS && text.codePointCount(0, text.length()) > NAME_CHARS) {
            throw new RefusedException(words + " must not be longer than 255 characters");
        }
        if (text.indexOf('\0') >= 0) {
            throw new RefusedException(words + " must not contain NUL");
        }
        return text;
    }

    private static String checkAttributes(Text attributes, boolean scan) {
        if (attributes.shape() == Shape.ABSENT) {
            return "{}";
        }
        if (attributes.shape() != Shape.IS) {
            throw new RefusedException("Invalid type: updated_attributes must be an object");
        }
        if (scan) {
            JsonScan found = JsonScan.of(attributes.text().getBytes(StandardCharsets.UTF_8));
            if (found.depth() > JsonScan.ATTRIBUTE_DEPTH + 1) {
                throw new RefusedException("Attributes must not be nested deeper than 64 levels");
            }
            if (found.nul()) {
                throw new RefusedException("Attributes must not contain NUL");
            }
        }
        return attributes.text();
    }
}
