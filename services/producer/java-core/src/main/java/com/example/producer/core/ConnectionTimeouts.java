package com.example.producer.core;

import java.time.Duration;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import io.netty.channel.Channel;
import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.ChannelPromise;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpStatusClass;
import io.netty.handler.codec.http.LastHttpContent;
import reactor.netty.NettyPipeline;
import reactor.netty.http.server.HttpServer;

/**
 * Closes a connection whose next request does not come, or not to the end of its head. Reactor Netty has a timeout for silence
 * only, which a byte now and then keeps from passing.
 */
public final class ConnectionTimeouts {

    private final Channel channel;
    private final Duration head;
    private final Duration idle;
    /** Requests whose response has not been written; pipelined ones come together. */
    private int inFlight;
    private boolean waitsForHead;
    private Future<?> timer;

    private ConnectionTimeouts(Channel channel, Duration head, Duration idle) {
        this.channel = channel;
        this.head = head;
        this.idle = idle;
    }

    /** Gives every connection of {@code server} the timeouts for a head and between two requests. */
    public static HttpServer on(HttpServer server, Settings settings) {
        return server.doOnChannelInit((observer, channel, remote) ->
                new ConnectionTimeouts(channel, settings.headTimeout(), settings.idleTimeout()).install(channel.pipeline()));
    }

    private void install(ChannelPipeline pipeline) {
        pipeline.addBefore(NettyPipeline.HttpCodec, "producer.bytes", new Bytes());
        pipeline.addAfter(NettyPipeline.HttpCodec, "producer.messages", new Messages());
    }

    // All of this happens on the channel's event loop.

    private void closeAfter(Duration after, boolean waitsForHead) {
        cancel();
        this.waitsForHead = waitsForHead;
        timer = channel.eventLoop().schedule(() -> channel.close(), after.toNanos(), TimeUnit.NANOSECONDS);
    }

    private void cancel() {
        if (timer != null) {
            timer.cancel(false);
            timer = null;
        }
    }

    /** Before the codec: sees the first byte of a head. */
    private final class Bytes extends ChannelInboundHandlerAdapter {

        @Override
        public void channelActive(ChannelHandlerContext context) {
            closeAfter(head, true);
            context.fireChannelActive();
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            cancel();
            context.fireChannelInactive();
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object bytes) {
            if (timer != null && !waitsForHead) {
                closeAfter(head, true);
            }
            context.fireChannelRead(bytes);
        }
    }

    /** After the codec: sees the end of a head, and the end of a response. */
    private final class Messages extends ChannelDuplexHandler {

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            if (message instanceof HttpRequest) {
                inFlight++;
                cancel();
            }
            context.fireChannelRead(message);
        }

        @Override
        public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) {
            boolean interim = message instanceof HttpResponse response
                    && response.status().codeClass() == HttpStatusClass.INFORMATIONAL;
            if (message instanceof LastHttpContent && !interim && --inFlight == 0 && channel.isActive()) {
                closeAfter(idle, false);
            }
            context.write(message, promise);
        }
    }
}
