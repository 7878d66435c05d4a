//! Kong 3, without a database: a service for each upstream, a route for each path of it.

use std::fmt::Write as _;

use super::model::{PathEntry, Upstream};
use super::paths::{Contested, contested, names};
use super::text::{decoded_but_reserved, quoted, regex, reserved_in_every_form};
use super::{
    Additions, Command, File, Gateway, Locator, Model, Part, Placement, Program, Unsupported, Written, additions,
    profiles,
};
use crate::profile::Profile;

pub(super) struct Kong;

const NOTES: [&str; 1] =
    ["dot segments are removed and escapes decoded before a path is compared and passed on; %2F stays as it is"];

impl Gateway for Kong {
    fn name(&self) -> &'static str {
        "kong"
    }

    fn title(&self) -> &'static str {
        "Kong"
    }

    fn locator(&self) -> Locator {
        Locator {
            variable: "GAUGE_KONG",
            names: &["kong"],
            hint: "Kong Gateway 3: https://developer.konghq.com/gateway/install",
        }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let more = additions(self, model)?;
        let mut text = format!(
            "_format_version: \"3.0\"
_transform: true

plugins:
  - name: correlation-id
    config: {{header_name: X-Request-Id, generator: uuid, echo_downstream: false}}
{}
services:
",
            more.global
        );
        // Between two reads, of what is upgraded too.
        let silence = if matches!(model.settings.profile, Profile::WebSocket(_)) { 3_600_000 } else { 60_000 };
        let contested = contested(&model.paths);
        for (u, upstream) in model.upstreams.iter().enumerate() {
            let _ = write!(
                text,
                "  - name: {}
    protocol: {}
    host: {}
    port: {}
    connect_timeout: 2000
    read_timeout: {silence}
    write_timeout: {silence}
    retries: {}
{}    routes:
",
                upstream.name,
                if upstream.https { "https" } else { "http" },
                quoted(&upstream.host),
                upstream.port,
                model.settings.policies.retries.unwrap_or(0),
                if upstream.https { "    tls_verify: true\n" } else { "" }.to_owned() + &base(upstream)
            );
            for (i, path) in model.paths.iter().enumerate() {
                let (expression, priority) = (expression(path, contested[i]), model.paths.len() - i);
                if path.targets[0].upstream == u {
                    text.push_str(&profiles::kong::preflight(model, path, &expression, i, priority));
                }
                for target in path.targets.iter().filter(|target| target.upstream == u) {
                    let methods: Vec<&str> = target.methods.iter().map(|method| method.as_str()).collect();
                    let _ = write!(
                        text,
                        "      - name: {}
        methods: [{}]
        paths: [{}]
        regex_priority: {}
        strip_path: false
        preserve_host: false
        request_buffering: false
        protocols: [http]
{}",
                        quoted(&route_name(&model.routes[target.routes[0]].id, i)),
                        methods.join(", "),
                        quoted(&expression),
                        priority,
                        profiles::kong::plugins(model, path, target.guard)
                    );
                }
            }
        }
        Ok(Written {
            files: vec![File::new("kong.yaml", text), File::new("kong.conf", conf(model, place) + &more.end)],
            notes: NOTES.map(str::to_owned).into_iter().chain(more.notes).collect(),
            left_out: 0,
        })
    }

    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        profiles::kong::additions(profile)
    }

    fn policies(&self, model: &Model) -> Additions {
        profiles::kong::policies(model)
    }

    fn command(&self, program: &Program, _place: &Placement) -> Command {
        Command::new(program, &["start", "-c", "kong.conf"])
    }

    fn check(&self, program: &Program, _place: &Placement) -> Option<Command> {
        Some(Command::new(program, &["config", "-c", "kong.conf", "parse", "kong.yaml"]))
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["version"])
    }
}

/// The path that comes before the path of every request.
fn base(upstream: &Upstream) -> String {
    if upstream.base.is_empty() { String::new() } else { format!("    path: {}\n", quoted(&upstream.base)) }
}

fn conf(model: &Model, place: &Placement) -> String {
    // `tls_verify` of a service has no authorities of its own.
    let authorities = if model.upstreams.iter().any(|upstream| upstream.https) {
        "nginx_proxy_proxy_ssl_trusted_certificate = /etc/ssl/certs/ca-certificates.crt
nginx_proxy_proxy_ssl_verify_depth = 4
"
    } else {
        ""
    };
    format!(
        "# Kong without a database, in the foreground.
database = off
declarative_config = kong.yaml
prefix = run
proxy_listen = {}{} backlog=4096
{}admin_listen = off
admin_gui_listen = off
status_listen = {}
nginx_daemon = off
nginx_main_worker_processes = {}
nginx_main_worker_rlimit_nofile = 65536
nginx_events_worker_connections = 16384
proxy_access_log = {}
proxy_error_log = /dev/stderr
log_level = error
anonymous_reports = off
nginx_http_keepalive_requests = 1000000000
nginx_http_client_body_buffer_size = 64k
nginx_http_client_max_body_size = 32m
upstream_keepalive_pool_size = 256
upstream_keepalive_max_requests = 0
upstream_keepalive_idle_timeout = 60
{authorities}",
        place.listen,
        if model.settings.tls.is_some() { " ssl" } else { "" },
        model
            .settings
            .tls
            .as_ref()
            .map_or(String::new(), |tls| { format!("ssl_cert = {}\nssl_cert_key = {}\n", tls.cert, tls.key) }),
        model.settings.policies.metrics.map_or("off".to_owned(), |address| address.to_string()),
        place.cpus,
        if model.settings.access_log { "/dev/stdout" } else { "off" }
    )
}

/// `~/active/bid/(?<auctionID>[^#?/]+)$`. Kong takes a path without `~` for a prefix, so literal ones are expressions too; it compares
/// with a path that is decoded but for what is reserved.
/// If the path is contested, what is reserved is matched in both forms.
fn expression(path: &PathEntry, contested: Contested) -> String {
    let mut out = String::from("~");
    let captures = names(&path.segments);
    for (i, segment) in path.segments.iter().enumerate() {
        out.push('/');
        for (j, part) in segment.parts.iter().enumerate() {
            match part {
                Part::Literal(text) if contested == Contested::No => out.push_str(&regex(&decoded_but_reserved(text))),
                Part::Literal(text) => out.push_str(&reserved_in_every_form(text)),
                Part::Parameter(_) | Part::MultiSegment(_) => {
                    // A capture has 32 characters at most.
                    let name = captures[i].clone().filter(|name| name.len() <= 32).unwrap_or(format!("p{i}_{j}"));
                    let matched = if matches!(part, Part::Parameter(_)) { "[^#?/]+" } else { "[^#?/][^#?]*" };
                    let _ = write!(out, "(?<{name}>{matched})");
                }
            }
        }
    }
    out.push('$');
    out
}

/// Names of routes hold letters, digits and `.-_~`; where something else had to go the position keeps them apart.
fn route_name(id: &str, i: usize) -> String {
    let plain: String = id.chars().map(|c| if c.is_alphanumeric() || ".-_~".contains(c) { c } else { '-' }).collect();
    if plain == id { plain } else { format!("{plain}-{i}") }
}
