//! Active health checks: a GET to each target from time to time, or a gRPC call, on a connection of its own.
//!
//! A target starts unknown and counts as healthy. It is probed at once, and its first response decides alone (a refused connection too), so that
//! a target which is down when the gateway starts is known to be at once; after that `healthy_after` and `unhealthy_after` results in a row are needed.
//! Silence needs `unhealthy_after` in a row from the beginning: a process that takes over starts when its machine is at its busiest.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use proxy_protocol::{Header, Origin};
use tls::Alpn;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::connect::{ConnectError, Dial, TlsConfigs, connect, is_local_shortage};
use super::http2::probe::{self, ProbeResponse, Question};
use super::rng::Rng;
use super::target::{Address, Health, Probe};
use super::{Target, Upstream};
use crate::config::{self, UpstreamProtocol};
use crate::io::capped::{Capped, HEADS};
use crate::io::stream::Stream;

/// How far the time between two probes strays from the interval, so that many gateways do not probe in step: a tenth either way.
const JITTER: f64 = 0.1;

/// A timeout that is noticed so much too late says nothing about the target.
const LATE: Duration = Duration::from_millis(100);

/// What a probe can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// A status within the range.
    Healthy(u16),
    /// Anything else that the target did or refused to do.
    Unhealthy(String),
    /// No response within the timeout.
    Silent(String),
    /// This process could not probe: no descriptor, memory or local port was left, or it did not run. Says nothing about the target.
    Unknown(String),
}

/// What a target said to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// A status within the range.
    Good,
    /// Another response, or a refusal.
    Bad,
    /// Nothing within the timeout.
    Nothing,
}

/// Results in a row.
#[derive(Debug, Default)]
pub(super) struct Streak {
    healthy: bool,
    length: u32,
}

impl Streak {
    /// Takes in a result; the new verdict, if it changes.
    pub(super) fn judge(&mut self, before: Health, heard: Heard, spec: &config::Health) -> Option<Health> {
        let healthy = heard == Heard::Good;
        if self.healthy != healthy {
            self.length = 0;
        }
        self.healthy = healthy;
        self.length = self.length.saturating_add(1);
        match (before, healthy) {
            (Health::Unknown, true) => Some(Health::Healthy),
            (Health::Unknown, false) if heard == Heard::Bad => Some(Health::Unhealthy),
            (Health::Unknown | Health::Healthy, false) if self.length >= spec.unhealthy_after => {
                Some(Health::Unhealthy)
            }
            (Health::Unhealthy, true) if self.length >= spec.healthy_after => Some(Health::Healthy),
            _ => None,
        }
    }
}

/// Probes one target until its upstream is removed.
pub(super) async fn watch(upstream: std::sync::Weak<Upstream>, target: Target, spec: config::Health) {
    let mut rng = Rng::from_entropy();
    let mut streak = Streak::default();
    let configs = TlsConfigs::default();
    loop {
        let started = Instant::now();
        let finding = probe_once(&target, &spec, &configs).await;
        // The upstream was removed from the configuration: so is the reason to probe.
        let Some(upstream) = upstream.upgrade() else { return };
        take_in(&upstream, &target, &spec, &mut streak, finding);
        drop(upstream);
        let stray = 1.0 + JITTER * (2.0 * rng.unit() - 1.0);
        tokio::time::sleep_until(started + spec.interval.mul_f64(stray)).await;
    }
}

fn take_in(upstream: &Upstream, target: &Target, spec: &config::Health, streak: &mut Streak, finding: Finding) {
    let (heard, result) = match finding {
        Finding::Healthy(status) => (Heard::Good, Ok(status)),
        Finding::Unhealthy(why) => (Heard::Bad, Err(why)),
        Finding::Silent(why) => (Heard::Nothing, Err(why)),
        Finding::Unknown(why) => {
            tracing::warn!(upstream = %upstream.name, target = %target.address, why, "health check not possible");
            return;
        }
    };
    let mut verdict = None;
    let judge = |before| {
        verdict = streak.judge(before, heard, spec);
        verdict
    };
    if !upstream.take_in_check(target, spec, judge) {
        return;
    }
    if verdict.is_some() {
        match &result {
            Ok(status) => {
                tracing::info!(upstream = %upstream.name, target = %target.address, status, "target healthy");
            }
            Err(why) => {
                tracing::warn!(upstream = %upstream.name, target = %target.address, why, "target unhealthy");
            }
        }
    }
    target.state.set_probe(Probe { at: upstream.common.clock.now(), result });
}

