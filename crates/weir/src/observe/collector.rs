//! Calls of a collector: OTLP over HTTP (`opentelemetry-proto` specification, section "OTLP/HTTP").

use std::time::Duration;

use bytes::Bytes;
use compress::{Coding, Encoder, Failed};
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use telemetry::export::rejected;
use tls::client::Options;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::config;
use crate::upstream::Resolver;
use crate::upstream::client::PersistentConnection;

/// Bytes of a response.
const RESPONSE: usize = 64 * 1024;

/// Level of gzip: higher ones save little of such messages.
const LEVEL: u8 = 1;

/// The content of a call in the coding of the collector; sent again, it is the same.
#[derive(Debug, Clone)]
pub(super) struct Content {
    bytes: Bytes,
    is_gzip: bool,
}

/// Where one signal goes.
pub(super) struct Collector {
    pub(super) spec: config::Collector,
    resolver: Resolver,
    /// Calls follow each other.
    connection: Mutex<PersistentConnection>,
}

/// Why a call failed.
pub(super) struct Failure {
    pub(super) why: String,
    /// Whether the same may be sent again, and after what wait if the collector says so.
    pub(super) retry: Option<Option<Duration>>,
}

impl Collector {
    pub(super) fn new(spec: config::Collector, resolver: Resolver) -> Self {
        Collector { spec, resolver, connection: Mutex::default() }
    }

    /// The endpoint as logs show it: a query may hold a credential.
    fn endpoint_shown(&self) -> &str {
        self.spec.endpoint.split('?').next().unwrap_or_default()
    }

    /// The content of a call that carries this message; as it is where there is no memory to compress it.
    pub(super) fn content(&self, message: Vec<u8>) -> Content {
        match self.spec.is_compressed.then(|| gzip(&message)) {
            Some(Ok(coded)) => Content { bytes: coded.into(), is_gzip: true },
            Some(Err(Failed)) | None => Content { bytes: message.into(), is_gzip: false },
        }
    }

    /// One call, within `limit`; how many spans or points the collector refused.
    pub(super) async fn call(&self, content: Content, limit: Duration) -> Result<u64, Failure> {
        let mut request = Request::post(&self.spec.endpoint)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")));
        if content.is_gzip {
            request = request.header(CONTENT_ENCODING, Coding::Gzip.name());
        }
        for (name, value) in &self.spec.headers {
            request = request.header(name, value);
        }
        let fatal = |why: String| Failure { why, retry: None };
        let request = request.body(Full::new(content.bytes)).map_err(|error| fatal(error.to_string()))?;
        let options = Options::default();
        let until = Instant::now() + limit;
        let late = || format!("{}: no response within {limit:?}", self.endpoint_shown());
        let response = match timeout_at(until, self.connection.lock()).await {
            Ok(mut connection) => connection.send(request, &options, &self.resolver, RESPONSE, Some(until)).await,
            Err(_) => Err(late()),
        };
        let response = match response {
            Ok(response) => response,
            Err(why) if Instant::now() < until => return Err(Failure { why, retry: Some(None) }),
            Err(_) => return Err(Failure { why: late(), retry: Some(None) }),
        };
        // The status decides: what the collector accepted must not be sent again, whatever its body is.
        let status = response.head.status;
        if status.is_success() {
            return Ok(response.body.map_or(0, |body| rejected(&body)));
        }
        let why = format!("{}: status {}", self.endpoint_shown(), status.as_u16());
        // These may be repeated, others not (OTLP/HTTP, "Retryable response codes").
        let retry = matches!(status.as_u16(), 429 | 502 | 503 | 504).then(|| retry_after(&response.head.headers));
        Err(Failure { why, retry })
    }
}

fn gzip(message: &[u8]) -> Result<Vec<u8>, Failed> {
    let mut coded = Vec::new();
    let mut encoder = Encoder::new(Coding::Gzip, LEVEL, Some(message.len() as u64))?;
    encoder.push(message, &mut coded)?;
    encoder.finish(&mut coded)?;
    Ok(coded)
}

/// `Retry-After` in seconds; a date is not read, the backoff does.
fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    fields.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
