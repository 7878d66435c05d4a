package com.example.producer.grpc;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

import com.example.grpc.EventServiceGrpc;
import com.example.producer.core.EventStore;
import com.example.producer.core.Settings;
import io.grpc.Server;
import io.grpc.ServerInterceptors;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.protobuf.services.ProtoReflectionServiceV1;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;

import org.springframework.context.SmartLifecycle;

/** The server with the event service, standard health and reflection; it starts last and stops first. */
class GrpcServer implements SmartLifecycle {

    private static final Logger log = LoggerFactory.getLogger(GrpcServer.class);
    /** How often grpc.health.v1 looks at the database. */
    private static final Duration HEALTH_INTERVAL = Duration.ofSeconds(1);

    private final Settings settings;
    private final EventStore store;
    private final EventGrpcService events;
    private final HealthStatusManager health = new HealthStatusManager();
    private Server server;
    private Disposable watch;

    GrpcServer(Settings settings, EventStore store, EventGrpcService events) {
        this.settings = settings;
        this.store = store;
        this.events = events;
    }

    @Override
    @SuppressWarnings("deprecation") // many clients still speak v1alpha of reflection
    public void start() {
        report(Boolean.TRUE.equals(store.isUp().block()));
        watch = Flux.interval(HEALTH_INTERVAL).onBackpressureDrop().concatMap(tick -> store.isUp(), 1).subscribe(this::report);
        InetSocketAddress address = new InetSocketAddress(settings.host(), settings.port());
        try {
            server = NettyServerBuilder.forAddress(address)
                    // Handlers only check and hand over to R2DBC: they may run on the event loops.
                    .directExecutor()
                    .maxInboundMessageSize(settings.maxBodyBytes())
                    .handshakeTimeout(settings.headTimeout().toMillis(), TimeUnit.MILLISECONDS)
                    .keepAliveTime(settings.idleTimeout().toMillis(), TimeUnit.MILLISECONDS)
                    .keepAliveTimeout(settings.headTimeout().toMillis(), TimeUnit.MILLISECONDS)
                    // A client may ping as often as it wants: Tonic does not count pings.
                    .permitKeepAliveTime(0, TimeUnit.NANOSECONDS)
                    .permitKeepAliveWithoutCalls(true)
                    .addService(ServerInterceptors.intercept(events, new RequestTimeout(settings.requestTimeout())))
                    .addService(health.getHealthService())
                    .addService(ProtoReflectionServiceV1.newInstance())
                    .addService(io.grpc.protobuf.services.ProtoReflectionService.newInstance())
                    .build()
                    .start();
        } catch (IOException e) {
            throw new IllegalStateException("cannot listen on " + address.getAddress().getHostAddress() + ":" + address.getPort(), e);
        }
        log.atInfo()
                .addKeyValue("what", "grpc")
                .addKeyValue("address", settings.host().getHostAddress() + ":" + server.getPort())
                .log("listening");
    }

    private void report(boolean up) {
        ServingStatus status = up ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
        health.setStatus(HealthStatusManager.SERVICE_NAME_ALL_SERVICES, status);
        health.setStatus(EventServiceGrpc.SERVICE_NAME, status);
    }

    /** Says NOT_SERVING, takes no new calls and waits for those in flight. */
    @Override
    public void stop() {
        log.info("stopping");
        watch.dispose();
        health.enterTerminalState();
        server.shutdown();
        try {
            if (!server.awaitTermination(settings.shutdownTimeout().toMillis(), TimeUnit.MILLISECONDS)) {
                log.warn("calls in flight did not end before the deadline");
                server.shutdownNow();
            }
        } catch (InterruptedException e) {
            server.shutdownNow();
            Thread.currentThread().interrupt();
        }
        server = null;
    }

    @Override
    public boolean isRunning() {
        return server != null;
    }
}
