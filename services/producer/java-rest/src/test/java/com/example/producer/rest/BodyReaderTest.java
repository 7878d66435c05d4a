package com.example.producer.rest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.util.List;

import com.example.producer.core.Shape;
import com.example.producer.core.Submitted;
import com.example.producer.core.Submitted.Header;
import com.example.producer.core.Submitted.Text;
import com.example.producer.core.Submitted.Update;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class BodyReaderTest {

    private static Submitted one(String body) {
        return BodyReader.one(body.getBytes(StandardCharsets.UTF_8)).events().get(0);
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {"null;ABSENT", "1;OTHER", "1e999;OTHER", "\"x\";OTHER", "[1,{}];OTHER", "false;OTHER", "{};IS"})
    void aBodyOfAnotherTypeIsNoSyntaxError(String body, Shape shape) {
        assertThat(one(body).shape()).isEqualTo(shape);
    }

    @Test
    void numbersStayAsTheyWereWritten() {
        Submitted event = one("{\"eventHeader\":{\"eventName\":7,\"createdDate\":1e400},\"eventBody\":{\"entities\":{}}}");
        assertThat(event.header().eventName()).isEqualTo(new Text(Shape.NUMBER, "7"));
        assertThat(event.header().createdDate()).isEqualTo(new Text(Shape.NUMBER, "1e400"));
        assertThat(event.body().entities()).isEqualTo(Shape.OTHER);
    }

    @Test
    void theLastOfTwoMembersCounts() {
        Header header = one("{\"eventheader\":0,\"eventHeader\":{\"uuid\":\"u\",\"eventName\":\"a\",\"x\":[1e999]},"
                + "\"eventHeader\":{\"eventName\":\"b\\u00e9\"},\"y\":{}}").header();
        assertThat(header.eventName().text()).isEqualTo("bé");
        assertThat(header.uuid().shape()).isEqualTo(Shape.ABSENT);
    }

    @Test
    void attributesStayAsTheyWereWritten() {
        List<Update> updates = one("{\"é\":\"🚗\",\"eventBody\":{\"entities\":"
                + "[{\"updatedAttributes\": {\"é\": 1.10, \"b\":1e400} },null,{\"updatedAttributes\":[]}]}}").body().updates();
        assertThat(updates.get(0).attributes().text()).isEqualTo("{\"é\": 1.10, \"b\":1e400}");
        assertThat(updates.get(1).shape()).isEqualTo(Shape.ABSENT);
        assertThat(updates.get(2).attributes().shape()).isEqualTo(Shape.OTHER);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "{", "{}x", "{'a':1}", "[1,]", "01", "{\"a\":\"\u0001\"}", "{\"a\":\"\\ud800\"}",
        "\ufeff{}", "nul", "NaN", "{\"a\":\"x", "{\0}\0"})
    void whatIsNotJsonIsMalformed(String body) {
        assertThatThrownBy(() -> one(body)).isInstanceOf(MalformedBodyException.class).hasMessage("Malformed JSON");
    }

    @Test
    void bytesThatAreNoUtf8AreMalformed() {
        assertThatThrownBy(() -> BodyReader.one(new byte[] {'"', (byte) 0xFF, '"'})).hasMessage("Malformed JSON");
        assertThatThrownBy(() -> BodyReader.one("{}".getBytes(StandardCharsets.UTF_16LE))).hasMessage("Malformed JSON");
    }

    @Test
    void levelsAreLimited() {
        assertThat(one("[".repeat(256) + "]".repeat(256)).shape()).isEqualTo(Shape.OTHER);
        assertThatThrownBy(() -> one("[".repeat(257))).hasMessage("JSON must not be nested deeper than 256 levels");
        assertThat(BodyReader.one("{}".getBytes(StandardCharsets.UTF_8)).scanAttributes()).isFalse();
        assertThat(BodyReader.one("{\"a\":\"\\u0000\"}".getBytes(StandardCharsets.UTF_8)).scanAttributes()).isTrue();
    }

    @ParameterizedTest
    @CsvSource(nullValues = "none", value = {"none,true", "'',true", "application/json,true",
        "Application/JSON; charset=utf-8,true", "application/x+json,true", "text/plain,false", "application/jsonp,false"})
    void contentTypes(String type, boolean json) {
        assertThat(EventRoutes.isJson(type)).isEqualTo(json);
    }
}
