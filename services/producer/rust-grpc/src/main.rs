//! Event ingestion over gRPC: Tonic and sqlx. The rules are in `services/producer/README.md`.

mod attributes;
mod incoming;
mod limits;
mod service;

/// Generated from `proto/event_service.proto`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod pb {
    tonic::include_proto!("com.example.grpc");
    /// The compiled file, for reflection.
    pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/event_service.bin"));
}

use std::{process::ExitCode, time::Duration};

use http::{HeaderValue, Response};
use incoming::TimedIncoming;
use limits::Limited;
use pb::event_service_server::EventServiceServer;
use producer_core::{
    connection::{TimedListener, TimedRouter},
    metrics::Metrics,
    process::{self, BoxFuture, Fatal},
    settings::Settings,
    store::Store,
};
use service::EventService;
use tonic::{
    server::NamedService,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::util::MapResponseLayer;

const SERVICE: &str = "producer-rust-grpc";
/// How often `grpc.health.v1` looks at the database.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

type Service = EventServiceServer<EventService>;

#[tokio::main]
async fn main() -> ExitCode {
    process::exit(run().await)
}

async fn run() -> Result<(), Fatal> {
    let settings = Settings::from_env("GRPC_SERVER_PORT", 9091, 9191).map_err(|e| Fatal::Setting(e.to_string()))?;
    process::start_log(&settings)?;
    let store =
        Store::new(&settings, SERVICE).map_err(|e| Fatal::Setting(format!("DATABASE_URL cannot be used: {e}")))?;
    let metrics = Metrics::default();

    let metrics_listener = process::listen(&settings, settings.metrics_port, "metrics").await?;
    let metrics_listener = TimedListener::new(metrics_listener, &settings);
    let metrics_router = TimedRouter(metrics.router(&store));
    tokio::spawn(async move { axum::serve(metrics_listener, metrics_router).await });

    let (reporter, health) = tonic_health::server::health_reporter();
    let up = store.is_up().await;
    report(&reporter, up).await;
    let watch = tokio::spawn(watch_database(reporter.clone(), store.clone(), up));

    let listener = process::listen(&settings, settings.port, "grpc").await?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let incoming = TimedIncoming { incoming, settings: settings.clone() };
    let request_timeout = settings.request_timeout;
    let events = EventService { store: store.clone(), metrics, max_entities: settings.max_entities, request_timeout };
    let events = EventServiceServer::new(events).max_decoding_message_size(settings.max_body_bytes);
    let broken = |e: tonic_reflection::server::Error| Fatal::Serve(e.to_string());
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(pb::DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let server = Server::builder()
        .layer(MapResponseLayer::new(too_large_is_resource_exhausted))
        .http2_keepalive_interval(Some(settings.idle_timeout))
        .http2_keepalive_timeout(Some(settings.head_timeout))
        .add_service(Limited { service: events, request_timeout })
        .add_service(health)
        .add_service(reflection().build_v1().map_err(broken)?)
        .add_service(reflection().build_v1alpha().map_err(broken)?);

    let serve = |stop: BoxFuture| async move {
        let stop = async move {
            stop.await;
            watch.abort();
            report(&reporter, false).await;
        };
        server.serve_with_incoming_shutdown(incoming, stop).await.map_err(|e| Fatal::Serve(e.to_string()))
    };
    process::until_stopped(&settings, &store, serve).await
}

/// Tonic responds to a message above the limit with OUT_OF_RANGE, grpc-go and grpc-java with RESOURCE_EXHAUSTED, which is what
/// the list of codes in the gRPC documents says. This service itself has no use for OUT_OF_RANGE.
fn too_large_is_resource_exhausted<B>(mut response: Response<B>) -> Response<B> {
    if let Some(status) = response.headers_mut().get_mut("grpc-status")
        && status == "11"
    {
        *status = HeaderValue::from_static("8");
    }
    response
}

/// Reports changes only: Tonic sends every report to whoever watches.
async fn watch_database(reporter: HealthReporter, store: Store, mut up: bool) {
    loop {
        tokio::time::sleep(HEALTH_INTERVAL).await;
        let now = store.is_up().await;
        if now != up {
            up = now;
            report(&reporter, up).await;
        }
    }
}

async fn report(reporter: &HealthReporter, up: bool) {
    let status = if up { ServingStatus::Serving } else { ServingStatus::NotServing };
    reporter.set_service_status("", status).await;
    reporter.set_service_status(Service::NAME, status).await;
}
