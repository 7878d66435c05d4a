//! What collectors of telemetry are told.

use http::Uri;
use http::header::{HeaderName, HeaderValue};

use super::Resolver;
use crate::otel_variables::ENDPOINT;
use crate::problem::Origin;
use crate::raw::shape::{Map, Spanned};
use crate::raw::text::FieldValue;
use crate::raw::units::Time;
use crate::raw::{CallCompression, TraceParent};
use crate::{Collector, PushedMetrics, Telemetry, Traces, raw, redact};

/// Spans that may wait: each takes about half a KiB.
const QUEUE: std::ops::RangeInclusive<usize> = 1..=1 << 20;

impl Resolver<'_> {
    pub(super) fn telemetry(&mut self) -> Telemetry {
        let raw = &self.file.telemetry;
        let mut resource: Vec<_> = raw.resource.iter().map(|(key, value)| (key.value.clone(), value.clone())).collect();
        if raw.resource.position("service.name").is_none() {
            resource.insert(0, ("service.name".to_owned(), "weir".to_owned()));
        }
        if raw.resource.position("service.version").is_none() {
            resource.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
        }
        let traces = raw.traces.as_option().map(|traces| self.traces(traces));
        Telemetry { resource, traces, metrics: raw.metrics.as_option().map(|metrics| self.pushed_metrics(metrics)) }
    }

    fn pushed_metrics(&mut self, raw: &Spanned<raw::PushedMetrics>) -> PushedMetrics {
        if raw.every.0.is_zero() {
            self.problem(raw.origin, "`every` is longer than 0");
        }
        let collector =
            self.collector(raw.origin, &raw.endpoint, (raw.timeout, raw.compression), &raw.headers, "metrics");
        PushedMetrics { collector, every: raw.every.0 }
    }

    fn collector(
        &mut self,
        origin: Origin,
        endpoint: &Option<Spanned<String>>,
        (timeout, compression): (Option<Time>, Option<CallCompression>),
        headers: &Option<Map<FieldValue>>,
        signal: &str,
    ) -> Collector {
        match endpoint {
            None => {
                let example = format!("http://127.0.0.1:4318/v1/{signal}");
                let message =
                    format!("`endpoint` is missing; set it, such as `{example}`, or the variable `{ENDPOINT}`");
                self.problem(origin, message);
            }
            // Checked when it was taken from there.
            Some(Spanned { origin: Origin::Variable(_), .. }) => {}
            Some(url) => self.check(url.origin, check_endpoint(url, signal)),
        }
        let headers: Vec<_> = headers.iter().flat_map(Map::iter).collect();
        for (name, value) in &headers {
            if HeaderName::from_bytes(name.as_bytes()).is_err() || HeaderValue::from_str(&value.0).is_err() {
                let message = format!("`{}` is not a field that can be sent", name.value);
                self.problem(name.origin, message);
            }
        }
        Collector {
            endpoint: endpoint.as_ref().map(|url| url.value.clone()).unwrap_or_default(),
            timeout: timeout.unwrap_or(raw::TIMEOUT).0,
            headers: headers.into_iter().map(|(name, value)| (name.value.clone(), value.0.clone())).collect(),
            is_compressed: compression == Some(CallCompression::Gzip),
        }
    }

    fn traces(&mut self, raw: &Spanned<raw::Traces>) -> Traces {
        let collector =
            self.collector(raw.origin, &raw.endpoint, (raw.timeout, raw.compression), &raw.headers, "traces");
        for (number, name) in [(&raw.queue, "queue"), (&raw.batch, "batch")] {
            if !QUEUE.contains(&number.value) {
                let message = format!("`{name}` is from {} to {}", QUEUE.start(), QUEUE.end());
                self.problem(number.origin, message);
            }
        }
        if raw.batch.value > raw.queue.value {
            self.problem(raw.batch.origin, "`batch` is larger than `queue`, so it could never be full");
        }
        Traces {
            collector,
            share: raw.sample.unwrap_or(raw::Traces::SAMPLE).fraction(),
            respects_parent: raw.parent == TraceParent::Respect,
            queue: raw.queue.value,
            batch: raw.batch.value,
            every: raw.every.0,
        }
    }
}

fn check_endpoint(url: &str, signal: &str) -> Result<(), String> {
    let uri = collector_url(url).map_err(|wrong| match wrong {
        WrongUrl::Form(found) => {
            format!("`endpoint`: expected a URL such as `http://127.0.0.1:4318/v1/{signal}`, found `{found}`")
        }
        WrongUrl::Grpc => "`endpoint`: OTLP over gRPC is not supported; collectors take HTTP at port 4318".to_owned(),
        WrongUrl::Credentials => "`endpoint`: put credentials into `headers`".to_owned(),
    })?;
    if uri.path() == "/" {
        return Err(format!(
            "`endpoint`: the path is missing; collectors take {signal} at `{}/v1/{signal}`",
            url.trim_end_matches('/')
        ));
    }
    Ok(())
}

/// What is wrong with the URL of a collector.
pub(crate) enum WrongUrl {
    /// It is none of HTTP; as it may be shown.
    Form(String),
    Grpc,
    Credentials,
}

/// Checks the URL of a collector.
pub(crate) fn collector_url(url: &str) -> Result<Uri, WrongUrl> {
    let wrong = || {
        let mut shown = Vec::new();
        let without_query = url.split(['?', '#']).next().unwrap_or_default();
        redact::BUILT_IN.url(&mut shown, without_query.as_bytes());
        WrongUrl::Form(String::from_utf8_lossy(&shown).into_owned())
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => {}
        Some("grpc") => return Err(WrongUrl::Grpc),
        _ => return Err(wrong()),
    }
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => Err(WrongUrl::Credentials),
        _ => Ok(uri),
    }
}
