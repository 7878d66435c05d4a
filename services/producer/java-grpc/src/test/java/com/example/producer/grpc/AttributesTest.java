package com.example.producer.grpc;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class AttributesTest {

    private static String one(String value) {
        return Attributes.object(Map.of("k", value));
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "-1.50", "1e5", "true", "false", "null", "{}", "{\"a\":[1,\"x\"]}", "[]", " 42\n"})
    void whatParsesAsJsonIsStoredAsSuch(String value) {
        assertThat(one(value)).isEqualTo("{\"k\":" + value + "}");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', quoteCharacter = '`', value = {
        "``;\"\"", "red;\"red\"", "\"quoted\";\"\\\"quoted\\\"\"", "007;\"007\"", "+1;\"+1\"", "NaN;\"NaN\"", "True;\"True\"",
        "1 2;\"1 2\"", "{'a':1};\"{'a':1}\"", "[\"\\ud800\"];\"[\\\"\\\\ud800\\\"]\"", "[\"x;\"[\\\"x\""
    })
    void anythingElseIsAString(String value, String stored) {
        assertThat(one(value)).isEqualTo("{\"k\":" + stored + "}");
    }

    @Test
    void whatNestsDeeperThanABodyMayIsNotParsed() {
        String parsed = "[".repeat(256) + "]".repeat(256);
        String deeper = "[" + parsed + "]";
        assertThat(one(parsed)).isEqualTo("{\"k\":" + parsed + "}");
        assertThat(one(deeper)).isEqualTo("{\"k\":\"" + deeper + "\"}");
    }
}
