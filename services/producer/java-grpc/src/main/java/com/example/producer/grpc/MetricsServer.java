package com.example.producer.grpc;

import com.example.producer.core.ConnectionTimeouts;
import com.example.producer.core.ProducerMetrics;
import com.example.producer.core.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

import org.springframework.context.SmartLifecycle;

/** {@code GET /metrics} on a port of its own; stops after the gRPC server, so that its last moments can be seen. */
class MetricsServer implements SmartLifecycle {

    private static final Logger log = LoggerFactory.getLogger(MetricsServer.class);

    private final Settings settings;
    private final ProducerMetrics metrics;
    private DisposableServer server;

    MetricsServer(Settings settings, ProducerMetrics metrics) {
        this.settings = settings;
        this.metrics = metrics;
    }

    @Override
    public void start() {
        server = ConnectionTimeouts.on(HttpServer.create(), settings)
                .host(settings.host().getHostAddress())
                .port(settings.metricsPort())
                .route(routes -> routes.get("/metrics", (request, response) -> response
                        .header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                        .sendString(Mono.fromSupplier(metrics::scrape))))
                .bindNow();
        log.atInfo()
                .addKeyValue("what", "metrics")
                .addKeyValue("address", settings.host().getHostAddress() + ":" + server.port())
                .log("listening");
    }

    @Override
    public void stop() {
        server.disposeNow();
        server = null;
    }

    @Override
    public boolean isRunning() {
        return server != null;
    }

    @Override
    public int getPhase() {
        return 0;
    }
}
