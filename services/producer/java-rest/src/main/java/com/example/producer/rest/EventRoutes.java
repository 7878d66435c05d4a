package com.example.producer.rest;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;

import com.example.producer.core.Answers;
import com.example.producer.core.EventProcessor;
import com.example.producer.core.EventStore;
import com.example.producer.core.ProducerMetrics;
import com.example.producer.core.RefusedException;
import com.example.producer.core.Settings;
import com.example.producer.core.Shape;
import com.example.producer.core.StoreException;
import com.example.producer.core.Submitted;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpMethod;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.reactive.function.server.HandlerFunction;
import org.springframework.web.reactive.function.server.RequestPredicates;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerRequest;
import org.springframework.web.reactive.function.server.ServerResponse;

/** Routes and responses. */
class EventRoutes {

    private static final Logger log = LoggerFactory.getLogger(EventRoutes.class);
    private static final String EVENTS = "/api/v1/events";
    /** The attribute under which a request keeps its body. */
    private static final String BODY = EventRoutes.class.getName() + ".body";

    private final EventProcessor processor;
    private final EventStore store;
    private final ProducerMetrics metrics;
    private final Settings settings;

    EventRoutes(EventProcessor processor, EventStore store, ProducerMetrics metrics, Settings settings) {
        this.processor = processor;
        this.store = store;
        this.metrics = metrics;
        this.settings = settings;
    }

    record StoredAnswer(boolean success, String message) {
    }

    record HealthAnswer(String status, String message) {
    }

    record BulkAnswer(boolean success, String message, int processedCount, int failedCount, UUID batchId,
            long processingTimeMs, List<BulkError> errors) {
    }

    record BulkError(int index, String error) {
    }

