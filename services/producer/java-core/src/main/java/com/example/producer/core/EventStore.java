package com.example.producer.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;

import io.r2dbc.pool.ConnectionPool;
import io.r2dbc.pool.ConnectionPoolConfiguration;
import io.r2dbc.postgresql.PostgresqlConnectionConfiguration;
import io.r2dbc.postgresql.PostgresqlConnectionFactory;
import io.r2dbc.postgresql.api.PostgresqlConnection;
import io.r2dbc.postgresql.client.SSLMode;
import io.r2dbc.spi.Connection;
import io.r2dbc.spi.R2dbcException;
import io.r2dbc.spi.Result;
import io.r2dbc.spi.Wrapped;
import org.reactivestreams.Publisher;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

import org.springframework.beans.factory.DisposableBean;

/** The one statement that an event is. */
public class EventStore implements DisposableBean {

    private static final Logger log = LoggerFactory.getLogger(EventStore.class);
    private static final Duration PING_TIMEOUT = Duration.ofSeconds(2);
    private static final int POSTGRESQL_PORT = 5432;

    private final String storeEvent = statement("/store_event.sql");
    private final ConnectionPool pool;

    /** Makes the pool. No connection is opened yet: a service starts, and responds with 503, also while the database is away. */
    public EventStore(Settings settings, String service) {
        this.pool = new ConnectionPool(ConnectionPoolConfiguration.builder(connections(settings, service))
                .maxSize(settings.poolSize())
                .initialSize(0)
                // Each connection that PostgreSQL closed while it was idle costs one try; the wait stays bounded.
                .acquireRetry(settings.poolSize())
                .maxAcquireTime(settings.acquireTimeout())
                .maxCreateConnectionTime(settings.acquireTimeout())
                .maxIdleTime(Duration.ofMinutes(10))
                .maxLifeTime(Duration.ofMinutes(30))
                .build());
    }

    private static PostgresqlConnectionFactory connections(Settings settings, String service) {
        URI url = settings.databaseUrl();
        String[] user = url.getRawUserInfo() == null ? new String[] {"postgres"} : url.getRawUserInfo().split(":", 2);
        return new PostgresqlConnectionFactory(PostgresqlConnectionConfiguration.builder()
                .host(url.getHost())
                .port(url.getPort() < 0 ? POSTGRESQL_PORT : url.getPort())
                .username(decoded(user[0]))
                .password(user.length < 2 ? null : decoded(user[1]))
                .database(url.getPath().substring(1))
                .applicationName(service)
                .statementTimeout(settings.statementTimeout())
                // A service that is killed cannot cancel its statements: PostgreSQL looks whether the client is still there
                // (milliseconds).
                .options(Map.of("client_connection_check_interval", "250"))
                .connectTimeout(settings.acquireTimeout())
                .sslMode(SSLMode.DISABLE)
                .tcpNoDelay(true)
                .build());
    }

    private static String decoded(String part) {
        // A plus is a plus here, only percent signs are escapes.
        return URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    private static String statement(String name) {
        try (InputStream in = EventStore.class.getResourceAsStream(name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Stores an event in one transaction: every entity of it, or none. The rows are locked in the order of their keys, so
     * that two events with entities in common never wait for each other in a circle. Fails with a {@link StoreException},
     * or with a {@link RefusedException} for what only PostgreSQL finds wrong, such as a number outside of its range.
     */
    public Mono<Void> store(Event event) {
        return withConnection(connection -> connection.createStatement(storeEvent)
                .bind(0, event.types())
                .bind(1, event.ids())
                .bind(2, event.attributes())
                .execute());
    }

    /** Whether the database responds within two seconds. */
    public Mono<Boolean> isUp() {
        return withConnection(connection -> connection.createStatement("SELECT 1").execute())
                .thenReturn(true)
                .timeout(PING_TIMEOUT)
                .onErrorReturn(false);
    }

    private Mono<Void> withConnection(Work work) {
        // Whatever keeps a connection away (refused, no such role, no such database) means that the database is away.
        Mono<Connection> acquired = pool.create()
                .onErrorMap(e -> new StoreException(StoreException.Kind.UNAVAILABLE, e));
        return Mono.usingWhen(acquired,
                connection -> Flux.from(work.on(connection)).concatMap(Result::getRowsUpdated).then()
                        .onErrorMap(EventStore::classified),
                Connection::close,
                (connection, error) -> connection.close(),
                EventStore::giveUp);
    }

    private interface Work {
        Publisher<? extends Result> on(Connection connection);
    }

    /** A statement whose client has gone is cancelled, so that its connection is free for the next. */
    private static Publisher<Void> giveUp(Connection connection) {
        PostgresqlConnection own = ((Wrapped<?>) connection).unwrap(PostgresqlConnection.class);
        Mono<Void> cancelled = own == null ? Mono.empty() : own.cancelRequest().onErrorComplete();
        return cancelled.then(Mono.from(connection.close()));
    }

    /** Sorts an error by its SQLSTATE class (PostgreSQL's appendix A); without one the connection broke. */
    static Throwable classified(Throwable error) {
        if (!(error instanceof R2dbcException database)) {
            boolean broke = error instanceof IOException;
            return new StoreException(broke ? StoreException.Kind.UNAVAILABLE : StoreException.Kind.FAILED, error);
        }
        String state = database.getSqlState();
        if (state == null || state.length() != 5) {
            return new StoreException(StoreException.Kind.UNAVAILABLE, error);
        }
        return switch (state.substring(0, 2)) {
            // connection, conflict with another writer, resources, operator's intervention
            case "08", "40", "53", "57" -> new StoreException(StoreException.Kind.UNAVAILABLE, error);
            case "22" -> new RefusedException("Attributes cannot be stored as JSON");
            // a standby, or anything else
            default -> new StoreException("25006".equals(state) ? StoreException.Kind.UNAVAILABLE : StoreException.Kind.FAILED,
                    error);
        };
    }

    /** Connections that are at work. */
    public int usedConnections() {
        return pool.getMetrics().map(metrics -> metrics.acquiredSize()).orElse(0);
    }

    /** Connections that are open and wait for work. */
    public int idleConnections() {
        return pool.getMetrics().map(metrics -> metrics.idleSize()).orElse(0);
    }

    /** Closes every connection: the last thing that a service does. */
    @Override
    public void destroy() {
        pool.disposeLater().block(PING_TIMEOUT);
        log.info("stopped");
    }
}
