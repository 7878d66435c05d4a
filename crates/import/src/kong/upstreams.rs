//! Services and upstreams.

use super::{Importer, Service, base};
use crate::document::{Entry, Map, Value, map, text, time, word};
use crate::report::SourceLocation;
use crate::tree::{Fields, Node};

impl<'n> Importer<'n> {
    /// A service as an upstream.
    pub(super) fn service(&mut self, node: &'n Node) -> Option<Service> {
        let place = self.place(node);
        let fields = Fields::of(node);
        let url = fields.text("url");
        let label = fields.text("name").unwrap_or("without a name").to_owned();
        let note = format!("service {label}");
        fields.skip(&["routes", "plugins", "tags", "id", "created_at", "updated_at"]);
        if fields.flag("enabled") == Some(false) {
            self.doc.report.exact(&place, note, "a service that is not enabled was not written");
            return None;
        }
        let mut protocol = fields.text("protocol").unwrap_or("http").to_owned();
        let mut host = fields.text("host").unwrap_or_default().to_owned();
        let mut port = fields.whole("port");
        let mut path = fields.text("path").unwrap_or_default().to_owned();
        if let Some((scheme, rest)) = url.and_then(|url| url.split_once("://")) {
            protocol = scheme.to_owned();
            let (authority, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let bracket = authority.rfind(']').map_or(0, |end| end + 1);
            let colon = authority[bracket..].rfind(':').map(|colon| bracket + colon);
            host = authority[..colon.unwrap_or(authority.len())].to_owned();
            port = colon
                .map_or(Some(if scheme == "https" { 443 } else { 80 }), |colon| authority[colon + 1..].parse().ok());
            path = rest.to_owned();
        }
        let tls = match protocol.as_str() {
            "http" => false,
            "https" => true,
            other => {
                self.doc.report.left_out(
                    &place,
                    note,
                    format!("services that speak {other} have no equivalent; their routes were not written"),
                );
                return None;
            }
        };
        let base = match base(&path) {
            Ok(base) if !host.is_empty() => base,
            Ok(_) => {
                self.doc.report.left_out(&place, note, "it has no host; its routes were not written");
                return None;
            }
            Err(why) => {
                self.doc.report.left_out(&place, note, format!("its path: {why}; its routes were not written"));
                return None;
            }
        };
        let mut value = Map::new();
        let mut sent_host = None;
        let balancer = self.balancers.get(host.as_str()).copied();
        let targets = match balancer {
            Some(node) => self.targets(node, tls, &base, &mut sent_host, &mut value),
            None => {
                // Kong's own port is 80, whatever the protocol.
                let port = port.unwrap_or(80);
                let host = bracketed(&host);
                let usual = if tls { 443 } else { 80 };
                sent_host = Some(if port == usual { host.clone() } else { format!("{host}:{port}") });
                value.push(("balance".to_owned(), text("round_robin")));
                value.push(("eject".to_owned(), word("none")));
                valid(&host).then(|| vec![text(format!("{}://{host}:{port}{base}", scheme(tls)))])
            }
        };
        let Some(targets) = targets.filter(|targets| !targets.is_empty()) else {
            self.doc.report.left_out(
                &place,
                note,
                "it has no target that Weir can connect to; its routes were not written",
            );
            return None;
        };
        value.insert(0, ("targets".to_owned(), Value::List(targets)));
        self.tls(&fields, tls, &note, &place, &mut value);
        let ms = |name: &str| fields.whole(name).unwrap_or(60_000);
        let read = ms("read_timeout");
        value.push((
            "timeouts".to_owned(),
            map([
                ("connect", time(ms("connect_timeout"))),
                ("first_byte", time(read)),
                ("idle", time(read)),
                ("tunnel_idle", time(read)),
            ]),
        ));
        if ms("write_timeout") != 60_000 {
            self.doc.report.differs(
                &place,
                format!("write_timeout of {note}"),
                "what Weir waits for while it sends is part of `first_byte`",
            );
        }
        let retries = fields.whole("retries").unwrap_or(5).min(10);
        value.push((
            "retry".to_owned(),
            if retries == 0 {
                word("none")
            } else {
                map([
                    ("extra_attempts", word(retries)),
                    ("budget", word("100%")),
                    ("on", Value::List(["connect", "reset", "try_timeout"].map(word).into())),
                ])
            },
        ));
        fields.name_rest(self.source, &mut self.doc.report, &note);
        let name = self.doc.name("upstreams", &label);
        self.doc.upstreams.push(Entry { name: name.clone(), place: place.clone(), note: note.clone(), value });
        self.doc.report.exact(&place, note, format!("upstream {name}"));
        let plugins = node.get("plugins").map(Node::items).unwrap_or_default().to_vec();
        Some(Service { name, host: sent_host, plugins, label })
    }

    fn tls(&mut self, fields: &Fields<'n>, tls: bool, note: &str, place: &SourceLocation, value: &mut Map) {
        let verify = fields.flag("tls_verify");
        fields.skip(&["tls_verify_depth"]);
        if !tls {
            return;
        }
        if verify != Some(true) {
            value.push(("tls".to_owned(), map([("verify", word(false)), ("insecure", word(true))])));
            let how = "written as it is (`verify: false, insecure: true`): anyone on the way to the target can read and change requests; remove both to verify";
            self.doc.report.differs(place, format!("tls_verify of {note}"), how);
        }
    }

    /// The targets of an upstream entity, and its balancing and health checks.
    fn targets(
        &mut self,
        node: &'n Node,
        tls: bool,
        base: &str,
        host: &mut Option<String>,
        value: &mut Map,
    ) -> Option<Vec<Value>> {
        let place = self.place(node);
        let fields = Fields::of(node);
        let note = format!("upstream {}", fields.text("name").unwrap_or_default());
        fields.skip(&["tags", "id", "slots", "created_at", "hash_on_header"]);
        let mut written: Vec<(String, u64)> = Vec::new();
        let mut hosts: Vec<String> = Vec::new();
        for target in fields.get("targets").map(Node::items).unwrap_or_default() {
            let place = self.place(target);
            let named = target.get("target").and_then(Node::text).unwrap_or_default();
            let bracket = named.rfind(']').map_or(0, |end| end + 1);
            let address = if named[bracket..].contains(':') { named.to_owned() } else { format!("{named}:8000") };
            let weight = target.get("weight").and_then(Node::whole).unwrap_or(100);
            if !valid(&address) {
                self.doc.report.left_out(&place, format!("target {named}"), "is not a host and port");
                continue;
            }
            if weight == 0 {
                self.doc.report.exact(
                    &place,
                    format!("target {named}"),
                    "a target of weight 0 gets no requests; it was not written",
                );
                continue;
            }
            // Converters write a target once for each operation that names it.
            match hosts.iter().position(|known| *known == address) {
                Some(known) => written[known].1 = written[known].1.saturating_add(weight),
                None => {
                    written.push((format!("{}://{address}{base}", scheme(tls)), weight));
                    hosts.push(address);
                }
            }
        }
        // Equal weights need no words.
        let is_equal = written.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let targets: Vec<Value> = written
            .iter()
            .map(|(url, weight)| if is_equal { text(url) } else { map([("url", text(url)), ("weight", word(weight))]) })
            .collect();
        *host = fields.text("host_header").map(str::to_owned).or_else(|| match hosts.as_slice() {
            [one] => Some(one.clone()),
            _ => fields.text("name").filter(|name| valid(name)).map(str::to_owned),
        });
        let balance = match fields.text("algorithm").unwrap_or("round-robin") {
            "least-connections" => text("least_request"),
            "latency" => text("ewma"),
            "consistent-hashing" => match (fields.text("hash_on"), node.get("hash_on_header").and_then(Node::text)) {
                (Some("ip"), _) => map([("hash", text("client_ip"))]),
                (Some("path"), _) => map([("hash", text("path"))]),
                (Some("header"), Some(name)) => map([("hash", text(format!("header:{name}")))]),
                (other, _) => {
                    let how = "Weir hashes `client_ip`, `path` or `header:NAME`; targets are taken in turn";
                    self.doc.report.left_out(&place, format!("hash_on {} of {note}", other.unwrap_or("none")), how);
                    text("round_robin")
                }
            },
            _ => text("round_robin"),
        };
        value.push(("balance".to_owned(), balance));
        self.health(&fields, &note, value);
        fields.name_rest(self.source, &mut self.doc.report, &note);
        self.doc.report.exact(&place, note, format!("{} targets", targets.len()));
        Some(targets)
    }

    fn health(&mut self, fields: &Fields<'n>, note: &str, value: &mut Map) {
        let Some(checks) = fields.get("healthchecks") else {
            value.push(("eject".to_owned(), word("none")));
            return;
        };
        let place = self.place(checks);
        let number = |keys: &[&str]| checks.at(keys).and_then(Node::number).filter(|number| *number > 0.0);
        if let Some(interval) =
            number(&["active", "healthy", "interval"]).or(number(&["active", "unhealthy", "interval"]))
        {
            let path = checks.at(&["active", "http_path"]).and_then(Node::text).unwrap_or("/");
            let ms = |seconds: f64| time((seconds * 1000.0).clamp(1.0, 3.6e6) as u64);
            let count = |keys: &[&str], default: f64| word(number(keys).unwrap_or(default).clamp(1.0, 1000.0) as u64);
            let health = map([
                ("path", text(path)),
                ("interval", ms(interval)),
                ("timeout", ms(number(&["active", "timeout"]).unwrap_or(1.0))),
                ("healthy_after", count(&["active", "healthy", "successes"], 1.0)),
                ("unhealthy_after", count(&["active", "unhealthy", "http_failures"], 1.0)),
            ]);
            value.push(("health".to_owned(), health));
            let how = "one interval for healthy and unhealthy targets; statuses 200 to 399 count as success";
            self.doc.report.differs(&place, format!("active health checks of {note}"), how);
        }
        let failures =
            number(&["passive", "unhealthy", "http_failures"]).or(number(&["passive", "unhealthy", "tcp_failures"]));
        match failures {
            Some(failures) => {
                value.push(("eject".to_owned(), map([("after", word(failures.clamp(1.0, 1000.0) as u64))])));
                let how = "`eject` takes a target out for 10 s; in Kong it stays out until an active check or the admin API restores it";
                self.doc.report.differs(&place, format!("passive health checks of {note}"), how);
            }
            None => value.push(("eject".to_owned(), word("none"))),
        }
    }
}

fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

/// Whether a text can stand as host, or host and port, in a URL.
fn valid(authority: &str) -> bool {
    !authority.is_empty() && authority.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:[]".contains(c))
}