    /** The routes of the contract, and /metrics. */
    RouterFunction<ServerResponse> routes() {
        return RouterFunctions.route()
                .POST(EVENTS, counted("process_event", this::processEvent))
                .POST(EVENTS + "/bulk", counted("process_events", this::processEvents))
                .GET(EVENTS + "/health", counted("health", request -> health()))
                .HEAD(EVENTS + "/health", counted("health", request -> health()))
                .GET("/metrics", request -> ServerResponse.ok()
                        .header(HttpHeaders.CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")
                        .bodyValue(metrics.scrape()))
                .route(RequestPredicates.path(EVENTS).or(RequestPredicates.path(EVENTS + "/bulk")),
                        request -> methodNotAllowed(HttpMethod.POST))
                .route(RequestPredicates.path(EVENTS + "/health"), request -> methodNotAllowed(HttpMethod.GET))
                .route(RequestPredicates.all(), request -> Problem.of(HttpStatus.NOT_FOUND, "Not found").response())
                .filter(this::afterBody)
                .build();
    }

    /**
     * Reads the body, also one that will not be used, before any response. A client that has not finished sending may
     * never see a response; and Reactor Netty 1.2.18 stops reading a connection for good when a request that came while the
     * one before was still being finished gets its response at once, its end unread.
     */
    private Mono<ServerResponse> afterBody(ServerRequest request, HandlerFunction<ServerResponse> next) {
        ReceivedBody body = new ReceivedBody(settings.maxBodyBytes());
        return request.exchange().getRequest().getBody()
                .doOnNext(body::add)
                .takeUntil(buffer -> body.isHopeless())
                .then()
                .timeout(settings.bodyTimeout())
                .onErrorResume(error -> {
                    body.fail(error);
                    return Mono.empty();
                })
                .then(Mono.defer(() -> {
                    if (body.isUnread()) {
                        request.exchange().getResponse().getHeaders().set(HttpHeaders.CONNECTION, "close");
                    }
                    request.attributes().put(BODY, body);
                    return next.handle(request);
                }));
    }

    private static Mono<ServerResponse> methodNotAllowed(HttpMethod allowed) {
        return ServerResponse.status(HttpStatus.METHOD_NOT_ALLOWED)
                .allow(allowed)
                .contentType(MediaType.APPLICATION_JSON)
                .bodyValue(Problem.of(HttpStatus.METHOD_NOT_ALLOWED, "Method not allowed"));
    }

    /** The code of a request whose client disconnected before its response (nginx's, there is no registered one). */
    private static final String CLIENT_DISCONNECTED = "499";

    /**
     * Turns errors into responses and counts a request once its response is complete. The work of a request whose client
     * disconnected is cancelled; that is counted too, and logged in one line.
     */
    private HandlerFunction<ServerResponse> counted(String operation,
            Function<ServerRequest, Mono<ServerResponse>> handle) {
        return request -> {
            long start = System.nanoTime();
            Runnable aborted = () -> {
                log.atWarn().addKeyValue("operation", operation).log("request aborted");
                metrics.answered(operation, CLIENT_DISCONNECTED, start);
            };
            return Mono.defer(() -> handle.apply(request))
                    .onErrorResume(error -> error instanceof AbortedBodyException ? Mono.error(error)
                            : Problem.of(error, settings.maxBodyBytes()).response())
                    .doOnNext(response -> metrics.answered(operation, String.valueOf(response.statusCode().value()), start))
                    .doOnCancel(aborted)
                    .onErrorResume(AbortedBodyException.class, error -> {
                        aborted.run();
                        return Problem.of(MalformedBodyException.json(), settings.maxBodyBytes()).response();
                    });
        };
    }

    private Mono<ServerResponse> processEvent(ServerRequest request) {
        return withJson(request, bytes -> {
            BodyReader.Events read = BodyReader.one(bytes);
            return processor.process(read.events().get(0), read.scanAttributes())
                    .timeout(settings.requestTimeout())
                    .then(json(HttpStatus.OK, new StoredAnswer(true, Answers.STORED)));
        });
    }

    private Mono<ServerResponse> processEvents(ServerRequest request) {
        long start = System.nanoTime();
        return withJson(request, bytes -> {
            BodyReader.Events read = BodyReader.many(bytes);
            if (read.shape() != Shape.IS) {
                throw new RefusedException("Request body must be an array of events");
            }
            int count = read.events().size();
            if (count == 0) {
                throw new RefusedException("Request body must contain at least one event");
            }
            if (count > settings.maxEvents()) {
                throw new RefusedException("Request body must not contain more than " + settings.maxEvents() + " events");
            }
            Batch batch = new Batch();
            return Flux.range(0, count)
                    .concatMap(index -> apply(batch, index, read.events().get(index), read.scanAttributes()))
                    .then()
                    .timeout(settings.requestTimeout())
                    .onErrorResume(TimeoutException.class, error -> {
                        stop(batch, count, error);
                        return Mono.empty();
                    })
                    .then(Mono.defer(() -> answer(batch, count, start)));
        });
    }

    /** What is known of a bulk so far. Its events are applied one after the other, so it needs no lock. */
    private static final class Batch {
        final List<BulkError> errors = new ArrayList<>();
        /** Events that are stored or known to have failed. */
        int done;
        /** Why the rest is not tried. */
        Throwable stoppedBy;
    }

    /**
     * Applies one event of a bulk. Each waits for the one before, so that a later one wins where two name the same
     * attribute. Once the database is away the rest is not tried: each would only wait for the same response.
     */
    private Mono<Void> apply(Batch batch, int index, Submitted event, boolean scanAttributes) {
        Mono<Void> work;
        if (batch.stoppedBy != null) {
            metrics.event(ProducerMetrics.Fate.FAILED);
            work = Mono.error(batch.stoppedBy);
        } else {
            work = processor.process(event, scanAttributes);
        }
        return work.onErrorResume(error -> {
            if (error instanceof StoreException failure && failure.kind() == StoreException.Kind.UNAVAILABLE) {
                batch.stoppedBy = failure;
            }
            batch.errors.add(new BulkError(index, Problem.of(error, settings.maxBodyBytes()).error()));
            return Mono.empty();
        }).doOnTerminate(() -> batch.done++);
    }

    /** The time is over: the event that was being stored is cancelled, the others are not tried. */
    private void stop(Batch batch, int count, TimeoutException reason) {
        batch.stoppedBy = reason;
        for (int index = batch.done; index < count; index++) {
            if (index > batch.done) {
                metrics.event(ProducerMetrics.Fate.FAILED);
            }
            batch.errors.add(new BulkError(index, Answers.TIMED_OUT));
        }
    }

    private static Mono<ServerResponse> answer(Batch batch, int count, long start) {
        int failed = batch.errors.size();
        if (failed == count && batch.stoppedBy != null) {
            return Mono.error(batch.stoppedBy);
        }
        String message = failed == 0 ? "All events processed successfully" : failed + " of " + count + " events failed";
        long millis = (System.nanoTime() - start + 999_999) / 1_000_000;
        return json(HttpStatus.OK,
                new BulkAnswer(failed == 0, message, count - failed, failed, UUID.randomUUID(), millis, batch.errors));
    }

    private Mono<ServerResponse> health() {
        return store.isUp().flatMap(up -> up
                ? json(HttpStatus.OK, new HealthAnswer("healthy", Answers.HEALTHY))
                : json(HttpStatus.SERVICE_UNAVAILABLE, new HealthAnswer("unhealthy", Answers.UNAVAILABLE)));
    }

    private static Mono<ServerResponse> json(HttpStatus status, Object body) {
        return ServerResponse.status(status).contentType(MediaType.APPLICATION_JSON).bodyValue(body);
    }

    /** Hands over a body up to the limit, which says that it is JSON, or says nothing. */
    private static Mono<ServerResponse> withJson(ServerRequest request, Function<byte[], Mono<ServerResponse>> work) {
        byte[] bytes = ((ReceivedBody) request.attribute(BODY).orElseThrow()).bytes();
        if (!isJson(request.headers().asHttpHeaders().getFirst(HttpHeaders.CONTENT_TYPE))) {
            return Problem.of(HttpStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json").response();
        }
        return work.apply(bytes);
    }

    /** {@code application/json}, {@code application/*+json}, with or without parameters, or no type at all. */
    static boolean isJson(String contentType) {
        String essence = contentType == null ? "" : contentType.split(";", 2)[0].trim().toLowerCase(Locale.ROOT);
        return essence.isEmpty() || essence.equals("application/json")
                || essence.startsWith("application/") && essence.endsWith("+json");
    }
}
