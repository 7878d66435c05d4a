package com.example.producer.core;

import com.example.producer.core.ProducerMetrics.Fate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import reactor.core.publisher.Mono;

/** Checks, stores and counts one event: what both protocols do with what they read. */
public class EventProcessor {

    private static final Logger log = LoggerFactory.getLogger(EventProcessor.class);

    private final EventStore store;
    private final ProducerMetrics metrics;
    private final int maxEntities;

    public EventProcessor(EventStore store, ProducerMetrics metrics, Settings settings) {
        this.store = store;
        this.metrics = metrics;
        this.maxEntities = settings.maxEntities();
    }

    /** Completes once the event is committed; fails with a {@link RefusedException} or a {@link StoreException}. */
    public Mono<Void> process(Submitted submitted, boolean scanAttributes) {
        return Mono.fromSupplier(() -> EventCheck.check(submitted, maxEntities, scanAttributes))
                .flatMap(event -> store.store(event).doOnSuccess(done -> metrics.stored(event.entities())))
                .doOnError(this::count)
                .doOnCancel(() -> metrics.event(Fate.FAILED));
    }

    private void count(Throwable error) {
        if (error instanceof RefusedException) {
            metrics.event(Fate.REFUSED);
            return;
        }
        metrics.event(Fate.FAILED);
        if (error instanceof StoreException failure && failure.kind() == StoreException.Kind.UNAVAILABLE) {
            log.atWarn().addKeyValue("error", error.getMessage()).log("event not stored");
        } else {
            log.atError().addKeyValue("error", error.toString()).log("event not stored");
        }
    }
}
