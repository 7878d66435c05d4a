package com.example.producer.rest;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import com.example.producer.core.JsonScan;
import com.example.producer.core.Shape;
import com.example.producer.core.Submitted;
import com.example.producer.core.Submitted.Body;
import com.example.producer.core.Submitted.Header;
import com.example.producer.core.Submitted.Text;
import com.example.producer.core.Submitted.Update;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;

/**
 * Request body to events, in one pass over the JSON. A member of a type that the contract does not know is noted, not
 * an error: the rules decide in their own order. A name that is given twice means its last value.
 */
final class BodyReader {

    /** The body's own limit is the limit: what it holds may be one long number or name. */
    private static final JsonFactory JSON = JsonFactory.builder()
            .disable(JsonFactory.Feature.CHARSET_DETECTION)
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxNumberLength(Integer.MAX_VALUE)
                    .maxNameLength(Integer.MAX_VALUE)
                    .maxStringLength(Integer.MAX_VALUE)
                    .maxNestingDepth(2 * JsonScan.BODY_DEPTH)
                    .build())
            .build();

    /** Events, or what came instead of an array of them. */
    record Events(Shape shape, List<Submitted> events, boolean scanAttributes) {
    }

    private final byte[] body;
    private final JsonParser parser;
    private final boolean scanAttributes;

    private BodyReader(byte[] body) throws IOException {
        this.body = body;
        JsonScan found = JsonScan.of(body);
        if (found.depth() > JsonScan.BODY_DEPTH) {
            throw new MalformedBodyException("JSON must not be nested deeper than " + JsonScan.BODY_DEPTH + " levels");
        }
        if (found.loneSurrogate() || startsWithByteOrderMark(body)) {
            throw MalformedBodyException.json();
        }
        this.scanAttributes = found.nul() || found.depth() > JsonScan.ATTRIBUTE_DEPTH;
        this.parser = JSON.createParser(body);
    }

    /** Reads one event: a list of one. */
    static Events one(byte[] body) {
        return read(body, reader -> new Events(Shape.IS, List.of(reader.event()), reader.scanAttributes));
    }

    /** Reads an array of events. */
    static Events many(byte[] body) {
        return read(body, reader -> {
            List<Submitted> events = new ArrayList<>();
            Shape shape = reader.array(() -> events.add(reader.event()));
            return new Events(shape, events, reader.scanAttributes);
        });
    }

    private interface Step<T> {
        T read(BodyReader reader) throws IOException;
    }

    private static Events read(byte[] body, Step<Events> step) {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body));
            BodyReader reader = new BodyReader(body);
            if (reader.parser.nextToken() == null) {
                throw MalformedBodyException.json();
            }
            Events events = step.read(reader);
            if (reader.parser.nextToken() != null) {
                throw MalformedBodyException.json();
            }
            return events;
        } catch (CharacterCodingException e) {
            throw MalformedBodyException.json();
        } catch (IOException e) {
            throw MalformedBodyException.json();
        }
    }

    private static boolean startsWithByteOrderMark(byte[] body) {
        return body.length > 2 && body[0] == (byte) 0xEF && body[1] == (byte) 0xBB && body[2] == (byte) 0xBF;
    }

    private interface Member {
        void read(String name) throws IOException;
    }

    private interface Element {
        void read() throws IOException;
    }

    /** Reads the object at the current token; anything else is passed over, and the shape says what it was. */
    private Shape object(Member member) throws IOException {
        if (parser.currentToken() != JsonToken.START_OBJECT) {
            return passOver();
        }
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String name = parser.currentName();
            parser.nextToken();
            member.read(name);
        }
        return Shape.IS;
    }

    private Shape array(Element element) throws IOException {
        if (parser.currentToken() != JsonToken.START_ARRAY) {
            return passOver();
        }
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            element.read();
        }
        return Shape.IS;
    }

    private Shape passOver() throws IOException {
        Shape shape = parser.currentToken() == JsonToken.VALUE_NULL ? Shape.ABSENT : Shape.OTHER;
        skip();
        return shape;
    }

    private void skip() throws IOException {
        parser.skipChildren();
        // Strings are read lazily; one that is never read is checked nonetheless.
        parser.finishToken();
    }

    private Submitted event() throws IOException {
        Header[] header = {Header.without(Shape.ABSENT)};
        Body[] eventBody = {Body.without(Shape.ABSENT)};
        Shape shape = object(name -> {
            switch (name) {
                case "eventHeader" -> header[0] = header();
                case "eventBody" -> eventBody[0] = body();
                default -> skip();
            }
        });
        return new Submitted(shape, header[0], eventBody[0]);
    }

    private static final List<String> HEADER = List.of("uuid", "eventName", "createdDate", "savedDate", "eventType");

    private Header header() throws IOException {
        Text[] texts = {Text.ABSENT, Text.ABSENT, Text.ABSENT, Text.ABSENT, Text.ABSENT};
        Shape shape = object(name -> {
            int index = HEADER.indexOf(name);
            if (index >= 0) {
                texts[index] = text();
            } else {
                skip();
            }
        });
        return new Header(shape, texts[0], texts[1], texts[2], texts[3], texts[4]);
    }

    private Body body() throws IOException {
        Shape[] entities = {Shape.ABSENT};
        List<Update> updates = new ArrayList<>();
        Shape shape = object(name -> {
            if (name.equals("entities")) {
                updates.clear();
                entities[0] = array(() -> updates.add(update()));
            } else {
                skip();
            }
        });
        return new Body(shape, entities[0], updates);
    }

    private static final List<String> ENTITY = List.of("entityType", "entityId", "updatedAttributes");

    private Update update() throws IOException {
        Text[] texts = {Text.ABSENT, Text.ABSENT, Text.ABSENT};
        Shape shape = object(name -> {
            int index = ENTITY.indexOf(name);
            if (index < 0) {
                skip();
            } else {
                texts[index] = index == 2 ? attributes() : text();
            }
        });
        return new Update(shape, texts[0], texts[1], texts[2]);
    }

    /** A scalar: a string, or a number as it was written. */
    private Text text() throws IOException {
        return switch (parser.currentToken()) {
            case VALUE_STRING -> new Text(Shape.IS, parser.getText());
            case VALUE_NUMBER_INT, VALUE_NUMBER_FLOAT -> new Text(Shape.NUMBER, parser.getText());
            default -> passOver() == Shape.ABSENT ? Text.ABSENT : Text.OTHER;
        };
    }

    /** An object as it was written. */
    private Text attributes() throws IOException {
        if (parser.currentToken() != JsonToken.START_OBJECT) {
            return passOver() == Shape.ABSENT ? Text.ABSENT : Text.OTHER;
        }
        int start = (int) parser.currentTokenLocation().getByteOffset();
        skip();
        int end = (int) parser.currentLocation().getByteOffset();
        return new Text(Shape.IS, new String(body, start, end - start, StandardCharsets.UTF_8));
    }
}
