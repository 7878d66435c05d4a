//! Variables of OpenTelemetry, which fill keys of `telemetry` that the file leaves out: its specification, "Environment Variable Specification", and
//! that of its protocol, "OTLP Exporter Configuration". A variable is read only if its key is left out, and nothing is switched on by one.
//!
//! Headers and attributes may be credentials: what is wrong with them is said without their text.

use std::str::FromStr;

use http::header::HeaderName;

use super::problem::{Origin, Problem};
use super::raw::shape::{Map, OrNone, Spanned};
use super::raw::text::FieldValue;
use super::raw::units::{Share, Time};
use super::raw::{self, CallCompression, Telemetry};
use super::resolve::telemetry::{WrongUrl, collector_url};
use super::yaml::Environment;

/// Base of the URLs of all signals.
pub(crate) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const COMPRESSION: &str = "OTEL_EXPORTER_OTLP_COMPRESSION";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// The variables of one signal come before those of all.
struct Signal {
    /// What the general endpoint lacks.
    path: &'static str,
    endpoint: &'static str,
    headers: &'static str,
    timeout: &'static str,
    compression: &'static str,
    protocol: &'static str,
}

const TRACES: Signal = Signal {
    path: "v1/traces",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    timeout: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    compression: "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
};
const METRICS: Signal = Signal {
    path: "v1/metrics",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    timeout: "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    compression: "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
};

/// Fills what is left out of the signals that are there; every variable that cannot be understood.
pub(super) fn fill(telemetry: &mut Telemetry, environment: Environment<'_>) -> Vec<Problem> {
    let mut variables = Variables { environment, problems: Vec::new() };
    if telemetry.traces.is_none() && telemetry.metrics.is_none() {
        return Vec::new();
    }
    variables.resource(&mut telemetry.resource);
    if let OrNone::Some(Spanned { value: traces, .. }) = &mut telemetry.traces {
        traces.endpoint = traces.endpoint.take().or_else(|| variables.endpoint(&TRACES));
        traces.timeout.get_or_insert_with(|| variables.timeout(&TRACES));
        traces.headers = traces.headers.take().or_else(|| variables.headers(&TRACES));
        traces.compression.get_or_insert_with(|| variables.compression(&TRACES));
        traces.sample.get_or_insert_with(|| variables.sample().unwrap_or(raw::Traces::SAMPLE));
    }
    if let OrNone::Some(Spanned { value: metrics, .. }) = &mut telemetry.metrics {
        metrics.endpoint = metrics.endpoint.take().or_else(|| variables.endpoint(&METRICS));
        metrics.timeout.get_or_insert_with(|| variables.timeout(&METRICS));
        metrics.headers = metrics.headers.take().or_else(|| variables.headers(&METRICS));
        metrics.compression.get_or_insert_with(|| variables.compression(&METRICS));
    }
    variables.problems
}

struct Variables<'e> {
    environment: Environment<'e>,
    problems: Vec<Problem>,
}

