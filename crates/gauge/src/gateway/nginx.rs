//! nginx: a location for each path, keep-alive to named upstreams, nothing written to disk.

use std::fmt::Write as _;

use super::model::{PathEntry, Upstream};
use super::paths::{Contested, contested, pattern, with_slashes};
use super::text::{decoded, regex};
use super::{
    Additions, Command, File, Gateway, Locator, Model, Placement, Program, Signal, Signals, Tls, Unsupported, Written,
    additions, profiles,
};
use crate::profile::Profile;

pub(super) struct Nginx;

impl Gateway for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn title(&self) -> &'static str {
        "nginx"
    }

    fn locator(&self) -> Locator {
        Locator { variable: "GAUGE_NGINX", names: &["nginx"], hint: "Debian package nginx-light" }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let more = additions(self, model)?;
        let mut text = head(model, place) + &more.global;
        let named = model.upstreams.iter().any(|upstream| !upstream.is_ip());
        let resolved = |upstream: &Upstream| model.settings.resolver.is_some() && !upstream.is_ip();
        if let Some(resolver) = model.settings.resolver.filter(|_| named) {
            let _ = writeln!(text, "    resolver {resolver};");
        }
        for upstream in &model.upstreams {
            let _ = write!(
                text,
                "    upstream {} {{\n{}{}        keepalive 256;\n        keepalive_requests 1000000000;\n        keepalive_timeout 60s;\n    }}\n",
                upstream.name,
                if resolved(upstream) { format!("        zone {} 64k;\n", upstream.name) } else { String::new() },
                servers(model, upstream, if resolved(upstream) { " resolve" } else { "" })
            );
        }
        for (i, path) in model.paths.iter().enumerate().filter(|(_, path)| one_upstream(path).is_none()) {
            text.push_str(&maps(model, path, i));
        }
        let _ = write!(
            text,
            "    server {{\n        listen {}{} backlog=4096;\n{}{UNDESCRIBED}        location / {{ return 404; }}\n",
            place.listen,
            more.listen.to_owned() + if model.settings.tls.is_some() { " ssl" } else { "" },
            model.settings.tls.as_ref().map_or(String::new(), certificate) + &more.server
        );
        for ((i, path), contested) in model.paths.iter().enumerate().zip(contested(&model.paths)) {
            text.push_str(&location(model, path, i, contested, &more));
        }
        text.push_str("    }\n}\n");
        let mut files = vec![File::new("nginx.conf", text)];
        for upstream in &model.upstreams {
            files.push(File::new(&format!("{}.conf", upstream.name), pass(model, upstream) + &more.upstream));
        }
        files.extend(more.files);
        let mut notes = vec![
            "a path with a dot segment, %2F or # is refused with 400: it would be compared in another form than it is passed on in".to_owned(),
        ];
        if !model.described_underscores() {
            notes.push("header fields with an underscore in their name are dropped".to_owned());
        }
        if named {
            notes.push(match model.settings.resolver {
                None => "nginx resolves names of upstreams only when it starts, and does not start without DNS; --resolver names a DNS server to use while it runs",
                Some(_) => "`resolve` in an upstream needs nginx 1.27.3 or newer",
            }.to_owned());
        }
        if model.routes.iter().any(|route| route.method == apidoc::Method::Trace) {
            notes.push("nginx responds to TRACE with 405, whatever its configuration says".to_owned());
        }
        notes.extend(more.notes);
        Ok(Written { files, notes, left_out: 0 })
    }

    fn signals(&self) -> Signals {
        Signals { reload: Some(Signal::Hup), drain: Signal::Quit }
    }

    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        profiles::nginx::additions(profile)
    }

    fn policies(&self, model: &Model) -> Additions {
        profiles::nginx::policies(model)
    }

    fn command(&self, program: &Program, _place: &Placement) -> Command {
        Command::new(program, &["-p", ".", "-c", "nginx.conf", "-e", "stderr"])
    }

    fn check(&self, program: &Program, place: &Placement) -> Option<Command> {
        let mut command = self.command(program, place);
        command.argv.push("-t".to_owned());
        Some(command)
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["-v"])
    }
}

