//! HAProxy: maps from the path to a route and from method and route to a backend, so that the number of operations costs nothing for
//! literal paths.

use std::fmt::Write as _;

use super::model::Upstream;
use super::paths::{Contested, checked_pattern, contested};
use super::settings::EncodedSlash;
use super::{
    Additions, Command, File, Gateway, Locator, Model, Placement, Program, Signal, Signals, Unsupported, Written,
    additions, profiles,
};
use crate::profile::Profile;

pub(super) struct Haproxy;

impl Gateway for Haproxy {
    fn name(&self) -> &'static str {
        "haproxy"
    }

    fn title(&self) -> &'static str {
        "HAProxy"
    }

    fn locator(&self) -> Locator {
        Locator { variable: "GAUGE_HAPROXY", names: &["haproxy"], hint: "Debian package haproxy" }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let (mut literals, mut templates, mut methods, mut allow) =
            (String::new(), String::new(), String::new(), String::new());
        for ((i, path), contested) in model.paths.iter().enumerate().zip(contested(&model.paths)) {
            if let Some(literal) = path.literal() {
                let _ = writeln!(literals, "{literal} /{i}");
            }
            // In another encoding it would be taken for a path with another check.
            if path.literal().is_none() || contested != Contested::No {
                let _ = writeln!(templates, "^{}$ /{i}", checked_pattern(&path.segments, contested, false));
            }
            for target in &path.targets {
                for method in &target.methods {
                    let _ = writeln!(methods, "{method}/{i} {}", model.upstreams[target.upstream].name);
                }
            }
            let names: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
            let _ = writeln!(allow, "/{i} {}", names.join(", "));
        }
        let more = additions(self, model)?;
        let mut text = head(model, place, &more) + &more.global;
        for upstream in &model.upstreams {
            let tls = if upstream.https {
                format!(" ssl verify required ca-file /etc/ssl/certs/ca-certificates.crt sni str({})", upstream.host)
            } else {
                String::new()
            };
            let http2 = if model.settings.http2_upstreams() { " proto h2" } else { "" };
            let _ = write!(
                text,
                "\nbackend {}\n    http-request set-header Host {}\n{}{}{}    server s {}{tls}{http2}{}{} pool-max-conn 256 pool-purge-delay 60s\n",
                upstream.name,
                upstream.authority(),
                if upstream.base.is_empty() {
                    String::new()
                } else {
                    format!("    http-request set-path {}%[path]\n", upstream.base.replace('%', "%%"))
                },
                more.upstream,
                model.settings.health.as_ref().map_or(String::new(), |path| format!(
                    "    option httpchk\n    http-check send meth GET uri {path} hdr Host {}\n",
                    upstream.authority()
                )),
                upstream.address(),
                // It starts without DNS, and follows changes.
                if upstream.is_ip() { "" } else { " resolvers dns init-addr last,libc,none" },
                if model.settings.health.is_some() { " check inter 2s" } else { "" }
            );
        }
        let mut files = vec![
            File::new("haproxy.cfg", text),
            File::new("literals.map", literals),
            File::new("templates.map", templates),
            File::new("methods.map", methods),
            File::new("allow.map", allow),
        ];
        files.extend(more.files);
        let mut notes = vec!["a path with a dot segment is refused with 400".to_owned()];
        if let Some(tls) = &model.settings.tls {
            notes.push(format!("HAProxy reads the key from the file of the certificate, or from {}.key", tls.cert));
        }
        notes.extend(more.notes);
        Ok(Written { files, notes, left_out: 0 })
    }

    fn signals(&self) -> Signals {
        Signals { reload: Some(Signal::Usr2), drain: Signal::Usr1 }
    }

    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        profiles::haproxy::additions(profile)
    }

    fn policies(&self, model: &Model) -> Additions {
        profiles::haproxy::policies(model)
    }

    fn command(&self, program: &Program, _place: &Placement) -> Command {
        Command::new(program, &["-W", "-f", "haproxy.cfg"])
    }

    fn check(&self, program: &Program, _place: &Placement) -> Option<Command> {
        Some(Command::new(program, &["-c", "-f", "haproxy.cfg"]))
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["-v"])
    }
}

