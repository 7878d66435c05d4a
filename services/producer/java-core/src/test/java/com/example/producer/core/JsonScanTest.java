package com.example.producer.core;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.api.Test;

class JsonScanTest {

    private static JsonScan scan(String text) {
        return JsonScan.of(text.getBytes(StandardCharsets.UTF_8));
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', quoteCharacter = '`', value = {
        "1;0;false;false",
        "{\"a\":[{}],\"[[[[\":\"}{{{\\\"[[\"};3;false;false",
        "]]][;1;false;false",
        "{\"a\":\"x\\u0000\"};1;true;false",
        "{\"\\u0000\":1};1;true;false",
        "{\"a\":\"\\\\u0000\"};1;false;false",
        "\"\\ud83d\\ude00\";0;false;false",
        "\"\\ud83d\";0;false;true",
        "\"\\ude00\";0;false;true",
        "\"\\ud83d\\u0041\";0;false;true",
        "\"\\ud83d\\ud83d\\ude00\";0;false;true",
        "\"\\u00;0;false;false",
        "\"\\;0;false;false",
        "\"\\u12g4\\u0000\";0;true;false"
    })
    void finds(String text, int depth, boolean nul, boolean loneSurrogate) {
        assertThat(scan(text)).isEqualTo(new JsonScan(depth, nul, loneSurrogate));
    }

    @Test
    void quotes() {
        StringBuilder out = new StringBuilder();
        JsonScan.quote("a\"b\\c\td\0é🚗", out);
        assertThat(out).hasToString("\"a\\\"b\\\\c\\u0009d\\u0000é🚗\"");
    }
}
