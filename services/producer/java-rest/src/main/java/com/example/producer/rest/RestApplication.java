package com.example.producer.rest;

import java.io.IOException;

import com.example.producer.core.ConnectionTimeouts;
import com.example.producer.core.EventProcessor;
import com.example.producer.core.EventStore;
import com.example.producer.core.ProducerMetrics;
import com.example.producer.core.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import reactor.core.publisher.Hooks;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.embedded.netty.NettyReactiveWebServerFactory;
import org.springframework.boot.web.reactive.context.ReactiveWebServerInitializedEvent;
import org.springframework.boot.web.server.WebServerFactoryCustomizer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.event.EventListener;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.ServerResponse;

/** Event ingestion over REST: Spring WebFlux and R2DBC. The rules are in services/producer/README.md. */
@SpringBootApplication
public class RestApplication {

    private static final Logger log = LoggerFactory.getLogger(RestApplication.class);
    private static final String SERVICE = "producer-java-rest";
    private static final int DEFAULT_PORT = 8081;

    public static void main(String[] args) {
        Settings settings = Settings.fromEnvironmentOrExit("SERVER_PORT", DEFAULT_PORT, 0);
        Hooks.onErrorDropped(RestApplication::dropped);
        new SpringApplicationBuilder(RestApplication.class)
                .properties(settings.springProperties())
                .initializers(context -> ((GenericApplicationContext) context).registerBean(Settings.class, () -> settings))
                .run(args);
    }

    /**
     * An error for which nobody is left. A connection that the client resets has two: the end of its body, which is handled, and the
     * socket's own.
     */
    private static void dropped(Throwable error) {
        if (error instanceof IOException) {
            log.atDebug().addKeyValue("error", error.toString()).log("connection lost");
        } else {
            log.atError().addKeyValue("error", error.toString()).log("an error was dropped");
        }
    }

    @Bean
    EventStore eventStore(Settings settings) {
        return new EventStore(settings, SERVICE);
    }

    @Bean
    ProducerMetrics producerMetrics(EventStore store) {
        return new ProducerMetrics(store);
    }

    @Bean
    EventProcessor eventProcessor(EventStore store, ProducerMetrics metrics, Settings settings) {
        return new EventProcessor(store, metrics, settings);
    }

    @Bean
    RouterFunction<ServerResponse> routes(EventProcessor processor, EventStore store, ProducerMetrics metrics,
            Settings settings) {
        return new EventRoutes(processor, store, metrics, settings).routes();
    }

    @Bean
    WebServerFactoryCustomizer<NettyReactiveWebServerFactory> connectionTimeouts(Settings settings) {
        return factory -> factory.addServerCustomizers(server -> ConnectionTimeouts.on(server, settings));
    }

    @EventListener
    void listening(ReactiveWebServerInitializedEvent event) {
        Settings settings = event.getApplicationContext().getBean(Settings.class);
        log.atInfo()
                .addKeyValue("what", "rest")
                .addKeyValue("address", settings.host().getHostAddress() + ":" + event.getWebServer().getPort())
                .log("listening");
    }
}
