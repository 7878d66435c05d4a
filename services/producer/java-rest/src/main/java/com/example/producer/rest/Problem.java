package com.example.producer.rest;

import java.util.concurrent.TimeoutException;

import com.example.producer.core.Answers;
import com.example.producer.core.RefusedException;
import com.example.producer.core.StoreException;

import org.springframework.core.io.buffer.DataBufferLimitException;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.reactive.function.server.ServerResponse;
import reactor.core.publisher.Mono;

/** Any response that is not a success, and the one place where an error becomes HTTP. */
record Problem(String error, int status) {

    static Problem of(HttpStatus status, String error) {
        return new Problem(error, status.value());
    }

    static Problem of(Throwable error, int maxBodyBytes) {
        if (error instanceof MalformedBodyException) {
            return of(HttpStatus.BAD_REQUEST, error.getMessage());
        }
        if (error instanceof RefusedException) {
            return of(HttpStatus.UNPROCESSABLE_ENTITY, error.getMessage());
        }
        if (error instanceof DataBufferLimitException) {
            return of(HttpStatus.PAYLOAD_TOO_LARGE, "Request body must not be larger than " + maxBodyBytes + " bytes");
        }
        if (error instanceof SlowBodyException) {
            return of(HttpStatus.REQUEST_TIMEOUT, error.getMessage());
        }
        if (error instanceof TimeoutException) {
            return of(HttpStatus.SERVICE_UNAVAILABLE, Answers.TIMED_OUT);
        }
        if (error instanceof StoreException failure && failure.kind() == StoreException.Kind.UNAVAILABLE) {
            return of(HttpStatus.SERVICE_UNAVAILABLE, Answers.UNAVAILABLE);
        }
        return of(HttpStatus.INTERNAL_SERVER_ERROR, Answers.INTERNAL);
    }

    Mono<ServerResponse> response() {
        return ServerResponse.status(status).contentType(MediaType.APPLICATION_JSON).bodyValue(this);
    }
}