/// Locations are compared with the path after decoding and without dot segments, and what is passed on is the path as it came.
const UNDESCRIBED: &str = "        # What would be compared in another form than it is passed on in.
        if ($request_uri ~ \"^[^?]*(?:/(?:\\.|%2[eE]){1,2}(?:[/?]|$)|%2[fF]|#)\") { return 400; }
";

fn head(model: &Model, place: &Placement) -> String {
    let underscores = if model.described_underscores() { "    underscores_in_headers on;\n" } else { "" };
    let log = if model.settings.access_log { "/dev/stdout" } else { "off" };
    format!(
        "daemon off;
worker_processes {};
worker_rlimit_nofile 16384;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 8192; }}
http {{
    access_log {log};
    server_tokens off;
    keepalive_requests 1000000000;
    keepalive_timeout 75s;
    client_max_body_size 32m;
    client_body_buffer_size 64k;
    merge_slashes off;
{underscores}
    # Request bodies are passed on as they arrive, and responses wait in memory: nothing goes to disk.
    proxy_request_buffering off;
    proxy_max_temp_file_size 0;
    client_body_temp_path temp_body;
    proxy_temp_path temp_proxy;
    fastcgi_temp_path temp_fastcgi;
    uwsgi_temp_path temp_uwsgi;
    scgi_temp_path temp_scgi;

    proxy_http_version 1.1;
    proxy_connect_timeout 2s;
    proxy_send_timeout 60s;
    proxy_read_timeout 60s;

",
        place.cpus
    )
}

/// What a listener with TLS needs.
fn certificate(tls: &Tls) -> String {
    format!(
        "        ssl_certificate {};
        ssl_certificate_key {};
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:tls:10m;
",
        word(&tls.cert),
        word(&tls.key)
    )
}

impl Model {
    /// Whether a header of the description has an underscore: nginx drops such headers by itself.
    pub(super) fn described_underscores(&self) -> bool {
        self.routes.iter().flat_map(|route| &route.request_headers).any(|name| name.contains('_'))
    }
}

/// The server of an upstream, as often as a request may be sent to it; a failure says nothing about the same server under another number.
fn servers(model: &Model, upstream: &Upstream, resolve: &str) -> String {
    let attempts = model.settings.policies.retries.unwrap_or(0) + 1;
    let fails = if attempts > 1 { " max_fails=0" } else { "" };
    format!("        server {}{resolve}{fails};\n", upstream.address()).repeat(attempts as usize)
}

fn scheme(upstream: &Upstream) -> &'static str {
    if upstream.https { "https" } else { "http" }
}

/// What passes a request on: included by the locations of the upstream, since a location that sets a header inherits none.
fn pass(model: &Model, upstream: &Upstream) -> String {
    if model.settings.http2_upstreams() {
        // The module of gRPC has the same directives under its own name.
        let fields = headers(&upstream.authority()).replace(NO_CONNECTION, "");
        let text =
            format!("grpc_pass grpc://{};\n{fields}", upstream.name).replace("proxy_set_header", "grpc_set_header");
        return text + "grpc_connect_timeout 2s;\ngrpc_send_timeout 60s;\ngrpc_read_timeout 60s;\n";
    }
    // With a variable in it the path is passed on as it came.
    let path = if upstream.base.is_empty() { String::new() } else { format!("{}$request_uri", upstream.base) };
    let mut text = format!("proxy_pass {}://{}{path};\n", scheme(upstream), upstream.name);
    text.push_str(&set_headers(model, &upstream.authority()));
    if upstream.https {
        text.push_str(&tls(&upstream.host));
    }
    text
}

