// Event ingestion over gRPC: grpc-go and pgx. The rules are in services/producer/README.md.
package main

//go:generate sh generate.sh

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"

	"example.com/weir/producer/go-core"
	"example.com/weir/producer/go-grpc/eventpb"
)

const service = "producer-go-grpc"

// healthInterval is how often grpc.health.v1 looks at the database.
const healthInterval = time.Second

func main() { core.Main(run) }

func run(ctx context.Context) error {
	settings, err := core.SettingsFromEnv("GRPC_SERVER_PORT", 9092, 9192)
	if err != nil {
		return err
	}
	core.StartLog(settings)
	store, err := core.NewStore(settings, service)
	if err != nil {
		return err
	}
	defer store.Close()
	metrics := core.NewMetrics(store)

	metricsListener, err := core.Listen(settings, settings.MetricsPort, "metrics")
	if err != nil {
		return err
	}
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", metrics.Handler())
	metricsServer := http.Server{Handler: routes, ReadHeaderTimeout: settings.HeadTimeout, IdleTimeout: settings.IdleTimeout}
	go metricsServer.Serve(metricsListener)
	defer metricsServer.Close()

	server := grpc.NewServer(grpc.MaxRecvMsgSize(settings.MaxBodyBytes), grpc.UnaryInterceptor(recoverPanic),
		grpc.ConnectionTimeout(settings.HeadTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: settings.IdleTimeout, Timeout: settings.HeadTimeout}),
		// A client may ping as often as it wants: Tonic does not count pings.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Nanosecond, PermitWithoutStream: true}),
		grpc.InTapHandle(limitTo(settings.RequestTimeout)))
	eventpb.RegisterEventServiceServer(server, &eventService{store: store, metrics: metrics, maxEntities: settings.MaxEntities})
	standard := health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, standard)
	reflection.Register(server)
	report(standard, store.IsUp(ctx))
	go watchDatabase(ctx, standard, store)

	listener, err := core.Listen(settings, settings.Port, "grpc")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		slog.Info("stopping")
	}
	standard.Shutdown()
	impatient := time.AfterFunc(settings.ShutdownTimeout, func() {
		slog.Warn("calls in flight did not end before the deadline")
		server.Stop()
	})
	defer impatient.Stop()
	server.GracefulStop()
	return nil
}

// limitTo ends calls of the event service that take longer, from their head on: an interceptor would start the time when the whole
// message is there. A watch of the health is not limited.
func limitTo(timeout time.Duration) tap.ServerInHandle {
	events := "/" + eventpb.EventService_ServiceDesc.ServiceName + "/"
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		if !strings.HasPrefix(call.FullMethodName, events) {
			return ctx, nil
		}
		limited, cancel := context.WithTimeout(ctx, timeout)
		context.AfterFunc(ctx, cancel)
		return limited, nil
	}
}

func watchDatabase(ctx context.Context, standard *health.Server, store *core.Store) {
	ticks := time.NewTicker(healthInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			report(standard, store.IsUp(ctx))
		}
	}
}

// report says how the database is; after a shutdown it changes nothing any more.
func report(standard *health.Server, up bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if up {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	standard.SetServingStatus("", status)
	standard.SetServingStatus(eventpb.EventService_ServiceDesc.ServiceName, status)
}
