//! KrakenD 2 (configuration format 3): an endpoint for each operation; headers and queries pass whole.

use std::collections::HashMap;

use apidoc::Method;
use serde::Serialize;
use serde_json::json;

use super::model::Segment;
use super::paths::{names, widened};
use super::text::decoded;
use super::{
    Additions, Command, File, Gateway, Locator, Model, Placement, Program, Ready, Unsupported, Written, profiles,
};
use crate::profile::Profile;

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
    input_headers: [&'a str; 1],
    input_query_strings: [&'a str; 1],
    backend: [Backend<'a>; 1],
}

#[derive(Serialize)]
struct Backend<'a> {
    host: [String; 1],
    url_pattern: String,
    method: &'a str,
    encoding: &'a str,
}

/// The methods that an endpoint can have.
const METHODS: [Method; 5] = [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete];

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

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        // In its router `*` and `:` are wildcards, and braces parameters.
        let can = |segment: &Segment| match segment.literal().map(decoded) {
            Some(literal) => !literal.starts_with(':') && !literal.contains(['*', '?', '{', '}']),
            None => segment.parameter().is_some(),
        };
        let (paths, mut notes) = widened(model, false, can).map_err(|why| Unsupported { gateway: self.name(), why })?;
        let mut endpoints = Vec::new();
        let mut parameters = Parameters::default();
        let mut left_out = 0;
        for (path, target) in paths.iter().flat_map(|path| path.targets.iter().map(move |target| (path, target))) {
            let reserved =
                path.segments.iter().filter_map(Segment::literal).map(decoded).find(|segment| reserved(segment));
            let upstream = &model.upstreams[target.upstream];
            let (endpoint, backend) = parameters.templates(&path.segments);
            for method in &target.methods {
                let route = target.routes.iter().map(|&i| &model.routes[i]).find(|route| route.method == *method);
                let why = match &reserved {
                    Some(name) => Some(format!("paths with {name} are KrakenD's own")),
                    None if !METHODS.contains(method) => Some(format!("KrakenD has no endpoints for {method}")),
                    None => None,
                };
                if let Some(why) = why {
                    // HEAD that comes with GET is not of the description.
                    if let Some(route) = route {
                        notes.push(format!("operation '{}' is left out: {why}", route.id));
                        left_out += 1;
                    }
                    continue;
                }
                endpoints.push(Endpoint {
                    endpoint: endpoint.clone(),
                    method: method.as_str(),
                    output_encoding: "no-op",
                    input_headers: ["*"],
                    input_query_strings: ["*"],
                    backend: [Backend {
                        host: [upstream.url()],
                        url_pattern: format!("{}{backend}", upstream.base),
                        method: method.as_str(),
                        encoding: "no-op",
                    }],
                });
            }
        }
        notes.push("HEAD is refused".to_owned());
        notes.push("a parameter with %2F is refused with 404; other parameters and queries are decoded, and encoded again for the upstream".to_owned());
        notes.push("a dot segment counts as the value of a parameter, and is forwarded".to_owned());
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
            // Go's client requests gzip by itself where the client did not.
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
        Ok(Written { files: vec![File::new("krakend.json", super::text::json(&root))], notes, left_out })
    }

    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        profiles::krakend::additions(profile)
    }

    fn command(&self, program: &Program, place: &Placement) -> Command {
        super::go(Command::new(program, &["run", "-c", "krakend.json"]), place)
    }

    fn check(&self, program: &Program, _place: &Placement) -> Option<Command> {
        Some(Command::new(program, &["check", "--test-gin-routes", "-c", "krakend.json"]))
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["version"])
    }

    fn ready(&self, place: &Placement) -> Ready {
        Ready::Http { address: place.listen, path: "/__health".to_owned(), status: 200 }
    }
}

/// What it keeps for itself, wherever it is in a path.
fn reserved(segment: &str) -> bool {
    ["__debug", "__echo", "__health"].contains(&segment)
}

/// Names of parameters. Its router takes one name for one place: `/a/{id}` and `/a/{key}/b` cannot stand side by side, so the name of
/// the first is taken for both.
#[derive(Default)]
struct Parameters {
    /// The template up to a parameter, to that parameter's name.
    at: HashMap<String, String>,
}

impl Parameters {
    /// The path as an endpoint, which is compared with decoded paths, and as a backend's pattern, which is what is sent.
    fn templates(&mut self, segments: &[Segment]) -> (String, String) {
        let (mut endpoint, mut backend) = (String::new(), String::new());
        let mut used: Vec<String> = Vec::new();
        for (i, (segment, name)) in segments.iter().zip(names(segments)).enumerate() {
            endpoint.push('/');
            backend.push('/');
            match name {
                None => {
                    let literal = segment.literal().unwrap_or_default();
                    endpoint.push_str(&decoded(literal));
                    backend.push_str(literal);
                }
                Some(name) => {
                    let name = if used.contains(&name) { format!("{name}_{i}") } else { name };
                    let name = self.at.entry(endpoint.clone()).or_insert(name).clone();
                    endpoint.extend(["{", &name, "}"]);
                    backend.extend(["{", &name, "}"]);
                    used.push(name);
                }
            }
        }
        (endpoint, backend)
    }
}
