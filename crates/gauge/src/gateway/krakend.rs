//! KrakenD 2 (configuration format 3): an endpoint for each operation, with every header and query parameter that passes.

use std::collections::HashMap;

use apidoc::Method;
use serde::Serialize;
use serde_json::json;

use super::model::{Route, Segment};
use super::paths::names;
use super::{Command, File, Gateway, Locator, Model, Place, Program, Ready, Unsupported, Written};

pub(super) struct Krakend;

#[derive(Serialize)]
struct Root<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    version: u32,
    name: &'a str,
    listen_ip: String,
    port: u16,
    timeout: &'a str,
    cache_ttl: &'a str,
    dialer_timeout: &'a str,
    idle_timeout: &'a str,
    idle_connection_timeout: &'a str,
    max_idle_connections_per_host: u32,
    disable_compression: bool,
    extra_config: serde_json::Value,
    endpoints: Vec<Endpoint<'a>>,
}

#[derive(Serialize)]
struct Endpoint<'a> {
    endpoint: String,
    method: &'a str,
    output_encoding: &'a str,
    input_headers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    input_query_strings: Vec<&'a str>,
    backend: [Backend<'a>; 1],
}

#[derive(Serialize)]
struct Backend<'a> {
    host: [String; 1],
    url_pattern: String,
    method: &'a str,
    encoding: &'a str,
}

/// What passes with every request, beside what an operation asks for.
const ALWAYS: [&str; 5] = ["Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "X-Request-Id"];

impl Gateway for Krakend {
    fn name(&self) -> &'static str {
        "krakend"
    }

    fn title(&self) -> &'static str {
        "KrakenD"
    }

    fn locator(&self) -> Locator {
        Locator {
            variable: "GAUGE_KRAKEND",
            names: &["krakend"],
            hint: "KrakenD 2: https://www.krakend.io/docs/overview/installing",
        }
    }

    fn files(&self, model: &Model, place: &Place) -> Result<Written, Unsupported> {
        let mut notes = Vec::new();
        let mut endpoints = Vec::new();
        let mut parameters = Parameters::default();
        for route in &model.routes {
            if !matches!(route.method, Method::Get | Method::Post | Method::Put | Method::Patch | Method::Delete) {
                notes.push(format!(
                    "operation '{}' is left out: KrakenD has no endpoints for {}",
                    route.id, route.method
                ));
                continue;
            }
            let Some(template) = parameters.template(route) else {
                notes.push(format!(
                    "operation '{}' is left out: in {} a parameter is only a part of a segment, or a text begins with ':' or holds '*'",
                    route.id,
                    route.template()
                ));
                continue;
            };
            let upstream = &model.upstreams[route.upstream];
            endpoints.push(Endpoint {
                endpoint: template.clone(),
                method: route.method.as_str(),
                output_encoding: "no-op",
                input_headers: headers(route),
                input_query_strings: route.query.iter().map(String::as_str).collect(),
                backend: [Backend {
                    host: [upstream.url()],
                    url_pattern: template,
                    method: route.method.as_str(),
                    encoding: "no-op",
                }],
            });
        }
        if endpoints.is_empty() {
            return Err(Unsupported { gateway: self.name(), why: notes.join("; ") });
        }
        let root = Root {
            schema: "https://www.krakend.io/schema/v2.10/krakend.json",
            version: 3,
            name: if model.title.is_empty() { "API" } else { &model.title },
            listen_ip: place.listen.ip().to_string(),
            port: place.listen.port(),
            timeout: "60s",
            cache_ttl: "0s",
            dialer_timeout: "2s",
            idle_timeout: "75s",
            idle_connection_timeout: "60s",
            max_idle_connections_per_host: 256,
            // Go's client asks for gzip by itself where the client did not.
            disable_compression: true,
            extra_config: json!({
                "router": {
                    "disable_access_log": true,
                    "disable_redirect_trailing_slash": true,
                    "disable_redirect_fixed_path": true
                },
                "telemetry/logging": {"level": "ERROR", "stdout": true, "syslog": false}
            }),
            endpoints,
        };
        Ok(Written { files: vec![File::new("krakend.json", super::text::json(&root))], notes })
    }

    fn command(&self, program: &Program, place: &Place) -> Command {
        super::go(Command::new(program, &["run", "-c", "krakend.json"]), place)
    }

    fn check(&self, program: &Program, _place: &Place) -> Option<Command> {
        Some(Command::new(program, &["check", "--test-gin-routes", "-c", "krakend.json"]))
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["version"])
    }

    fn ready(&self, place: &Place) -> Ready {
        Ready::Http { address: place.listen, path: "/__health".to_owned(), status: 200 }
    }
}

/// In the form of `Content-Type`, sorted.
fn headers(route: &Route) -> Vec<String> {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    let mut all: Vec<String> =
        route.request_headers.iter().map(|name| name.split('-').map(word).collect::<Vec<_>>().join("-")).collect();
    all.extend(ALWAYS.map(str::to_owned));
    all.sort();
    all.dedup();
    all
}

/// Names of parameters. Its router takes one name for one place: `/a/{id}` and `/a/{key}/b` cannot stand side by side, so the name of
/// the first is taken for both.
#[derive(Default)]
struct Parameters {
    /// The template up to a parameter, to that parameter's name.
    at: HashMap<String, String>,
}

impl Parameters {
    /// The template of a route, or `None` when the router cannot say it.
    fn template(&mut self, route: &Route) -> Option<String> {
        let can = |segment: &Segment| match segment.literal() {
            Some(literal) => !literal.starts_with(':') && !literal.contains('*'),
            None => segment.parameter().is_some(),
        };
        if !route.segments.iter().all(can) {
            return None;
        }
        let mut out = String::new();
        let mut used: Vec<String> = Vec::new();
        for (i, (segment, name)) in route.segments.iter().zip(names(&route.segments)).enumerate() {
            out.push('/');
            match name {
                None => out.push_str(segment.literal().unwrap_or_default()),
                Some(name) => {
                    let name = if used.contains(&name) { format!("{name}_{i}") } else { name };
                    let name = self.at.entry(out.clone()).or_insert(name).clone();
                    out.extend(["{", &name, "}"]);
                    used.push(name);
                }
            }
        }
        Some(out)
    }
}
