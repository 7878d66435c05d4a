package com.example.producer.core;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;

import io.r2dbc.spi.R2dbcNonTransientResourceException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class EventStoreTest {

    private static Throwable classified(String state) {
        return EventStore.classified(new R2dbcNonTransientResourceException("x", state));
    }

    @ParameterizedTest
    @CsvSource({
        "08006,UNAVAILABLE", "40P01,UNAVAILABLE", "53300,UNAVAILABLE", "57014,UNAVAILABLE", "25006,UNAVAILABLE",
        "42P01,FAILED", "23505,FAILED", "25001,FAILED"
    })
    void sortsBySqlState(String state, StoreException.Kind kind) {
        assertThat(((StoreException) classified(state)).kind()).isEqualTo(kind);
    }

    @Test
    void whatPostgresqlCannotStoreIsRefused() {
        assertThat(classified("22003")).isInstanceOf(RefusedException.class).hasMessage("Attributes cannot be stored as JSON");
    }

    @Test
    void aBrokenConnectionMeansThatTheDatabaseIsAway() {
        assertThat(((StoreException) classified(null)).kind()).isEqualTo(StoreException.Kind.UNAVAILABLE);
        assertThat(((StoreException) EventStore.classified(new IOException("reset"))).kind())
                .isEqualTo(StoreException.Kind.UNAVAILABLE);
        assertThat(((StoreException) EventStore.classified(new IllegalStateException())).kind())
                .isEqualTo(StoreException.Kind.FAILED);
    }
}
