package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
)

// The words that every service responds with.
const (
	MessageStored      = "Event processed successfully"
	MessageUnavailable = "Database is unavailable"
	MessageInternal    = "Internal server error"
	MessageHealthy     = "Producer API is healthy"
	// MessageTimedOut is for a request that took longer than it may.
	MessageTimedOut = "Request timed out"
	// MessageNotStorable is for what only PostgreSQL finds wrong.
	MessageNotStorable = "Attributes cannot be stored as JSON"
)

// exitBadSetting is the exit code for a setting that cannot be used (EX_USAGE).
const exitBadSetting = 64

var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// StartLog makes the log one JSON object a line on standard output.
func StartLog(settings Settings) {
	names := map[string]string{slog.TimeKey: "timestamp", slog.MessageKey: "message"}
	rename := func(groups []string, attribute slog.Attr) slog.Attr {
		if name, known := names[attribute.Key]; known && len(groups) == 0 {
			attribute.Key = name
		}
		return attribute
	}
	options := slog.HandlerOptions{Level: levels[settings.LogLevel], ReplaceAttr: rename}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, &options)))
}

// Listen binds a port of the configured host; the log says which one was taken.
func Listen(settings Settings, port int, what string) (net.Listener, error) {
	listener, err := net.Listen("tcp", settings.Address(port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", settings.Address(port), err)
	}
	slog.Info("listening", "what", what, "address", listener.Addr().String())
	return listener, nil
}

// Main runs a service and turns its end into the exit code.
func Main(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := run(ctx)
	if err == nil {
		slog.Info("stopped")
		return
	}
	fmt.Fprintf(os.Stderr, "error: %v\n", err)
	var bad *BadVariable
	if errors.As(err, &bad) {
		os.Exit(exitBadSetting)
	}
	os.Exit(1)
}