impl Variables<'_> {
    /// The value of a variable; an empty one is as good as not set.
    fn get(&self, name: &'static str) -> Option<Spanned<String>> {
        let value = (self.environment)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| Spanned::new(value.to_owned(), Origin::Variable(name)))
    }

    fn of_signal(&self, own: &'static str, general: &'static str) -> Option<Spanned<String>> {
        self.get(own).or_else(|| self.get(general))
    }

    /// Notes one problem once, although both signals read the variable.
    fn problem(&mut self, origin: Origin, message: String) {
        let problem = Problem::new(origin, message);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn resource(&mut self, resource: &mut Map<String>) {
        let mut add = |name: String, value, origin| {
            if resource.position(&name).is_none() {
                resource.0.push((Spanned::new(name, origin), value));
            }
        };
        // It comes before `service.name` of the list.
        if let Some(name) = self.get(SERVICE_NAME) {
            add("service.name".to_owned(), name.value, name.origin);
        }
        let Some(list) = self.get(RESOURCE_ATTRIBUTES) else { return };
        match pairs(&list) {
            Ok(pairs) => pairs.into_iter().for_each(|(name, value)| add(name, value, list.origin)),
            Err(message) => self.problem(list.origin, message),
        }
    }

    /// The URL is there even if it is wrong, so that it does not count as missing too.
    fn endpoint(&mut self, signal: &Signal) -> Option<Spanned<String>> {
        let own = self.get(signal.endpoint);
        let is_own = own.is_some();
        let url = own.or_else(|| self.get(ENDPOINT))?;
        if let Some(protocol) = self.of_signal(signal.protocol, PROTOCOL)
            && protocol.value != "http/protobuf"
        {
            let message = format!("`{}` is not supported; the protocol has to be `http/protobuf`", protocol.value);
            self.problem(protocol.origin, message);
        }
        if let Err(wrong) = collector_url(&url) {
            let path = if is_own { signal.path } else { "" };
            let message = match wrong {
                WrongUrl::Form(found) => {
                    format!("expected a URL such as `http://127.0.0.1:4318/{path}`, found `{found}`")
                }
                WrongUrl::Grpc => "OTLP over gRPC is not supported; collectors take HTTP at port 4318".to_owned(),
                WrongUrl::Credentials => format!("put credentials into `{HEADERS}`"),
            };
            self.problem(url.origin, message);
        }
        let value = if is_own { url.value } else { with_path(&url, signal.path) };
        Some(Spanned::new(value, url.origin))
    }

    fn timeout(&mut self, signal: &Signal) -> Time {
        let Some(text) = self.of_signal(signal.timeout, TIMEOUT) else { return raw::TIMEOUT };
        Time::from_str(&format!("{}ms", text.value)).unwrap_or_else(|_| {
            let message = format!("expected a number of milliseconds above 0, such as `10000`, found `{}`", text.value);
            self.problem(text.origin, message);
            raw::TIMEOUT
        })
    }

    fn compression(&mut self, signal: &Signal) -> CallCompression {
        let Some(text) = self.of_signal(signal.compression, COMPRESSION) else { return CallCompression::None };
        match &*text.value {
            "gzip" => CallCompression::Gzip,
            "none" => CallCompression::None,
            other => {
                self.problem(text.origin, format!("expected `gzip` or `none`, found `{other}`"));
                CallCompression::None
            }
        }
    }

    fn headers(&mut self, signal: &Signal) -> Option<Map<FieldValue>> {
        let list = self.of_signal(signal.headers, HEADERS)?;
        match pairs(&list).and_then(fields) {
            Ok(fields) => {
                let spanned = |(name, value)| (Spanned::new(name, list.origin), value);
                Some(Map(fields.into_iter().map(spanned).collect()))
            }
            Err(message) => {
                self.problem(list.origin, message);
                None
            }
        }
    }

    /// Whether the decision of the parent counts is what `parent` says, whatever the name of the sampler is.
    fn sample(&mut self) -> Option<Share> {
        let sampler = self.get(SAMPLER)?;
        match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
            "always_on" => Some(Share { percent: 100.0 }),
            "always_off" => Some(Share { percent: 0.0 }),
            "traceidratio" => self.ratio(),
            _ => {
                let message = format!(
                    "the sampler `{}` is not known; there are always_on, always_off, traceidratio, and each with parentbased_ before it",
                    sampler.value
                );
                self.problem(sampler.origin, message);
                None
            }
        }
    }

    /// All if nothing is said.
    fn ratio(&mut self) -> Option<Share> {
        let Some(text) = self.get(SAMPLER_ARG) else { return Some(Share { percent: 100.0 }) };
        let ratio = text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        if ratio.is_none() {
            self.problem(text.origin, format!("expected a ratio from 0 to 1, such as `0.1`, found `{}`", text.value));
        }
        // 0.07 is 7 %, not 7.000000000000001 %.
        ratio.map(|ratio| Share { percent: (ratio * 1e12).round() / 1e10 })
    }
}

/// A URL with more of a path, before its query.
fn with_path(url: &str, path: &str) -> String {
    let (base, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    format!("{}/{path}{query}", base.trim_end_matches('/'))
}

/// `name=value,name=value`, percent-decoded, with blanks around each that do not count.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (position, entry) in text.split(',').enumerate().filter(|(_, entry)| !entry.trim().is_empty()) {
        let wrong = |why: &str| format!("entry {} {why}; expected `name=value,name=value`", position + 1);
        let (name, value) = entry.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
        let decode = |text: &str| {
            decoded(text.trim())
                .ok_or_else(|| wrong("has a `%` that begins no escape, or is not UTF-8 behind its escapes"))
        };
        let (name, value) = (decode(name)?, decode(value)?);
        if name.is_empty() {
            return Err(wrong("has no name"));
        }
        if pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
            return Err(wrong("has the name of another entry"));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// Pairs as fields of requests.
fn fields(pairs: Vec<(String, String)>) -> Result<Vec<(String, FieldValue)>, String> {
    let field = |(position, (name, value)): (usize, (String, String))| {
        let wrong = |why: &str| format!("field {}: {why}", position + 1);
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(wrong("its name is not that of a header field"));
        }
        FieldValue::from_str(&value).map(|value| (name, value)).map_err(|why| wrong(&why))
    };
    pairs.into_iter().enumerate().map(field).collect()
}

/// Text without its escapes; none if one is malformed, or the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let text = text.as_bytes();
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let (byte, length) = match byte {
            b'%' => ((digit(text.get(at + 1))? << 4 | digit(text.get(at + 2))?) as u8, 3),
            _ => (byte, 1),
        };
        bytes.push(byte);
        at += length;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
