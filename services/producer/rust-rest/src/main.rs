//! Event ingestion over REST: Axum and sqlx. The rules are in `services/producer/README.md`.

mod app;
mod body;

use std::{process::ExitCode, sync::Arc};

use producer_core::{
    connection::{TimedListener, TimedRouter},
    metrics::Metrics,
    process::{self, Fatal},
    settings::Settings,
    store::Store,
};

const SERVICE: &str = "producer-rust-rest";

#[tokio::main]
async fn main() -> ExitCode {
    process::exit(run().await)
}

async fn run() -> Result<(), Fatal> {
    let settings = Settings::from_env("SERVER_PORT", 8082, 0).map_err(|e| Fatal::Setting(e.to_string()))?;
    process::start_log(&settings)?;
    let store =
        Store::new(&settings, SERVICE).map_err(|e| Fatal::Setting(format!("DATABASE_URL cannot be used: {e}")))?;
    let listener = TimedListener::new(process::listen(&settings, settings.port, "rest").await?, &settings);
    let app = app::router(Arc::new(app::App {
        store: store.clone(),
        metrics: Metrics::default(),
        settings: settings.clone(),
    }));
    let serve = |stop| async move {
        axum::serve(listener, TimedRouter(app))
            .with_graceful_shutdown(stop)
            .await
            .map_err(|e| Fatal::Serve(e.to_string()))
    };
    process::until_stopped(&settings, &store, serve).await
}
