package com.example.producer.core;

/**
 * What a JSON text holds that a parser lets pass and PostgreSQL's {@code jsonb} does not.
 *
 * @param depth the deepest nesting of arrays and objects
 * @param nul a string holds the escape of U+0000, which {@code jsonb} cannot store
 * @param loneSurrogate a string holds half of a surrogate pair, which is no Unicode text (RFC 8259 §8.2)
 */
public record JsonScan(int depth, boolean nul, boolean loneSurrogate) {

    /** Levels of arrays and objects that a whole request body may have. */
    public static final int BODY_DEPTH = 256;
    /** Levels that the attributes of one entity may have, the object of attributes itself not counted. */
    public static final int ATTRIBUTE_DEPTH = 64;

    /**
     * Reads a text once, as a lexer would. It is total: what is not JSON gives findings that mean nothing, and a parser
     * says so.
     */
    public static JsonScan of(byte[] text) {
        int depth = 0;
        int deepest = 0;
        boolean nul = false;
        boolean loneSurrogate = false;
        boolean inString = false;
        for (int at = 0; at < text.length; at++) {
            byte c = text[at];
            if (!inString) {
                if (c == '"') {
                    inString = true;
                } else if (c == '{' || c == '[') {
                    deepest = Math.max(deepest, ++depth);
                } else if (c == '}' || c == ']') {
                    depth = Math.max(0, depth - 1);
                }
            } else if (c == '"') {
                inString = false;
            } else if (c == '\\') {
                int unit = codeUnit(text, at);
                if (unit < 0) {
                    at += at + 1 < text.length && text[at + 1] == 'u' ? 5 : 1;
                    continue;
                }
                at += 5;
                if (unit == 0) {
                    nul = true;
                } else if (Character.isHighSurrogate((char) unit) && isLow(codeUnit(text, at + 1))) {
                    at += 6;
                } else if (Character.isSurrogate((char) unit)) {
                    loneSurrogate = true;
                }
            }
        }
        return new JsonScan(deepest, nul, loneSurrogate);
    }

    private static boolean isLow(int unit) {
        return unit >= 0 && Character.isLowSurrogate((char) unit);
    }

    /** The UTF-16 unit that the escape at {@code at} names; -1 where there is none. */
    private static int codeUnit(byte[] text, int at) {
        if (at + 6 > text.length || text[at] != '\\' || text[at + 1] != 'u') {
            return -1;
        }
        int unit = 0;
        for (int i = at + 2; i < at + 6; i++) {
            int digit = Character.digit(text[i], 16);
            if (digit < 0) {
                return -1;
            }
            unit = unit * 16 + digit;
        }
        return unit;
    }

    /** Writes {@code text} as a JSON string. */
    public static void quote(String text, StringBuilder out) {
        out.append('"');
        int start = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c >= ' ' && c != '"' && c != '\\') {
                continue;
            }
            out.append(text, start, i);
            start = i + 1;
            if (c >= ' ') {
                out.append('\\').append(c);
            } else {
                out.append("\\u00").append(Character.forDigit(c >> 4, 16)).append(Character.forDigit(c & 15, 16));
            }
        }
        out.append(text, start, text.length()).append('"');
    }
}
