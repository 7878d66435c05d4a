package com.example.producer.grpc;

import java.time.Duration;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;

import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;

/**
 * Gives every call a deadline, as if its client had set it, from the head on. The service itself keeps the deadline once it has the
 * message; here a call ends whose message does not arrive.
 */
final class RequestTimeout implements ServerInterceptor {

    private final Duration timeout;
    private final ScheduledExecutorService timers = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "request-timeouts");
        thread.setDaemon(true);
        return thread;
    });

    RequestTimeout(Duration timeout) {
        this.timeout = timeout;
    }

    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
        Context.CancellableContext context =
                Context.current().withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS, timers);
        // Whoever is first: the message, or the end of the time.
        AtomicBoolean decided = new AtomicBoolean();
        context.addListener(ended -> {
            if (ended.cancellationCause() instanceof TimeoutException && decided.compareAndSet(false, true)) {
                call.close(Status.DEADLINE_EXCEEDED.withDescription("Deadline exceeded"), new Metadata());
            }
        }, Runnable::run);
        return new SimpleForwardingServerCallListener<Q>(Contexts.interceptCall(context, call, headers, next)) {
            private boolean arrived;

            @Override
            public void onMessage(Q message) {
                arrived = decided.compareAndSet(false, true);
                if (arrived) {
                    super.onMessage(message);
                }
            }

            @Override
            public void onHalfClose() {
                if (arrived || decided.compareAndSet(false, true)) {
                    super.onHalfClose();
                }
            }

            @Override
            public void onComplete() {
                context.cancel(null);
                super.onComplete();
            }

            @Override
            public void onCancel() {
                context.cancel(null);
                super.onCancel();
            }
        };
    }
}
