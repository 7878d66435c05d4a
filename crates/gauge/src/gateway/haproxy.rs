//! HAProxy: maps from the path to a route and from method and route to a backend, so that the number of operations costs nothing for
//! literal paths.

use std::fmt::Write as _;

use super::paths::pattern;
use super::text::regex;
use super::{Command, File, Gateway, Locator, Model, Place, Program, Unsupported, Written};

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

    fn files(&self, model: &Model, place: &Place) -> Result<Written, Unsupported> {
        let (mut literals, mut templates, mut methods, mut allow) =
            (String::new(), String::new(), String::new(), String::new());
        for (i, path) in model.paths.iter().enumerate() {
            let _ = match path.literal() {
                Some(literal) => writeln!(literals, "{literal} /{i}"),
                None => writeln!(templates, "^{}$ /{i}", pattern(&path.segments, regex)),
            };
            for target in &path.targets {
                for method in &target.methods {
                    let _ = writeln!(methods, "{method}/{i} {}", model.upstreams[target.upstream].name);
                }
            }
            let names: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
            let _ = writeln!(allow, "/{i} {}", names.join(", "));
        }
        let mut text = head(place);
        for upstream in &model.upstreams {
            let tls = if upstream.https {
                format!(" ssl verify required ca-file /etc/ssl/certs/ca-certificates.crt sni str({})", upstream.host)
            } else {
                String::new()
            };
            let _ = write!(
                text,
                "\nbackend {}\n    http-request set-header Host {}\n    server s {}{tls} pool-max-conn 256 pool-purge-delay 60s\n",
                upstream.name,
                upstream.authority(),
                upstream.address()
            );
        }
        let files = vec![
            File::new("haproxy.cfg", text),
            File::new("literals.map", literals),
            File::new("templates.map", templates),
            File::new("methods.map", methods),
            File::new("allow.map", allow),
        ];
        Ok(Written { files, notes: Vec::new() })
    }

    fn command(&self, program: &Program, _place: &Place) -> Command {
        Command::new(program, &["-W", "-f", "haproxy.cfg"])
    }

    fn check(&self, program: &Program, _place: &Place) -> Option<Command> {
        Some(Command::new(program, &["-c", "-f", "haproxy.cfg"]))
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["-v"])
    }
}

fn head(place: &Place) -> String {
    format!(
        "global
    nbthread {}

defaults
    mode http
    timeout connect 2s
    timeout client 75s
    timeout server 60s
    timeout http-request 10s
    timeout http-keep-alive 75s
    option http-keep-alive
    http-reuse aggressive

frontend in
    bind {} backlog 4096
    # The route by the path, then the backend by method and route.
    http-request set-var(txn.route) path,map_str(literals.map)
    http-request set-var(txn.route) path,map_reg(templates.map) unless {{ var(txn.route) -m found }}
    http-request return status 404 content-type text/plain string \"not found\" unless {{ var(txn.route) -m found }}
    http-request set-var(txn.backend) method,concat(,txn.route),map_str(methods.map)
    http-request return status 405 hdr Allow \"%[var(txn.route),map_str(allow.map)]\" content-type text/plain string \"method not allowed\" unless {{ var(txn.backend) -m found }}
    unique-id-format %{{+X}}o%ci%cp%Ts%rt
    http-request set-header X-Request-Id %[unique-id]
    option forwardfor
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Forwarded-Host %[req.hdr(host)]
    use_backend %[var(txn.backend)]
",
        place.cpus, place.listen
    )
}
