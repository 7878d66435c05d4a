package com.example.producer.core;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Timer;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;

/** What /metrics shows; names and labels are equal in all six services. */
public class ProducerMetrics {

    /** Upper bounds of the duration buckets. */
    private static final Duration[] BUCKETS = {
        Duration.ofMillis(1), Duration.ofNanos(2_500_000), Duration.ofMillis(5), Duration.ofMillis(10), Duration.ofMillis(25),
        Duration.ofMillis(50), Duration.ofMillis(100), Duration.ofMillis(250), Duration.ofMillis(500), Duration.ofSeconds(1),
        Duration.ofMillis(2500)
    };

    /** What became of an event. */
    public enum Fate {
        STORED("stored"), REFUSED("refused"), FAILED("failed");

        private final String label;

        Fate(String label) {
            this.label = label;
        }
    }

    private record Answer(String operation, String code) {
    }

    private final PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    private final Map<Answer, Counter> requests = new ConcurrentHashMap<>();
    private final Map<String, Timer> durations = new ConcurrentHashMap<>();
    private final Map<Fate, Counter> events = new ConcurrentHashMap<>();
    private final Counter entities;

    public ProducerMetrics(EventStore store) {
        entities = Counter.builder("producer.entities").description("Entity updates committed").register(registry);
        Gauge.builder("producer.database.connections", store, EventStore::usedConnections)
                .description("Open connections to PostgreSQL").tag("state", "used").register(registry);
        Gauge.builder("producer.database.connections", store, EventStore::idleConnections)
                .description("Open connections to PostgreSQL").tag("state", "idle").register(registry);
    }

    /**
     * Counts one finished request.
     *
     * @param code the HTTP status or the gRPC code's name
     * @param start {@link System#nanoTime()} when it came
     */
    public void answered(String operation, String code, long start) {
        requests.computeIfAbsent(new Answer(operation, code), this::requestCounter).increment();
        durations.computeIfAbsent(operation, this::timer).record(Duration.ofNanos(System.nanoTime() - start));
    }

    /** Counts one event that was stored, with its entities. */
    public void stored(int entityCount) {
        event(Fate.STORED);
        entities.increment(entityCount);
    }

    /** Counts one event. */
    public void event(Fate fate) {
        events.computeIfAbsent(fate, this::eventCounter).increment();
    }

    /** The text of /metrics. */
    public String scrape() {
        return registry.scrape();
    }

    private Counter requestCounter(Answer answer) {
        return Counter.builder("producer.requests").description("Completed requests, by operation and status")
                .tag("operation", answer.operation()).tag("code", answer.code()).register(registry);
    }

    private Timer timer(String operation) {
        return Timer.builder("producer.request.duration").description("Time from the request to its response")
                .serviceLevelObjectives(BUCKETS).tag("operation", operation).register(registry);
    }

    private Counter eventCounter(Fate fate) {
        return Counter.builder("producer.events").description("Events, by what became of them")
                .tag("outcome", fate.label).register(registry);
    }
}
