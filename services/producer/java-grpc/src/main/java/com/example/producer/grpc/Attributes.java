package com.example.producer.grpc;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

import com.example.producer.core.JsonScan;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.StreamReadConstraints;

/** Attributes come as strings; stored they are JSON. */
final class Attributes {

    /** The message's own limit is the limit. */
    private static final JsonFactory JSON = JsonFactory.builder()
            .disable(JsonFactory.Feature.CHARSET_DETECTION)
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxNumberLength(Integer.MAX_VALUE)
                    .maxNameLength(Integer.MAX_VALUE)
                    .maxStringLength(Integer.MAX_VALUE)
                    .maxNestingDepth(2 * JsonScan.BODY_DEPTH)
                    .build())
            .build();

    private Attributes() {
    }

    /** The text of the JSON object that a map of attributes is stored as. */
    static String object(Map<String, String> attributes) {
        int size = 2;
        for (Map.Entry<String, String> attribute : attributes.entrySet()) {
            size += attribute.getKey().length() + attribute.getValue().length() + 6;
        }
        StringBuilder out = new StringBuilder(size).append('{');
        for (Map.Entry<String, String> attribute : attributes.entrySet()) {
            if (out.length() > 1) {
                out.append(',');
            }
            JsonScan.quote(attribute.getKey(), out);
            out.append(':');
            if (isStructured(attribute.getValue())) {
                out.append(attribute.getValue());
            } else {
                JsonScan.quote(attribute.getValue(), out);
            }
        }
        return out.append('}').toString();
    }

    /** Whether {@code text} is a JSON number, boolean, null, object or array; a quoted JSON string is not. */
    private static boolean isStructured(String text) {
        int start = 0;
        while (start < text.length() && " \t\r\n".indexOf(text.charAt(start)) >= 0) {
            start++;
        }
        if (start == text.length() || "-0123456789tfn{[".indexOf(text.charAt(start)) < 0) {
            return false;
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        // Half a surrogate pair is a text that JSON's grammar passes and no store takes. What nests deeper than a whole REST
        // body may is not parsed at all.
        JsonScan found = JsonScan.of(bytes);
        return !found.loneSurrogate() && found.depth() <= JsonScan.BODY_DEPTH && isJson(bytes);
    }

    private static boolean isJson(byte[] text) {
        try (JsonParser parser = JSON.createParser(text)) {
            parser.nextToken();
            parser.skipChildren();
            parser.finishToken();
            return parser.nextToken() == null;
        } catch (IOException e) {
            return false;
        }
    }
}
