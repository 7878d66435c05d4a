//! `reverse_proxy`.

use super::{Importer, placeholder};
use crate::document::{Entry, Map, Route, Value, map, text, texts, time, word};
use crate::report::SourceLocation;
use crate::tree::{Fields, Node};

impl<'n> Importer<'n> {
    /// What a `reverse_proxy` makes of a route. In words, why not.
    pub(super) fn proxy(&mut self, route: &mut Route, node: &'n Node) -> Result<(), String> {
        let place = self.place(node);
        let fields = Fields::of(node);
        fields.skip(&[
            "handler",
            "flush_interval",
            "trusted_proxies",
            "request_buffers",
            "response_buffers",
            "stream_timeout",
            "stream_close_delay",
            "verbose_logs",
        ]);
        for key in ["handle_response", "dynamic_upstreams"] {
            if fields.get(key).is_some_and(|found| !found.items().is_empty() || !found.entries().is_empty()) {
                return Err(format!("{key} of reverse_proxy has no equivalent"));
            }
        }
        if let Some(rewrite) = fields.get("rewrite").filter(|rewrite| !rewrite.entries().is_empty()) {
            let place = self.place(rewrite);
            self.doc.report.left_out(
                &place,
                "rewrite of reverse_proxy",
                "has no equivalent: the request is forwarded as it came",
            );
        }
        let transport = fields.get("transport");
        let protocol = transport.and_then(|transport| transport.get("protocol")).and_then(Node::text).unwrap_or("http");
        if protocol != "http" {
            return Err(format!("the transport {protocol} has no equivalent"));
        }
        let tls = transport.and_then(|transport| transport.get("tls"));
        let mut targets = Vec::new();
        let mut max_in_flight = None;
        for upstream in fields.get("upstreams").map(Node::items).unwrap_or_default() {
            let dial = upstream.get("dial").and_then(Node::text).unwrap_or_default();
            max_in_flight = max_in_flight.or(upstream.get("max_requests").and_then(Node::whole).filter(|&max| max > 0));
            targets.push(target(dial, tls.is_some()).map_err(|why| format!("upstream {dial}: {why}"))?);
        }
        let Some(first) = targets.first().cloned() else { return Err("reverse_proxy has no upstream".to_owned()) };
        let mut value: Map = vec![("targets".to_owned(), texts(targets.clone()))];
        if let Some(tls) = tls {
            self.tls(tls, &place, &mut value);
        }
        let policy = node.at(&["load_balancing", "selection_policy"]);
        let balance = match policy.and_then(|policy| policy.get("policy")).and_then(Node::text).unwrap_or("random") {
            "round_robin" | "weighted_round_robin" => text("round_robin"),
            "least_conn" => text("least_request"),
            "ip_hash" | "client_ip_hash" => map([("hash", text("client_ip"))]),
            "uri_hash" => map([("hash", text("path"))]),
            "header" => match policy.and_then(|policy| policy.get("field")).and_then(Node::text) {
                Some(field) => map([("hash", text(format!("header:{field}")))]),
                None => text("round_robin"),
            },
            other => {
                if targets.len() > 1 {
                    self.doc.report.differs(&place, format!("selection policy {other}"), "targets are taken in turn");
                }
                text("round_robin")
            }
        };
        if policy.and_then(|policy| policy.get("policy")).and_then(Node::text) == Some("weighted_round_robin") {
            let weights: Vec<u64> = policy
                .and_then(|policy| policy.get("weights"))
                .map(Node::items)
                .unwrap_or_default()
                .iter()
                .filter_map(|weight| weight.whole())
                .collect();
            if weights.len() == targets.len() && weights.iter().all(|&weight| weight > 0) {
                let weighted = targets
                    .iter()
                    .zip(&weights)
                    .map(|(url, weight)| map([("url", text(url)), ("weight", word(weight))]));
                value[0].1 = Value::List(weighted.collect());
            }
        }
        value.push(("balance".to_owned(), balance));
        self.health(&fields, &place, &mut value);
        value.push(("retry".to_owned(), self.retry(node, &place)));
        let ms = |key: &str| transport.and_then(|transport| transport.get(key)).and_then(nanoseconds);
        value.push((
            "timeouts".to_owned(),
            map([
                ("connect", time(ms("dial_timeout").unwrap_or(3000))),
                ("first_byte", time(ms("response_header_timeout").unwrap_or(0))),
                ("idle", time(ms("read_timeout").unwrap_or(0))),
            ]),
        ));
        if let Some(transport) = transport {
            self.keep_alive(transport, &mut value);
        }
        if let Some(max) = max_in_flight {
            value.push(("max_in_flight".to_owned(), word(max)));
        }
        fields.skip(&["upstreams", "load_balancing", "headers"]);
        fields.name_rest(self.source, &mut self.doc.report, "reverse_proxy");
        let name = self.upstream(&place, &first, value);
        route.set("upstream", text(name));
        // Caddy tunnels what is upgraded without being told.
        route.set("upgrade", texts(["websocket"]));
        let authority = first.split_once("://").map(|(_, authority)| authority.to_owned());
        self.edits(route, node.at(&["headers", "request"]), "request", authority.as_deref());
        self.edits(route, node.at(&["headers", "response"]), "response", None);
        let has_host = node
            .at(&["headers", "request", "set"])
            .is_some_and(|fields| fields.entries().iter().any(|(name, _, _)| name.eq_ignore_ascii_case("host")));
        if let (true, false, Some(authority)) = (tls.is_some(), has_host, &authority) {
            route.set_in("rewrite", "host", text(authority.strip_suffix(":443").unwrap_or(authority)));
            let how = "`rewrite.host` is that of the first target, as Caddy sends it to https targets since 2.11; before it passed the client's";
            self.doc.report.differs(&place, "Host of reverse_proxy to https", how);
        }
        self.doc.report.exact(&place, "reverse_proxy", "");
        Ok(())
    }

