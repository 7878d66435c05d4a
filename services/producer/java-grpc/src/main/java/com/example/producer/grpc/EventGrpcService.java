package com.example.producer.grpc;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import com.example.grpc.EntityUpdate;
import com.example.grpc.EventHeader;
import com.example.grpc.EventRequest;
import com.example.grpc.EventResponse;
import com.example.grpc.EventServiceGrpc;
import com.example.grpc.HealthRequest;
import com.example.grpc.HealthResponse;
import com.example.producer.core.Answers;
import com.example.producer.core.EventProcessor;
import com.example.producer.core.EventStore;
import com.example.producer.core.ProducerMetrics;
import com.example.producer.core.RefusedException;
import com.example.producer.core.Shape;
import com.example.producer.core.StoreException;
import com.example.producer.core.Submitted;
import com.example.producer.core.Submitted.Body;
import com.example.producer.core.Submitted.Header;
import com.example.producer.core.Submitted.Text;
import com.example.producer.core.Submitted.Update;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import reactor.core.publisher.SignalType;

/** {@code com.example.grpc.EventService}. Nothing here blocks: a call subscribes and its thread goes on. */
class EventGrpcService extends EventServiceGrpc.EventServiceImplBase {

    private static final EventResponse STORED =
            EventResponse.newBuilder().setSuccess(true).setMessage(Answers.STORED).build();

    private final EventProcessor processor;
    private final EventStore store;
    private final ProducerMetrics metrics;

    EventGrpcService(EventProcessor processor, EventStore store, ProducerMetrics metrics) {
        this.processor = processor;
        this.store = store;
        this.metrics = metrics;
    }

    @Override
    public void processEvent(EventRequest request, StreamObserver<EventResponse> observer) {
        answer("process_event", processor.process(submitted(request), true).thenReturn(STORED), observer);
    }

    @Override
    public void healthCheck(HealthRequest request, StreamObserver<HealthResponse> observer) {
        Mono<HealthResponse> work = store.isUp().map(up -> HealthResponse.newBuilder()
                .setHealthy(up)
                .setMessage(up ? Answers.HEALTHY : Answers.UNAVAILABLE)
                .build());
        answer("health", work, observer);
    }

    /** Completes a call with the outcome of {@code work}, within its deadline, and counts it. */
    private <T> void answer(String operation, Mono<T> work, StreamObserver<T> observer) {
        long start = System.nanoTime();
        Deadline deadline = Context.current().getDeadline();
        if (deadline != null) {
            work = work.timeout(Duration.ofNanos(Math.max(0, deadline.timeRemaining(TimeUnit.NANOSECONDS))));
        }
        ServerCallStreamObserver<T> call = (ServerCallStreamObserver<T>) observer;
        Disposable running = work
                .doFinally(signal -> {
                    if (signal == SignalType.CANCEL) {
                        metrics.answered(operation, "CANCELLED", start);
                    }
                })
                .subscribe(
                        response -> {
                            metrics.answered(operation, "OK", start);
                            call.onNext(response);
                            call.onCompleted();
                        },
                        error -> {
                            Status status = status(error);
                            metrics.answered(operation, status.getCode().name(), start);
                            call.onError(status.asRuntimeException());
                        });
        call.setOnCancelHandler(running::dispose);
    }

    /** The one place where an error becomes a gRPC status. */
    private static Status status(Throwable error) {
        if (error instanceof RefusedException) {
            return Status.INVALID_ARGUMENT.withDescription(error.getMessage());
        }
        if (error instanceof TimeoutException) {
            return Status.DEADLINE_EXCEEDED.withDescription("Deadline exceeded");
        }
        if (error instanceof StoreException failure && failure.kind() == StoreException.Kind.UNAVAILABLE) {
            return Status.UNAVAILABLE.withDescription(Answers.UNAVAILABLE);
        }
        return Status.INTERNAL.withDescription(Answers.INTERNAL);
    }

    private static Submitted submitted(EventRequest request) {
        return new Submitted(Shape.IS,
                request.hasEventHeader() ? header(request.getEventHeader()) : Header.without(Shape.ABSENT),
                request.hasEventBody() ? body(request.getEventBody().getEntitiesList()) : Body.without(Shape.ABSENT));
    }

    private static Header header(EventHeader header) {
        return new Header(Shape.IS, Text.ofProto(header.getUuid()), Text.ofProto(header.getEventName()),
                Text.ofProto(header.getCreatedDate()), Text.ofProto(header.getSavedDate()),
                Text.ofProto(header.getEventType()));
    }

    private static Body body(List<EntityUpdate> entities) {
        List<Update> updates = new ArrayList<>(entities.size());
        for (EntityUpdate entity : entities) {
            updates.add(new Update(Shape.IS, Text.ofProto(entity.getEntityType()), Text.ofProto(entity.getEntityId()),
                    new Text(Shape.IS, Attributes.object(entity.getUpdatedAttributesMap()))));
        }
        return new Body(Shape.IS, Shape.IS, updates);
    }
}
