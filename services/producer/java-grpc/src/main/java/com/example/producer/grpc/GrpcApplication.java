package com.example.producer.grpc;

import com.example.producer.core.EventProcessor;
import com.example.producer.core.EventStore;
import com.example.producer.core.ProducerMetrics;
import com.example.producer.core.Settings;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.annotation.Bean;
import org.springframework.context.support.GenericApplicationContext;

/** Event ingestion over gRPC: grpc-java and R2DBC. The rules are in services/producer/README.md. */
@SpringBootApplication
public class GrpcApplication {

    private static final String SERVICE = "producer-java-grpc";
    private static final int DEFAULT_PORT = 9090;
    private static final int DEFAULT_METRICS_PORT = 9190;

    public static void main(String[] args) {
        Settings settings = Settings.fromEnvironmentOrExit("GRPC_SERVER_PORT", DEFAULT_PORT, DEFAULT_METRICS_PORT);
        new SpringApplicationBuilder(GrpcApplication.class)
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
    MetricsServer metricsServer(Settings settings, ProducerMetrics metrics) {
        return new MetricsServer(settings, metrics);
    }

    @Bean
    GrpcServer grpcServer(Settings settings, EventStore store, EventProcessor processor, ProducerMetrics metrics) {
        return new GrpcServer(settings, store, new EventGrpcService(processor, store, metrics));
    }
}