/// Probes once.
pub(super) async fn probe_once(target: &Target, spec: &config::Health, configs: &TlsConfigs) -> Finding {
    let started = Instant::now();
    match tokio::time::timeout(spec.timeout, probe(target, spec, configs)).await {
        Err(_elapsed) if started.elapsed() > spec.timeout + LATE => {
            Finding::Unknown("this process was late: the time passed while it did not run".to_owned())
        }
        Err(_elapsed) => Finding::Silent(format!("no response within {}", human(spec.timeout))),
        Ok(Ok(status)) if (spec.status.0..=spec.status.1).contains(&status) => Finding::Healthy(status),
        Ok(Ok(status)) => Finding::Unhealthy(format!("status {status}")),
        Ok(Err(Trouble::Local(why))) => Finding::Unknown(why),
        Ok(Err(Trouble::Remote(why))) => Finding::Unhealthy(why),
    }
}

enum Trouble {
    Local(String),
    Remote(String),
}

async fn probe(target: &Target, spec: &config::Health, configs: &TlsConfigs) -> Result<u16, Trouble> {
    let mut header = Vec::new();
    if let Some(version) = spec.proxy_protocol {
        // The connection is the gateway's own.
        let local = Header { version, origin: Origin::Proxy, authority: None, alpn: None, unique_id: None };
        proxy_protocol::write(&mut header, &local);
    }
    let dial = Dial { tls: configs, tcp: config::TcpOptions::default(), header: &header };
    let stream = connect(&target.address, &dial).await.map_err(connect_trouble)?;
    let is_tls = matches!(target.address, Address::Tls(..));
    let speaks_http2 = match (spec.protocol, &stream) {
        (UpstreamProtocol::Http1, _) => false,
        (UpstreamProtocol::Http2, Stream::Tls(tls)) if tls.alpn() != Some(Alpn::Http2) => {
            return Err(Trouble::Remote("no HTTP/2 is offered (ALPN h2)".to_owned()));
        }
        (UpstreamProtocol::Http2, _) => true,
        (UpstreamProtocol::Auto, Stream::Tls(tls)) => tls.alpn() == Some(Alpn::Http2),
        (UpstreamProtocol::Auto, _) => false,
    };
    if !speaks_http2 {
        return probe_over(stream, target, spec).await;
    }
    let question = Question {
        scheme: if is_tls { "https" } else { "http" },
        authority: &host(target),
        path: &format!("{}{}", target.base_path, spec.path),
        grpc: spec.grpc.as_deref(),
    };
    match probe::probe(stream, question).await.map_err(Trouble::Remote)? {
        ProbeResponse::Status(status) => Ok(status),
        // As the status that a GET would have: within any range that is configured.
        ProbeResponse::Serving => Ok(spec.status.0),
        ProbeResponse::NotServing(why) => Err(Trouble::Remote(why)),
    }
}

fn connect_trouble(error: ConnectError) -> Trouble {
    let error = match error {
        ConnectError::Io(error) => error,
        ConnectError::Tls(failure, error) => return Trouble::Remote(format!("{}: {error}", failure.reason())),
    };
    if is_local_shortage(&error) {
        Trouble::Local(error.to_string())
    } else {
        Trouble::Remote(format!("cannot connect: {error}"))
    }
}

async fn probe_over(
    io: impl AsyncRead + AsyncWrite + Unpin,
    target: &Target,
    spec: &config::Health,
) -> Result<u16, Trouble> {
    let other = |error: hyper::Error| Trouble::Remote(describe(&error));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(Capped::new(io, HEADS)))
            .await
            .map_err(other)?;
    let request = Request::get(format!("{}{}", target.base_path, spec.path))
        .header(header::HOST, host(target))
        .header(header::USER_AGENT, "weir-health")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
        // A path that cannot be sent is refused by the configuration; if one comes through, it says so here.
        .map_err(|error| Trouble::Local(error.to_string()))?;
    let exchange = sender.send_request(request);
    // Only the head is of interest: dropping the connection ends whatever follows.
    tokio::pin!(exchange, connection);
    tokio::select! {
        biased;
        response = &mut exchange => response,
        ended = &mut connection => match ended {
            // The reply may have come with the end.
            Ok(()) => exchange.await,
            Err(error) => Err(error),
        },
    }
    .map(|response| response.status().as_u16())
    .map_err(other)
}

/// The target's own authority; a Unix socket has none.
pub(super) fn host(target: &Target) -> String {
    match (&target.authority, &target.address) {
        (Some(authority), _) => authority.to_string(),
        (None, Address::Tcp(address) | Address::Tls(address, _)) => address.to_string(),
        (None, Address::Unix(_)) => "localhost".to_owned(),
    }
}

/// An error with what caused it, which hyper leaves to the chain.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

fn human(span: Duration) -> String {
    if span.subsec_millis() == 0 { format!("{}s", span.as_secs()) } else { format!("{}ms", span.as_millis()) }
}

#[cfg(test)]
mod tests;
