package com.example.producer.core;

import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Everything a service may be told, from the environment. Defaults are equal in all six services, ports excepted.
 *
 * @param databaseUrl {@code DATABASE_URL}
 * @param poolSize {@code DATABASE_POOL_SIZE}: connections at most, 10. Six services at 10 stay under PostgreSQL's default
 *     of 100.
 * @param acquireTimeout {@code DATABASE_ACQUIRE_TIMEOUT_MS}: the wait for a connection, 3000; then the database counts as
 *     away
 * @param statementTimeout {@code DATABASE_STATEMENT_TIMEOUT_MS}: what PostgreSQL gives one statement, 10000
 * @param headTimeout {@code HEAD_TIMEOUT_MS}: for the head of a request, or a connection's HTTP/2 preface, 10000; then the
 *     connection is closed
 * @param bodyTimeout {@code BODY_TIMEOUT_MS}: for the body of a request over REST, 30000; then the response is 408
 * @param idleTimeout {@code IDLE_TIMEOUT_MS}: between two REST requests, 60000; then the connection is closed. A gRPC client
 *     that was silent so long is pinged
 * @param requestTimeout {@code REQUEST_TIMEOUT_MS}: for a request over REST whose body has arrived, or a whole gRPC call, 60000
 * @param host {@code HOST}: the address to listen on, 127.0.0.1 (the images say 0.0.0.0)
 * @param port {@code SERVER_PORT} or {@code GRPC_SERVER_PORT}; 0 takes a free one
 * @param metricsPort {@code METRICS_PORT}: where a gRPC service serves /metrics; REST services serve it beside their API
 * @param maxBodyBytes {@code MAX_BODY_BYTES}: the largest request body or gRPC message, 1 MiB
 * @param maxEntities {@code MAX_ENTITIES_PER_EVENT}: 1000
 * @param maxEvents {@code MAX_EVENTS_PER_BULK}: 10000
 * @param shutdownTimeout {@code SHUTDOWN_TIMEOUT_MS}: what requests in flight get to finish after SIGTERM, 10000
 * @param logLevel {@code LOG_LEVEL}: trace, debug, info, warn or error
 */
public record Settings(URI databaseUrl, int poolSize, Duration acquireTimeout, Duration statementTimeout,
        Duration headTimeout, Duration bodyTimeout, Duration idleTimeout, Duration requestTimeout, InetAddress host, int port,
        int metricsPort, int maxBodyBytes, int maxEntities, int maxEvents, Duration shutdownTimeout,
        String logLevel) {

    /** The exit code for a setting that cannot be used ({@code EX_USAGE}). */
    private static final int BAD_SETTING = 64;
    private static final Pattern IP_ADDRESS = Pattern.compile("[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*");

    /** Reads the environment; a value that cannot be used ends the process with code 64 and names its variable. */
    public static Settings fromEnvironmentOrExit(String portVariable, int port, int metricsPort) {
        try {
            return read(System.getenv(), portVariable, port, metricsPort);
        } catch (BadVariableException bad) {
            System.err.println("error: " + bad.getMessage());
            System.exit(BAD_SETTING);
            throw bad;
        }
    }

    static Settings read(Map<String, String> environment, String portVariable, int port, int metricsPort) {
        Reader reader = new Reader(environment);
        return new Settings(reader.databaseUrl(),
                reader.number("DATABASE_POOL_SIZE", 10, 1, 1000, "give a number of connections from 1 to 1000"),
                reader.millis("DATABASE_ACQUIRE_TIMEOUT_MS", 3000),
                reader.millis("DATABASE_STATEMENT_TIMEOUT_MS", 10_000),
                reader.millis("HEAD_TIMEOUT_MS", 10_000),
                reader.millis("BODY_TIMEOUT_MS", 30_000),
                reader.millis("IDLE_TIMEOUT_MS", 60_000),
                reader.millis("REQUEST_TIMEOUT_MS", 60_000),
                reader.host(),
                reader.port(portVariable, port),
                reader.port("METRICS_PORT", metricsPort),
                reader.count("MAX_BODY_BYTES", 1 << 20),
                reader.count("MAX_ENTITIES_PER_EVENT", 1000),
                reader.count("MAX_EVENTS_PER_BULK", 10_000),
                reader.millis("SHUTDOWN_TIMEOUT_MS", 10_000),
                reader.logLevel());
    }

    /** What Spring is told; the rest is in application.properties. */
    public Map<String, Object> springProperties() {
        return Map.of(
                "server.address", host.getHostAddress(),
                "server.port", port,
                "spring.lifecycle.timeout-per-shutdown-phase", shutdownTimeout.toMillis() + "ms",
                "logging.level.root", logLevel);
    }

    /** A variable that cannot be used. */
    static final class BadVariableException extends RuntimeException {
        BadVariableException(String name, String value, String wanted) {
            // A database's URL may hold a password, and this goes to a log.
            super(name + (name.equals("DATABASE_URL") ? "" : "=\"" + value + "\"") + " cannot be used: " + wanted);
        }
    }

    private record Reader(Map<String, String> environment) {

        private static final Set<String> LEVELS = Set.of("trace", "debug", "info", "warn", "error");

        private String text(String name, String fallback) {
            String value = environment.get(name);
            return value == null || value.isEmpty() ? fallback : value;
        }

        int number(String name, int fallback, int low, int high, String wanted) {
            String text = text(name, null);
            if (text == null) {
                return fallback;
            }
            // Short enough not to overflow, and digits only: parseInt would take a sign.
            int value = text.matches("[0-9]{1,9}") || text.matches("1[0-9]{9}") ? Integer.parseInt(text) : -1;
            if (value < low || value > high) {
                throw new BadVariableException(name, text, wanted);
            }
            return value;
        }

        Duration millis(String name, int fallback) {
            return Duration.ofMillis(number(name, fallback, 1, 3_600_000, "give milliseconds from 1 to 3600000"));
        }

        int count(String name, int fallback) {
            return number(name, fallback, 1, 1 << 30, "give a whole number from 1 to 1073741824");
        }

        int port(String name, int fallback) {
            return number(name, fallback, 0, 65_535, "give a port from 0 to 65535");
        }

        InetAddress host() {
            String text = text("HOST", "127.0.0.1");
            try {
                // Names are not looked up: an address is meant.
                if (IP_ADDRESS.matcher(text).matches()) {
                    return InetAddress.getByName(text);
                }
            } catch (UnknownHostException e) {
                // The same error as for what is no address at all.
            }
            throw new BadVariableException("HOST", text, "give an IP address, such as 127.0.0.1 or 0.0.0.0");
        }

        URI databaseUrl() {
            String text = text("DATABASE_URL", "postgresql://postgres:password@localhost:5432/car_entities");
            try {
                URI url = URI.create(text);
                if (Set.of("postgresql", "postgres").contains(String.valueOf(url.getScheme())) && url.getHost() != null
                        && url.getPath().length() > 1) {
                    return url;
                }
            } catch (IllegalArgumentException e) {
                // The same error as for a scheme that is not PostgreSQL's.
            }
            throw new BadVariableException("DATABASE_URL", text, "give postgresql://user:password@host:port/database");
        }

        String logLevel() {
            String level = text("LOG_LEVEL", "info").toLowerCase(Locale.ROOT);
            if (!LEVELS.contains(level)) {
                throw new BadVariableException("LOG_LEVEL", level, "give trace, debug, info, warn or error");
            }
            return level;
        }
    }
}
