// Package core is what the two Go event-ingestion services share. A protocol turns its bytes into a Submitted event,
// Check says why it is refused or makes it an Event, and Store writes it in one transaction. The rules are those of
// services/producer/README.md, which all six services follow.
package core

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// Settings is everything a service may be told, from the environment. Defaults are equal in all six services, ports excepted.
type Settings struct {
	DatabaseURL string
	// PoolSize is DATABASE_POOL_SIZE: connections at most, 10. Six services at 10 stay under PostgreSQL's default of 100.
	PoolSize int32
	// AcquireTimeout is DATABASE_ACQUIRE_TIMEOUT_MS: the wait for a connection, 3000; then the database counts as away.
	AcquireTimeout time.Duration
	// StatementTimeoutMillis is DATABASE_STATEMENT_TIMEOUT_MS: what PostgreSQL gives one statement, 10000.
	StatementTimeoutMillis int
	// HeadTimeout is HEAD_TIMEOUT_MS: for the head of a request, or a connection's HTTP/2 preface, 10000; then the connection is closed.
	HeadTimeout time.Duration
	// BodyTimeout is BODY_TIMEOUT_MS: for the body of a request over REST, 30000; then the response is 408.
	BodyTimeout time.Duration
	// IdleTimeout is IDLE_TIMEOUT_MS: between two REST requests, 60000; then the connection is closed. A gRPC client that was silent so
	// long is pinged.
	IdleTimeout time.Duration
	// RequestTimeout is REQUEST_TIMEOUT_MS: for a request over REST whose body has arrived, or a whole gRPC call, 60000.
	RequestTimeout time.Duration
	// Host is HOST: the address to listen on, 127.0.0.1 (the images say 0.0.0.0).
	Host netip.Addr
	// Port is SERVER_PORT or GRPC_SERVER_PORT; 0 takes a free one.
	Port int
	// MetricsPort is METRICS_PORT: where a gRPC service serves /metrics; REST services serve it beside their API.
	MetricsPort int
	// MaxBodyBytes is MAX_BODY_BYTES: the largest request body or gRPC message, 1 MiB.
	MaxBodyBytes int
	// MaxEntities is MAX_ENTITIES_PER_EVENT: 1000.
	MaxEntities int
	// MaxEvents is MAX_EVENTS_PER_BULK: 10000.
	MaxEvents int
	// ShutdownTimeout is SHUTDOWN_TIMEOUT_MS: what requests in flight get to finish after SIGTERM, 10000.
	ShutdownTimeout time.Duration
	// LogLevel is LOG_LEVEL: trace, debug, info, warn or error.
	LogLevel string
}

// BadVariable is a variable that cannot be used. It ends the start with exit code 64.
type BadVariable struct{ Name, Value, Wanted string }

func (b *BadVariable) Error() string {
	// A database's URL may hold a password, and this goes to a log.
	if b.Name == "DATABASE_URL" {
		return b.Name + " cannot be used: " + b.Wanted
	}
	return fmt.Sprintf("%s=%q cannot be used: %s", b.Name, b.Value, b.Wanted)
}

// SettingsFromEnv reads the environment; the error is the first variable whose value cannot be used.
func SettingsFromEnv(portVariable string, port, metricsPort int) (Settings, error) {
	return readSettings(os.Getenv, portVariable, port, metricsPort)
}

func readSettings(get func(string) string, portVariable string, port, metricsPort int) (Settings, error) {
	var bad error
	refuse := func(name, wanted string) {
		if bad == nil {
			bad = &BadVariable{name, get(name), wanted}
		}
	}
	number := func(name string, fallback, low, high int, wanted string) int {
		text := get(name)
		if text == "" {
			return fallback
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || int(n) < low || int(n) > high {
			refuse(name, wanted)
			return fallback
		}
		return int(n)
	}
	text := func(name, fallback string) string {
		if value := get(name); value != "" {
			return value
		}
		return fallback
	}
	millis := func(name string, fallback int) int {
		return number(name, fallback, 1, 3_600_000, "give milliseconds from 1 to 3600000")
	}
	duration := func(name string, fallback int) time.Duration {
		return time.Duration(millis(name, fallback)) * time.Millisecond
	}
	count := func(name string, fallback int) int {
		return number(name, fallback, 1, 1<<30, "give a whole number from 1 to 1073741824")
	}
	const ports = "give a port from 0 to 65535"

	settings := Settings{
		DatabaseURL:            text("DATABASE_URL", "postgresql://postgres:password@localhost:5432/car_entities"),
		PoolSize:               int32(number("DATABASE_POOL_SIZE", 10, 1, 1000, "give a number of connections from 1 to 1000")),
		AcquireTimeout:         duration("DATABASE_ACQUIRE_TIMEOUT_MS", 3000),
		StatementTimeoutMillis: millis("DATABASE_STATEMENT_TIMEOUT_MS", 10_000),
		HeadTimeout:            duration("HEAD_TIMEOUT_MS", 10_000),
		BodyTimeout:            duration("BODY_TIMEOUT_MS", 30_000),
		IdleTimeout:            duration("IDLE_TIMEOUT_MS", 60_000),
		RequestTimeout:         duration("REQUEST_TIMEOUT_MS", 60_000),
		Port:                   number(portVariable, port, 0, 65_535, ports),
		MetricsPort:            number("METRICS_PORT", metricsPort, 0, 65_535, ports),
		MaxBodyBytes:           count("MAX_BODY_BYTES", 1<<20),
		MaxEntities:            count("MAX_ENTITIES_PER_EVENT", 1000),
		MaxEvents:              count("MAX_EVENTS_PER_BULK", 10_000),
		ShutdownTimeout:        duration("SHUTDOWN_TIMEOUT_MS", 10_000),
		LogLevel:               strings.ToLower(text("LOG_LEVEL", "info")),
	}
	host, err := netip.ParseAddr(text("HOST", "127.0.0.1"))
	if err != nil {
		refuse("HOST", "give an IP address, such as 127.0.0.1 or 0.0.0.0")
	}
	settings.Host = host
	if !strings.HasPrefix(settings.DatabaseURL, "postgresql://") && !strings.HasPrefix(settings.DatabaseURL, "postgres://") {
		refuse("DATABASE_URL", "give postgresql://user:password@host:port/database")
	}
	if _, known := levels[settings.LogLevel]; !known {
		refuse("LOG_LEVEL", "give trace, debug, info, warn or error")
	}
	return settings, bad
}

// Address is the address to listen on with this port.
func (s Settings) Address(port int) string {
	return net.JoinHostPort(s.Host.String(), strconv.Itoa(port))
}
