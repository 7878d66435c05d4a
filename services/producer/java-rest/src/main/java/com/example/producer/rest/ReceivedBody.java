package com.example.producer.rest;

import java.io.ByteArrayOutputStream;
import java.util.concurrent.TimeoutException;

import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferLimitException;
import org.springframework.core.io.buffer.DataBufferUtils;

/** A body as it comes: kept up to the limit; what is beyond is read and dropped, so that the response can be seen. */
final class ReceivedBody {

    /** How many times the limit is read of a body that is too large, before the connection is given up. */
    private static final int PATIENCE = 8;

    private final ByteArrayOutputStream kept = new ByteArrayOutputStream();
    private final int limit;
    private long seen;
    private RuntimeException failure;

    ReceivedBody(int limit) {
        this.limit = limit;
    }

    void add(DataBuffer buffer) {
        int count = buffer.readableByteCount();
        seen += count;
        if (seen <= limit) {
            byte[] bytes = new byte[count];
            buffer.read(bytes);
            kept.writeBytes(bytes);
        }
        DataBufferUtils.release(buffer);
    }

    /** Whether so much came that the rest is not worth reading. */
    boolean isHopeless() {
        return seen > (long) limit * PATIENCE;
    }

    /** The body ended before its end: the client was too slow, or disconnected. */
    void fail(Throwable error) {
        failure = error instanceof TimeoutException ? new SlowBodyException() : new AbortedBodyException(error);
    }

    /** Whether the rest of the body is not read, so that the connection cannot have another request. */
    boolean isUnread() {
        return isHopeless() || failure != null;
    }

    /** All of the body; {@link DataBufferLimitException} when it is larger than the limit. */
    byte[] bytes() {
        if (failure != null) {
            throw failure;
        }
        if (seen > limit) {
            throw new DataBufferLimitException("more than " + limit + " bytes");
        }
        return kept.toByteArray();
    }
}
