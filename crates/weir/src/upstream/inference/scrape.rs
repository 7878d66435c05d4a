//! Scraping what engines tell of themselves: a GET to each replica from time to time, on a connection of its own.
//!
//! A scrape that fails changes nothing but the age of the last one; when that is too old, own counts decide.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use llm::balance::EngineMetrics;
use proxy_protocol::{Header, Origin, Version};
use tokio::time::Instant;

use super::super::Upstream;
use super::super::connect::{ConnectError, Dial, TlsConfigs, connect};
use super::super::health::host;
use super::super::rng::Rng;
use super::super::target::Target;
use super::Scrape;
use crate::config::{self, Inference};
use crate::io::capped::{Capped, HEADS};

/// How long a scrape may take: an engine that takes longer is too busy to be measured so.
const TIMEOUT: Duration = Duration::from_millis(300);
/// The largest page of metrics that is read.
const MOST_BYTES: usize = 2 << 20;
/// How far the time between two scrapes strays from the interval, so that many gateways do not scrape in step: a tenth either way.
const JITTER: f64 = 0.1;

/// Why there are no metrics.
#[derive(Debug)]
enum Trouble {
    /// Nobody listens: if that was the engine, its cache is lost.
    Refused,
    /// Anything else.
    Other(String),
}

/// Scrapes one target until its upstream is removed.
pub(in crate::upstream) async fn watch(
    upstream: Weak<Upstream>,
    target: Target,
    spec: Arc<Inference>,
    proxy_header: Option<Version>,
) {
    let mut rng = Rng::from_entropy();
    let configs = TlsConfigs::default();
    let mut is_well = true;
    let mut was_removed = false;
    loop {
        let started = Instant::now();
        let Some(clock) = upstream.upgrade().map(|upstream| upstream.common.clock.clone()) else { return };
        let (at, in_flight) = (clock.now(), target.state.in_flight());
        let fetched = tokio::time::timeout(TIMEOUT, fetch(&target, &spec, proxy_header, &configs)).await;
        let result = fetched.unwrap_or_else(|_elapsed| Err(Trouble::Other("no response within 300 ms".to_owned())));
        let Some(upstream) = upstream.upgrade() else { return };
        let replicas = upstream.shared.replicas();
        match result {
            Ok(metrics) => {
                // Counters that begin anew: so does the engine, with an empty cache.
                let before = target.state.engine.last().and_then(|scrape| scrape.metrics.prefix_queries);
                if before > metrics.prefix_queries {
                    replicas.forget(&target);
                }
                if !is_well {
                    tracing::info!(upstream = %upstream.name, target = %target.address, "metrics of the engine are read again");
                }
                is_well = true;
                was_removed = false;
                target.state.engine.succeed(Scrape { at, metrics, in_flight });
            }
            Err(trouble) => {
                target.state.engine.fail();
                // Nothing listens: the engine has ended, and with it its cache, whatever the scrapes before found.
                let is_removed = matches!(trouble, Trouble::Refused);
                if is_removed && !was_removed {
                    replicas.forget(&target);
                }
                was_removed = is_removed;
                // Once, as it may last.
                if std::mem::replace(&mut is_well, false) {
                    let why = match trouble {
                        Trouble::Refused => "the connection was refused".to_owned(),
                        Trouble::Other(why) => why,
                    };
                    tracing::warn!(upstream = %upstream.name, target = %target.address, why, "no metrics of the engine; requests in flight decide");
                }
            }
        }
        drop(upstream);
        let stray = 1.0 + JITTER * (2.0 * rng.unit() - 1.0);
        tokio::time::sleep_until(started + spec.scrape.mul_f64(stray)).await;
    }
}

async fn fetch(
    target: &Target,
    spec: &Inference,
    proxy_header: Option<Version>,
    configs: &TlsConfigs,
) -> Result<EngineMetrics, Trouble> {
    let other = |error: &dyn std::fmt::Display| Trouble::Other(error.to_string());
    let mut first = Vec::new();
    if let Some(version) = proxy_header {
        // The connection is the gateway's own.
        let local = Header { version, origin: Origin::Proxy, authority: None, alpn: None, unique_id: None };
        proxy_protocol::write(&mut first, &local);
    }
    let dial = Dial { tls: configs, tcp: config::TcpOptions::default(), header: &first };
    let stream = connect(&target.address, &dial).await.map_err(|error| match error {
        ConnectError::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Trouble::Refused,
        ConnectError::Io(error) => other(&error),
        ConnectError::Tls(failure, error) => Trouble::Other(format!("{}: {error}", failure.reason())),
    })?;
    // A body in chunks has its sizes among the bytes.
    let io = TokioIo::new(Capped::new(stream, 2 * MOST_BYTES + HEADS));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(io).await.map_err(|error| other(&error))?;
    let request = Request::get(format!("{}{}", target.base_path, spec.path))
        .header(header::HOST, host(target))
        .header(header::USER_AGENT, "weir-metrics")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
        .map_err(|error| other(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| other(&error))?;
        if response.status() != StatusCode::OK {
            return Err(Trouble::Other(format!("status {}", response.status().as_u16())));
        }
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await.map_err(|error| other(&error))?;
        EngineMetrics::parse(&body.to_bytes(), &spec.metric_names())
            .ok_or_else(|| Trouble::Other("the page does not say how many requests wait and run".to_owned()))
    };
    tokio::pin!(exchange, connection);
    tokio::select! {
        biased;
        done = &mut exchange => done,
        // The response may have come with the end.
        ended = &mut connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(other(&error)),
        },
    }
}