    fn upstream(&mut self, place: &SourceLocation, first: &str, value: Map) -> String {
        let key = format!("{value:?}");
        if let Some(name) = self.made.get(&key) {
            return name.clone();
        }
        let wanted = first
            .split_once("://")
            .map_or(first, |(_, authority)| authority)
            .replace(['[', ']'], "")
            .replace([':', '/'], "-");
        let name = self.doc.name("upstreams", &wanted);
        self.made.insert(key, name.clone());
        self.doc.upstreams.push(Entry {
            name: name.clone(),
            place: place.clone(),
            note: "reverse_proxy".to_owned(),
            value,
        });
        name
    }

    fn tls(&mut self, tls: &'n Node, place: &SourceLocation, value: &mut Map) {
        let fields = Fields::of(tls);
        let mut out = Map::new();
        if fields.flag("insecure_skip_verify") == Some(true) {
            out.push(("verify".to_owned(), word(false)));
            out.push(("insecure".to_owned(), word(true)));
            let how = "written as it is: anyone on the way to the target can read and change requests";
            self.doc.report.differs(place, "insecure_skip_verify", how);
        }
        if let Some(name) = fields.text("server_name").filter(|name| !placeholder(name)) {
            out.push(("server_name".to_owned(), text(name)));
        }
        fields.name_rest(self.source, &mut self.doc.report, "tls of reverse_proxy");
        if !out.is_empty() {
            value.push(("tls".to_owned(), Value::Map(out)));
        }
    }