/// The same without `Connection` where the profile sets it: the field would be sent twice.
fn set_headers(model: &Model, host: &str) -> String {
    let text = headers(host);
    match model.settings.profile {
        Profile::WebSocket(_) => text.replace(NO_CONNECTION, ""),
        _ => text,
    }
}

/// Connections to upstreams are kept.
const NO_CONNECTION: &str = "proxy_set_header Connection \"\";\n";

fn headers(host: &str) -> String {
    format!(
        "proxy_set_header Host {host};
proxy_set_header Connection \"\";
proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
proxy_set_header X-Forwarded-Proto $scheme;
proxy_set_header X-Forwarded-Host $http_host;
proxy_set_header X-Request-Id $request_id;
"
    )
}

fn tls(host: &str) -> String {
    format!(
        "proxy_ssl_server_name on;
proxy_ssl_name {host};
proxy_ssl_verify on;
proxy_ssl_verify_depth 4;
proxy_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;
"
    )
}

/// For a path whose methods go to several upstreams: where, and as which host.
fn maps(model: &Model, path: &PathEntry, i: usize) -> String {
    let mut text = String::new();
    let tls = path.targets.iter().any(|target| model.upstreams[target.upstream].https);
    for name in ["pass", "host", "name"].into_iter().filter(|name| tls || *name != "name") {
        let value = |upstream: &Upstream| match name {
            "pass" => format!("{}://{}{}", scheme(upstream), upstream.name, upstream.base),
            "host" => upstream.authority(),
            _ => upstream.host.clone(),
        };
        let _ = writeln!(text, "    map $request_method ${name}_{i} {{");
        for target in &path.targets {
            for method in &target.methods {
                let _ = writeln!(text, "        {method} {};", value(&model.upstreams[target.upstream]));
            }
        }
        text.push_str("    }\n");
    }
    text
}

/// The upstream that all methods of a path go to.
fn one_upstream(path: &PathEntry) -> Option<usize> {
    let first = path.targets.first()?.upstream;
    path.targets.iter().all(|target| target.upstream == first).then_some(first)
}

fn location(model: &Model, path: &PathEntry, i: usize, contested: Contested, more: &Additions) -> String {
    // Locations are compared with the path as it is after decoding.
    // A location `= /a/` would redirect `/a` to it.
    let exact = |literal: &String| literal == "/" || !literal.ends_with('/');
    let expression = || pattern(&path.segments, |literal| regex(&decoded(literal)));
    let matcher = match path.literal().filter(exact) {
        // Many servers take several slashes for one.
        _ if contested == Contested::Slashes => {
            format!("~ {}", word(&format!("^{}\\z", with_slashes(&expression(), "/+"))))
        }
        Some(literal) => format!("= {}", word(&decoded(&literal))),
        None => format!("~ {}", word(&format!("^{}\\z", expression()))),
    };
    let methods: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
    let body = match one_upstream(path) {
        Some(upstream) => format!("            include {}.conf;\n", model.upstreams[upstream].name),
        None => {
            let based = path.targets.iter().any(|target| !model.upstreams[target.upstream].base.is_empty());
            let rest = if based { "$request_uri" } else { "" };
            let mut body = format!("            proxy_pass $pass_{i}{rest};\n");
            let mut lines = set_headers(model, &format!("$host_{i}")) + &more.upstream;
            if path.targets.iter().any(|target| model.upstreams[target.upstream].https) {
                lines.push_str(&tls(&format!("$name_{i}")));
            }
            body.extend(lines.lines().map(|line| format!("            {line}\n")));
            body
        }
    };
    format!(
        "        location {matcher} {{
{}            if ($request_method !~ \"^(?:{})$\") {{ add_header Allow \"{}\" always; return 405; }}
{}{}{body}        }}\n",
        profiles::nginx::preflight(model, path),
        methods.join("|"),
        methods.join(", "),
        profiles::nginx::check(model, path),
        more.route
    )
}

/// A word in double quotes, in which nginx takes `\"` and `\\` for what follows the backslash.
fn word(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if c == '"' {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}