fn head(model: &Model, place: &Placement, more: &Additions) -> String {
    let (route, server) = (&more.route, &more.server);
    let settings = &model.settings;
    let slash = match settings.encoded_slash {
        EncodedSlash::Pass => "",
        EncodedSlash::Reject => "    http-request deny deny_status 400 if { path -m sub -i %2f }\n",
    };
    let resolvers = match settings.resolver {
        _ if model.upstreams.iter().all(Upstream::is_ip) => String::new(),
        None => "\nresolvers dns\n    parse-resolv-conf\n    hold valid 10s\n".to_owned(),
        Some(resolver) => format!("\nresolvers dns\n    nameserver dns {resolver}\n    hold valid 10s\n"),
    };
    format!(
        "global
    nbthread {}
{}{resolvers}
defaults
    mode http
{}    timeout connect 2s
    timeout client 75s
    timeout server 60s
    timeout http-request 10s
    timeout http-keep-alive 75s
    option http-keep-alive
    http-reuse aggressive

frontend in
    bind {}{}{} backlog 4096
    # A dot segment would be taken for a parameter and passed on.
    http-request deny deny_status 400 if {{ path -m sub -i /. /%2e }} {{ path -m reg -i /([.]|%2e){{1,2}}(/|$) }}
{slash}{}{}    # The route by the path, then the backend by method and route.
    http-request set-var(txn.route) path,map_str(literals.map)
    http-request set-var(txn.route) path,map_reg(templates.map) unless {{ var(txn.route) -m found }}
    http-request return status 404 content-type text/plain string \"not found\" unless {{ var(txn.route) -m found }}
{server}    http-request set-var(txn.backend) method,concat(,txn.route),map_str(methods.map)
    http-request return status 405 hdr Allow \"%[var(txn.route),map_str(allow.map)]\" content-type text/plain string \"method not allowed\" unless {{ var(txn.backend) -m found }}
{route}    unique-id-format %{{+X}}o%ci%cp%Ts%rt
    http-request set-header X-Request-Id %[unique-id]
    option forwardfor
    http-request set-header X-Forwarded-Proto {}
    http-request set-header X-Forwarded-Host %[req.hdr(host)]
    use_backend %[var(txn.backend)]
",
        place.cpus,
        if settings.access_log { "    log stdout format raw local0\n" } else { "" },
        if settings.access_log { "    log global\n    option httplog\n" } else { "" },
        place.listen,
        settings.tls.as_ref().map_or(String::new(), |tls| format!(" ssl crt {}", tls.cert)),
        more.listen,
        if model.checks() { ENCODED_DOTS } else { "" },
        if matches!(settings.profile, Profile::WebSocket(_)) { WEBSOCKETS } else { NO_UPGRADE },
        if settings.tls.is_some() { "https" } else { "http" }
    )
}

/// A server that takes `%2F` for a slash would take them for another path, which may need credentials.
const ENCODED_DOTS: &str =
    "    http-request deny deny_status 400 if { path -m sub -i %2f } { path -m reg -i (/|%2f)([.]|%2e){1,2}(/|%2f|$) }
";

/// What follows an upgrade is not looked at, and fields that `Connection` names are removed by servers, the gateway's own too.
const NO_UPGRADE: &str = "    # Nothing is upgraded: what follows an upgrade would pass without a look at it.
    http-request del-header Upgrade
    http-request del-header HTTP2-Settings
    http-request del-header Connection
";

const WEBSOCKETS: &str = "    # Nothing but WebSocket is upgraded: what follows an upgrade passes without a look at it.
    http-request del-header Upgrade unless { req.fhdr(upgrade) -i -m str websocket }
    http-request del-header HTTP2-Settings
    http-request del-header Connection unless { req.hdr(upgrade) -m found }
    http-request set-header Connection Upgrade if { req.hdr(upgrade) -m found }
";
