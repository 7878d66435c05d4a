package com.example.producer.core;

/** The dates an event may carry: ISO 8601 or epoch milliseconds. */
public final class EventDate {

    /** Milliseconds either side of 1970 that a date may name: the range of ECMAScript's Date. */
    private static final double EPOCH_RANGE = 8.64e15;

    private final String text;
    private int at;

    private EventDate(String text, int at) {
        this.text = text;
        this.at = at;
    }

    /**
     * Whether {@code text} names a moment: epoch milliseconds written as a JSON number, or ISO 8601 in its extended form, a
     * date alone or a date and a time with or without a zone.
     */
    public static boolean isDate(String text) {
        return isJsonNumber(text) ? isEpochMillis(text) : new EventDate(text, 0).iso();
    }

    /** Whether a JSON number is a moment in milliseconds. */
    public static boolean isEpochMillis(String number) {
        return Math.abs(Double.parseDouble(number)) <= EPOCH_RANGE;
    }

    /** The grammar of RFC 8259 §6. */
    private static boolean isJsonNumber(String text) {
        EventDate rest = new EventDate(text, text.startsWith("-") ? 1 : 0);
        int first = rest.at;
        int whole = rest.digits();
        if (whole == 0 || whole > 1 && text.charAt(first) == '0') {
            return false;
        }
        if (rest.take(".") && rest.digits() == 0) {
            return false;
        }
        if (rest.take("eE")) {
            rest.take("+-");
            if (rest.digits() == 0) {
                return false;
            }
        }
        return rest.atEnd();
    }

    /**
     * {@code YYYY-MM-DD}, then nothing or T, t or a space and {@code hh:mm}, {@code hh:mm:ss} or {@code hh:mm:ss.f} (one to
     * nine digits, comma or point), then nothing, Z, {@code ±hh}, {@code ±hhmm} or {@code ±hh:mm}.
     */
    private boolean iso() {
        int year = number(4, 0, 9999);
        if (year < 0 || !take("-")) {
            return false;
        }
        int month = number(2, 1, 12);
        if (month < 0 || !take("-") || number(2, 1, daysIn(year, month)) < 0) {
            return false;
        }
        return atEnd() || take("Tt ") && clock() && zone();
    }

    private boolean clock() {
        if (number(2, 0, 23) < 0 || !take(":") || number(2, 0, 59) < 0) {
            return false;
        }
        if (!take(":")) {
            return true;
        }
        if (number(2, 0, 59) < 0) {
            return false;
        }
        if (take(".,")) {
            int fraction = digits();
            return fraction >= 1 && fraction <= 9;
        }
        return true;
    }

    private boolean zone() {
        if (!take("+-")) {
            take("Zz");
            return atEnd();
        }
        if (number(2, 0, 23) < 0) {
            return false;
        }
        if ((take(":") || !atEnd()) && number(2, 0, 59) < 0) {
            return false;
        }
        return atEnd();
    }

    private static int daysIn(int year, int month) {
        return switch (month) {
            case 2 -> year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
            case 4, 6, 9, 11 -> 30;
            default -> 31;
        };
    }

    private boolean atEnd() {
        return at == text.length();
    }

    /** Passes over one character when it is one of {@code any}. */
    private boolean take(String any) {
        if (atEnd() || any.indexOf(text.charAt(at)) < 0) {
            return false;
        }
        at++;
        return true;
    }

    /** Passes over the longest run of digits; gives its length. */
    private int digits() {
        int start = at;
        while (!atEnd() && isDigit(text.charAt(at))) {
            at++;
        }
        return at - start;
    }

    /** Passes over exactly {@code width} digits that name a number from low to high; -1 where there are none. */
    private int number(int width, int low, int high) {
        if (text.length() - at < width) {
            return -1;
        }
        int value = 0;
        for (int end = at + width; at < end; at++) {
            if (!isDigit(text.charAt(at))) {
                return -1;
            }
            value = value * 10 + text.charAt(at) - '0';
        }
        return value >= low && value <= high ? value : -1;
    }

    private static boolean isDigit(char c) {
        return c >= '0' && c <= '9';
    }
}
