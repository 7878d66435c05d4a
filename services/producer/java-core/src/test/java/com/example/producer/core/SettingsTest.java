package com.example.producer.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SettingsTest {

    private static Settings read(Map<String, String> environment) {
        return Settings.read(environment, "SERVER_PORT", 8081, 0);
    }

    @Test
    void defaultsAreThoseOfTheContract() {
        Settings settings = read(Map.of());
        assertThat(settings.databaseUrl()).hasToString("postgresql://postgres:password@localhost:5432/car_entities");
        assertThat(settings.port()).isEqualTo(8081);
        assertThat(settings.poolSize()).isEqualTo(10);
        assertThat(settings.maxBodyBytes()).isEqualTo(1 << 20);
        assertThat(List.of(settings.headTimeout(), settings.bodyTimeout(), settings.idleTimeout(), settings.requestTimeout()))
                .extracting(Duration::toSeconds).containsExactly(10L, 30L, 60L, 60L);
    }

    @ParameterizedTest
    @CsvSource({
        "SERVER_PORT,http", "SERVER_PORT,65536", "SERVER_PORT,+1", "DATABASE_POOL_SIZE,0", "DATABASE_POOL_SIZE,-1",
        "MAX_BODY_BYTES,1MiB", "MAX_BODY_BYTES,99999999999999999999", "SHUTDOWN_TIMEOUT_MS,0", "HEAD_TIMEOUT_MS,0",
        "BODY_TIMEOUT_MS,3600001", "IDLE_TIMEOUT_MS,60s", "REQUEST_TIMEOUT_MS,-1", "HOST,localhost:80",
        "HOST,999.0.0.1", "LOG_LEVEL,loud"
    })
    void aBadValueNamesItsVariable(String name, String value) {
        assertThatThrownBy(() -> read(Map.of(name, value))).hasMessageContaining(name).hasMessageContaining(value);
    }

    @Test
    void aDatabaseUrlIsNotShown() {
        assertThatThrownBy(() -> read(Map.of("DATABASE_URL", "mysql://u:secret@x/y")))
                .hasMessageContaining("DATABASE_URL")
                .message().doesNotContain("secret");
    }
}
