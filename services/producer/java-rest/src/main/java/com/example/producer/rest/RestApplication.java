package com.example.producer.rest;

import com.example.producer.core.EventProcessor;
import com.example.producer.core.EventStore;
import com.example.producer.core.ProducerMetrics;
import com.example.producer.core.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.reactive.context.ReactiveWebServerInitializedEvent;
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
        new SpringApplicationBuilder(RestApplication.class)
                .properties(settings.springProperties())
                .initializers(context -> ((GenericApplicationContext) context).registerBean(Settings.class, () -> settings))
                .run(args);
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

    @EventListener
    void listening(ReactiveWebServerInitializedEvent event) {
        Settings settings = event.getApplicationContext().getBean(Settings.class);
        log.atInfo()
                .addKeyValue("what", "rest")
                .addKeyValue("address", settings.host().getHostAddress() + ":" + event.getWebServer().getPort())
                .log("listening");
    }
}
