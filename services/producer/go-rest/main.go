// Event ingestion over REST: Gin and pgx. The rules are in services/producer/README.md.
package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"example.com/weir/producer/go-core"
)

const service = "producer-go-rest"

func main() { core.Main(run) }

func run(ctx context.Context) error {
	settings, err := core.SettingsFromEnv("SERVER_PORT", 9083, 0)
	if err != nil {
		return err
	}
	core.StartLog(settings)
	store, err := core.NewStore(settings, service)
	if err != nil {
		return err
	}
	defer store.Close()
	listener, err := core.Listen(settings, settings.Port, "rest")
	if err != nil {
		return err
	}
	a := app{store, core.NewMetrics(store), settings}
	server := http.Server{Handler: a.routes(), ReadHeaderTimeout: settings.HeadTimeout, IdleTimeout: settings.IdleTimeout}

	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		slog.Info("stopping")
	}
	patience, cancel := context.WithTimeout(context.Background(), settings.ShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(patience); errors.Is(err, context.DeadlineExceeded) {
		slog.Warn("requests in flight did not end before the deadline")
		return server.Close()
	}
	return nil
}