    fn health(&mut self, fields: &Fields<'n>, place: &SourceLocation, value: &mut Map) {
        let checks = fields.get("health_checks");
        if let Some(active) = checks.and_then(|checks| checks.get("active")) {
            let path = active.get("uri").or_else(|| active.get("path")).and_then(Node::text).unwrap_or("/");
            let ms =
                |key: &str, default: u64| active.get(key).and_then(nanoseconds).filter(|&ms| ms > 0).unwrap_or(default);
            let count = |key: &str| active.get(key).and_then(Node::whole).filter(|&count| count > 0).unwrap_or(1);
            let health = map([
                ("path", text(path.split('?').next().unwrap_or("/"))),
                ("interval", time(ms("interval", 30_000))),
                ("timeout", time(ms("timeout", 5_000))),
                ("healthy_after", word(count("passes"))),
                ("unhealthy_after", word(count("fails"))),
                ("status", text("200-299")),
            ]);
            value.push(("health".to_owned(), health));
            self.doc.report.exact(place, "active health checks", "`health`");
        }
        let passive = checks.and_then(|checks| checks.get("passive"));
        let period =
            passive.and_then(|passive| passive.get("fail_duration")).and_then(nanoseconds).filter(|&ms| ms > 0);
        let eject = match (passive, period) {
            (Some(passive), Some(period)) => {
                let fails = passive.get("max_fails").and_then(Node::whole).filter(|&fails| fails > 0).unwrap_or(1);
                self.doc.report.differs(place, "passive health checks", "`eject` counts failures in a row");
                map([("after", word(fails)), ("for", time(period))])
            }
            _ => word("none"),
        };
        value.push(("eject".to_owned(), eject));
    }

    fn retry(&mut self, node: &Node, place: &SourceLocation) -> Value {
        let retries = node.at(&["load_balancing", "retries"]).and_then(Node::whole).unwrap_or(0);
        let trying = node.at(&["load_balancing", "try_duration"]).and_then(nanoseconds).unwrap_or(0);
        if trying > 0 {
            self.doc.report.differs(place, "try_duration", "Weir counts attempts, not time");
        }
        let extra = if retries == 0 && trying > 0 { 3 } else { retries.min(10) };
        if extra == 0 {
            return word("none");
        }
        map([
            ("extra_attempts", word(extra)),
            ("budget", word("100%")),
            ("on", Value::List(["connect", "reset", "try_timeout"].map(word).into())),
        ])
    }

    fn keep_alive(&mut self, transport: &'n Node, value: &mut Map) {
        let fields = Fields::of(transport);
        fields.skip(&[
            "protocol",
            "tls",
            "dial_timeout",
            "response_header_timeout",
            "read_timeout",
            "write_timeout",
            "compression",
            "versions",
            "max_conns_per_host",
            "read_buffer_size",
            "write_buffer_size",
        ]);
        if let Some(keep) = fields.get("keep_alive") {
            if keep.get("enabled").and_then(Node::flag) == Some(false) {
                value.push(("keep_alive".to_owned(), word("none")));
            } else {
                let mut out = Map::new();
                if let Some(idle) = keep.get("idle_timeout").and_then(nanoseconds).filter(|&ms| ms > 0) {
                    out.push(("idle".to_owned(), time(idle)));
                }
                if let Some(max) = keep.get("max_idle_conns_per_host").and_then(Node::whole).filter(|&max| max > 0) {
                    out.push(("max_idle".to_owned(), word(max)));
                }
                if !out.is_empty() {
                    value.push(("keep_alive".to_owned(), Value::Map(out)));
                }
            }
        }
        fields.name_rest(self.source, &mut self.doc.report, "transport of reverse_proxy");
    }
}

/// A duration in nanoseconds or as Go writes it, in milliseconds.
pub(super) fn nanoseconds(node: &Node) -> Option<u64> {
    match node.number() {
        Some(number) if (0.0..1e18).contains(&number) => Some((number / 1e6).ceil() as u64),
        _ => node.text().and_then(crate::traefik::duration),
    }
}

pub(super) fn target(dial: &str, tls: bool) -> Result<String, String> {
    if let Some(path) = dial.strip_prefix("unix/") {
        return if path.starts_with('/') && path.len() <= 107 && !tls {
            Ok(format!("unix:{path}"))
        } else {
            Err("is not a socket that Weir connects to".to_owned())
        };
    }
    let address = dial.strip_prefix("tcp/").unwrap_or(dial);
    let valid = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    let bracket = address.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = address
        .rsplit_once(':')
        .filter(|_| address[bracket..].contains(':'))
        .unwrap_or((address, if tls { "443" } else { "80" }));
    if host.is_empty() || !address.chars().all(valid) || port.parse::<u16>().map_or(true, |port| port == 0) {
        return Err("is not one host and port".to_owned());
    }
    Ok(format!("{}://{host}:{port}", if tls { "https" } else { "http" }))
}
