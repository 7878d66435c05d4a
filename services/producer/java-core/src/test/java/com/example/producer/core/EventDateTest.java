package com.example.producer.core;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import org.junit.jupiter.api.Test;

/** The contract suite's own cases. */
class EventDateTest {

    private static List<String> cases(String name) throws IOException {
        JsonMapper mapper = JsonMapper.builder().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS).build();
        List<String> texts = new ArrayList<>();
        for (JsonNode node : mapper.readTree(Path.of("../contract/cases/dates.json").toFile()).get(name)) {
            texts.add(node.asText());
        }
        assertThat(texts).isNotEmpty();
        return texts;
    }

    @Test
    void readsWhatTheContractReads() throws IOException {
        List<String> dates = cases("read");
        // The empty date is "none", which the rules know and the parser does not.
        dates.remove("");
        assertThat(dates).allMatch(EventDate::isDate);
        assertThat(cases("numbers read")).allMatch(EventDate::isEpochMillis);
    }

    @Test
    void refusesWhatTheContractRefuses() throws IOException {
        assertThat(cases("refused")).noneMatch(EventDate::isDate);
        assertThat(cases("numbers refused")).noneMatch(EventDate::isEpochMillis);
    }
}
