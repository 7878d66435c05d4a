//! Services and transports.

use super::Importer;
use crate::document::{Entry, Map, Value, is_token, map, text, texts, time, word};
use crate::tree::{Fields, Node};
use crate::units::common_divisor;

/// Services in services.
const MAX_DEPTH: usize = 8;

/// A service as its routers need it.
#[derive(Debug, Clone)]
pub(super) struct Service {
    /// Name of the upstream.
    pub(super) name: String,
    /// `Host` that the upstream sees; none: the client's.
    pub(super) host: Option<String>,
    pub(super) fallback: Option<String>,
    /// Upstreams with their weights, in place of the one.
    pub(super) split: Vec<(String, u64)>,
    /// `mirror` of its routes.
    pub(super) mirror: Option<Map>,
}

/// What a load balancer sends requests to, before it is an upstream.
struct Balancer {
    targets: Vec<(String, u64)>,
    host: Option<String>,
    value: Map,
}

impl<'n> Importer<'n> {
    /// The upstream of a service, with these retries. In words, why not.
    pub(super) fn service(&mut self, name: &str, attempts: u64) -> Result<Service, String> {
        let name = name.strip_suffix("@file").unwrap_or(name);
        self.made_once(name, attempts, 0)
    }

    fn made_once(&mut self, name: &str, attempts: u64, depth: usize) -> Result<Service, String> {
        let name = name.strip_suffix("@file").unwrap_or(name);
        let key = format!("{name} {attempts}");
        if let Some(service) = self.made.get(&key) {
            return service.clone();
        }
        let service = self.make(name, attempts, depth);
        self.made.insert(key, service.clone());
        service
    }

    fn make(&mut self, name: &str, attempts: u64, depth: usize) -> Result<Service, String> {
        if depth > MAX_DEPTH {
            return Err("services are nested too deeply".to_owned());
        }
        if name.contains('@') {
            return Err(format!("the service {name} is not in this file"));
        }
        let node = self.services.get(name).copied().ok_or_else(|| format!("the service {name} is not in this file"))?;
        if let Some(failover) = node.get("failover") {
            let main = failover.get("service").and_then(Node::text).ok_or("a failover without a service")?;
            let other = failover.get("fallback").and_then(Node::text).ok_or("a failover without a fallback")?;
            let mut main = self.made_once(main, attempts, depth + 1)?;
            let other = self.made_once(other, attempts, depth + 1)?;
            if !other.split.is_empty() {
                return Err("a failover to services by weight has no equivalent".to_owned());
            }
            let place = self.place(failover);
            let how = "`fallback`: used when no target may be, or a retryable failure is left; in Traefik when the health check of all fails";
            self.doc.report.differs(&place, format!("service {name}: failover"), how);
            main.fallback = Some(other.name);
            return Ok(main);
        }
        if let Some(mirroring) = node.get("mirroring") {
            let main = mirroring.get("service").and_then(Node::text).ok_or("a mirroring without a service")?.to_owned();
            let mut main = self.made_once(&main, attempts, depth + 1)?;
            main.mirror = self.mirror(name, mirroring, &main, depth);
            return Ok(main);
        }
        if let Some(split) = node.get("weighted").and_then(|weighted| self.split(name, weighted, attempts, depth)) {
            return split;
        }
        let place = self.place(node);
        let Balancer { targets, host, value } = self.balancer(name, node, depth)?;
        let mut upstream = Map::new();
        let equal = targets.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let targets_value = targets
            .iter()
            .map(|(url, weight)| if equal { text(url) } else { map([("url", text(url)), ("weight", word(weight))]) })
            .collect();
        upstream.push(("targets".to_owned(), Value::List(targets_value)));
        upstream.extend(value);
        // Traefik tries once unless a middleware says otherwise.
        upstream.push((
            "retry".to_owned(),
            if attempts < 2 {
                word("none")
            } else {
                let on = ["connect", "reset", "try_timeout"].map(word).into();
                map([
                    ("extra_attempts", word((attempts - 1).min(10))),
                    ("budget", word("100%")),
                    ("on", Value::List(on)),
                ])
            },
        ));
        let written = self.doc.name("upstreams", name);
        let note = format!("service {name}");
        self.doc.upstreams.push(Entry {
            name: written.clone(),
            place: place.clone(),
            note: note.clone(),
            value: upstream,
        });
        self.doc.report.exact(&place, note, format!("upstream {written}"));
        Ok(Service { name: written, host, fallback: None, split: Vec::new(), mirror: None })
    }

    /// The service that gets copies of requests: one, as Weir has it.
    fn mirror(&mut self, name: &str, mirroring: &'n Node, main: &Service, depth: usize) -> Option<Map> {
        let mut made: Option<Map> = None;
        for mirror in mirroring.get("mirrors").map(Node::items).unwrap_or_default() {
            let place = self.place(mirror);
            let to = mirror.get("name").and_then(Node::text).unwrap_or_default();
            let what = format!("service {name}: mirror {to}");
            let percent = mirror.get("percent").and_then(Node::whole).unwrap_or(0).min(100);
            if percent == 0 {
                self.doc.report.exact(&place, what, "it gets 0 % of the requests: it was not written");
                continue;
            }
            if made.is_some() {
                self.doc.report.left_out(&place, what, "a route of Weir has one mirror");
                continue;
            }
            let target = match self.made_once(to, 1, depth + 1) {
                Ok(target) if target.split.is_empty() && target.name != main.name => target,
                Ok(_) => {
                    let how = "the upstream of the copies may neither serve the route itself nor be one by weight";
                    self.doc.report.left_out(&place, what, how);
                    continue;
                }
                Err(why) => {
                    self.doc.report.left_out(&place, what, why);
                    continue;
                }
            };
            let mut value: Map = vec![
                ("upstream".to_owned(), text(target.name)),
                ("share".to_owned(), text(format!("{percent}%"))),
                ("methods".to_owned(), texts(["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"])),
            ];
            let how = "`mirror`: copies with bodies over 64 KiB are not sent, see `mirror.body`";
            if mirroring.get("mirrorBody").and_then(Node::flag) == Some(false) {
                value[2].1 = texts(["GET", "HEAD", "OPTIONS"]);
                let how = "`mirror` of requests without bodies: Traefik sends copies of the others without their body";
                self.doc.report.differs(&place, what, how);
            } else {
                self.doc.report.differs(&place, what, how);
            }
            made = Some(value);
        }
        made
    }

    /// Services by weight, each with an upstream of its own. None where one of them is no load balancer.
    fn split(
        &mut self,
        name: &str,
        weighted: &'n Node,
        attempts: u64,
        depth: usize,
    ) -> Option<Result<Service, String>> {
        let place = self.place(weighted);
        let inner = |part: &'n Node| {
            let name = part.get("name").and_then(Node::text).unwrap_or_default();
            name.strip_suffix("@file").unwrap_or(name)
        };
        let parts: Vec<(&str, u64)> = weighted
            .get("services")
            .map(Node::items)
            .unwrap_or_default()
            .iter()
            .map(|part| (inner(part), part.get("weight").and_then(Node::whole).unwrap_or(1).min(10_000)))
            .filter(|(_, weight)| *weight > 0)
            .collect();
        let is_plain = |name: &str| self.services.get(name).is_none_or(|node| node.get("loadBalancer").is_some());
        if parts.len() < 2 || !parts.iter().all(|(name, _)| is_plain(name)) {
            return None;
        }
        let mut made: Vec<(Service, u64)> = Vec::new();
        for (part, weight) in parts {
            let service = match self.made_once(part, attempts, depth + 1) {
                Ok(service) => service,
                Err(why) => return Some(Err(why)),
            };
            match made.iter_mut().find(|(known, _)| known.name == service.name) {
                Some((_, known)) => *known += weight,
                None => made.push((service, weight)),
            }
        }
        for key in ["sticky", "healthCheck"] {
            if let Some(found) = weighted.get(key) {
                let place = self.place(found);
                self.doc.report.left_out(&place, format!("service {name}: {key}"), "has no equivalent");
            }
        }
        let first = made.first()?.0.clone();
        if made.iter().any(|(service, _)| service.host != first.host) {
            let how = "the services send different hosts; Weir sends that of the first";
            self.doc.report.differs(&place, format!("service {name}: weighted"), how);
        }
        self.doc.report.exact(&place, format!("service {name}: weighted"), "`split` of its routes");
        let split = made.into_iter().map(|(service, weight)| (service.name, weight)).collect();
        Some(Ok(Service { split, ..first }))
    }

    fn balancer(&mut self, name: &str, node: &'n Node, depth: usize) -> Result<Balancer, String> {
        if depth > MAX_DEPTH {
            return Err("services are nested too deeply".to_owned());
        }
        if let Some(weighted) = node.get("weighted") {
            return self.weighted(name, weighted, depth);
        }
        let balancer = node.get("loadBalancer").ok_or_else(|| format!("the service {name} has no loadBalancer"))?;
        let fields = Fields::of(balancer);
        let label = format!("service {name}");
        let place = self.place(balancer);
        let pass_host = fields.flag("passHostHeader").unwrap_or(true);
        let mut targets = Vec::new();
        let mut hosts = Vec::new();
        for server in fields.get("servers").map(Node::items).unwrap_or_default() {
            let place = self.place(server);
            let written = server.get("url").and_then(Node::text).unwrap_or_default();
            let keep = server.get("preservePath").and_then(Node::flag) == Some(true);
            match target(written, keep) {
                Ok((url, host, dropped)) => {
                    if dropped {
                        let how = "Traefik ignores the path of a server's URL unless `preservePath` is set, and so was it written";
                        self.doc.report.differs(&place, format!("server {written}"), how);
                    }
                    let weight = server.get("weight").and_then(Node::whole).unwrap_or(1);
                    if weight > 0 {
                        targets.push((url, weight.min(1_000_000)));
                        hosts.push(host);
                    }
                }
                Err(why) => self.doc.report.left_out(&place, format!("server {written}"), why),
            }
        }
        let targets = once_each(targets);
        if targets.is_empty() {
            return Err(format!("the service {name} has no server that Weir can connect to"));
        }
        let host = if pass_host { None } else { hosts.first().cloned() };
        if !pass_host && hosts.windows(2).any(|pair| pair[0] != pair[1]) {
            let how = "Traefik sends the host of the server that is picked, Weir that of the first";
            self.doc.report.differs(&place, format!("{label}: passHostHeader false"), how);
        }
        let mut value = Map::new();
        let transport = fields.text("serversTransport").map(|name| name.strip_suffix("@file").unwrap_or(name));
        let tls = targets.iter().any(|(url, _)| url.starts_with("https://"));
        let timeouts = self.transport(transport, tls, &mut value);
        let strategy = fields.text("strategy").unwrap_or("wrr");
        let balance = match strategy {
            "wrr" => text("round_robin"),
            "p2c" => text("least_request"),
            "leasttime" => text("ewma"),
            "hrw" => map([("hash", text("client_ip"))]),
            other => {
                self.doc.report.left_out(&place, format!("{label}: strategy {other}"), "targets are taken in turn");
                text("round_robin")
            }
        };
        let balance = self.sticky(&fields, &label).unwrap_or(balance);
        value.push(("balance".to_owned(), balance));
        if let Some(health) = fields.get("healthCheck") {
            self.health(health, &label, &mut value);
        }
        value.push(("eject".to_owned(), word("none")));
        value.push(("timeouts".to_owned(), timeouts));
        fields.skip(&["responseForwarding"]);
        fields.name_rest(self.source, &mut self.doc.report, &label);
        Ok(Balancer { targets, host, value })
    }

    /// `sticky`: the target that served a client before, by a cookie.
    fn sticky(&mut self, fields: &Fields<'n>, label: &str) -> Option<Value> {
        let sticky = fields.get("sticky")?;
        let place = self.place(sticky);
        let cookie = sticky.get("cookie")?;
        let name = cookie.get("name").and_then(Node::text).unwrap_or("sticky");
        if !is_token(name) {
            self.doc.report.left_out(&place, format!("{label}: sticky"), "a cookie cannot have this name");
            return None;
        }
        let how = "`balance: {cookie: NAME}`: a session cookie with Weir's own attributes";
        self.doc.report.differs(&place, format!("{label}: sticky"), how);
        Some(map([("cookie", text(name))]))
    }

    /// Services by weight: one upstream with the targets of all.
    fn weighted(&mut self, name: &str, weighted: &'n Node, depth: usize) -> Result<Balancer, String> {
        let place = self.place(weighted);
        let mut parts: Vec<(Balancer, u64)> = Vec::new();
        for part in weighted.get("services").map(Node::items).unwrap_or_default() {
            let inner = part.get("name").and_then(Node::text).unwrap_or_default();
            let inner = inner.strip_suffix("@file").unwrap_or(inner);
            let weight = part.get("weight").and_then(Node::whole).unwrap_or(1).min(10_000);
            if weight == 0 {
                continue;
            }
            let node =
                self.services.get(inner).copied().ok_or_else(|| format!("the service {inner} is not in this file"))?;
            parts.push((self.balancer(inner, node, depth + 1)?, weight));
        }
        if let Some(found) = weighted.get("sticky") {
            let place = self.place(found);
            self.doc.report.left_out(&place, format!("service {name}: sticky"), "has no equivalent");
        }
        if let Some(found) = weighted.get("healthCheck") {
            let place = self.place(found);
            let how = "the checks of its targets decide, which are those of one upstream";
            self.doc.report.exact(&place, format!("service {name}: healthCheck"), how);
        }
        let (first, rest) = parts.split_first().ok_or_else(|| format!("the service {name} has no service"))?;
        if rest.iter().any(|(part, _)| part.host != first.0.host || part.value != first.0.value) {
            return Err(format!(
                "the services of {name} have different settings, and Weir's upstream has one set of them"
            ));
        }
        // A part's weight is that of all of its targets together.
        let sums: Vec<u64> =
            parts.iter().map(|(part, _)| part.targets.iter().map(|(_, weight)| weight).sum()).collect();
        let common: u64 =
            sums.iter().try_fold(1_u64, |all, sum| all.checked_mul(*sum)).filter(|all| *all <= 1_000_000).unwrap_or(0);
        let mut targets: Vec<(String, u64)> = Vec::new();
        for ((part, weight), sum) in parts.iter().zip(&sums) {
            for (url, own) in &part.targets {
                let share = if common == 0 { *weight } else { weight * own * (common / sum) };
                targets.push((url.clone(), share.clamp(1, 1_000_000_000)));
            }
        }
        // A service may be a part of several parts.
        let mut targets = once_each(targets);
        let divisor = targets.iter().map(|(_, weight)| *weight).fold(0, common_divisor).max(1);
        targets.iter_mut().for_each(|(_, weight)| *weight /= divisor);
        self.doc.report.exact(
            &place,
            format!("service {name}: weighted"),
            "one upstream with the targets of all, by weight",
        );
        Ok(Balancer { targets, host: first.0.host.clone(), value: first.0.value.clone() })
    }

    /// TLS of a transport, and its deadlines.
    fn transport(&mut self, name: Option<&str>, tls: bool, value: &mut Map) -> Value {
        let root = self.root;
        let node = name.and_then(|name| root.at(&["http", "serversTransports", name]));
        let mut connect = 30_000;
        let mut first_byte = 0;
        let mut settings = Map::new();
        if let Some(node) = node {
            let label = format!("serversTransport {}", name.unwrap_or_default());
            let fields = Fields::of(node);
            let ms = |key: &str| node.at(&["forwardingTimeouts", key]).and_then(Node::text).and_then(duration);
            connect = ms("dialTimeout").unwrap_or(connect);
            first_byte = ms("responseHeaderTimeout").unwrap_or(0);
            let mut keep_alive = Map::new();
            if let Some(idle) = ms("idleConnTimeout").filter(|&ms| ms > 0) {
                keep_alive.push(("idle".to_owned(), time(idle)));
            }
            if let Some(max) = fields.whole("maxIdleConnsPerHost").filter(|&max| max > 0) {
                keep_alive.push(("max_idle".to_owned(), word(max)));
            }
            if !keep_alive.is_empty() {
                value.push(("keep_alive".to_owned(), Value::Map(keep_alive)));
            }
            fields.skip(&["forwardingTimeouts", "disableHTTP2"]);
            if fields.flag("insecureSkipVerify") == Some(true) && tls {
                settings.push(("verify".to_owned(), word(false)));
                settings.push(("insecure".to_owned(), word(true)));
                let place = self.place(node);
                let how = "written as it is: anyone on the way to the target can read and change requests";
                self.doc.report.differs(&place, format!("{label}: insecureSkipVerify"), how);
            }
            if let [root] = fields.texts("rootCAs").as_slice() {
                settings.push(("roots".to_owned(), text(root)));
            } else if fields.get("rootCAs").is_some() {
                let place = self.place(node);
                self.doc.report.left_out(
                    &place,
                    format!("{label}: rootCAs"),
                    "Weir reads one file of authorities: put them together",
                );
            }
            if let Some(server_name) = fields.text("serverName") {
                settings.push(("server_name".to_owned(), text(server_name)));
            }
            fields.name_rest(self.source, &mut self.doc.report, &label);
        }
        if tls && !settings.is_empty() {
            value.push(("tls".to_owned(), Value::Map(settings)));
        }
        map([("connect", time(connect)), ("first_byte", time(first_byte)), ("idle", word("none"))])
    }

    fn health(&mut self, node: &'n Node, label: &str, value: &mut Map) {
        let fields = Fields::of(node);
        let ms = |key: &str, default: u64| fields.text(key).and_then(duration).filter(|&ms| ms > 0).unwrap_or(default);
        let path = fields.text("path").unwrap_or("/");
        let health = map([
            ("path", text(path)),
            ("interval", time(ms("interval", 30_000))),
            ("timeout", time(ms("timeout", 5_000))),
            ("healthy_after", word(1)),
            ("unhealthy_after", word(1)),
        ]);
        fields.name_rest(self.source, &mut self.doc.report, &format!("healthCheck of {label}"));
        let place = self.place(node);
        self.doc.report.exact(&place, format!("{label}: healthCheck"), "`health`");
        value.push(("health".to_owned(), health));
    }
}

/// The URL of a target, its host, and whether a path of the URL was dropped.
fn target(url: &str, keep: bool) -> Result<(String, String, bool), String> {
    let (scheme, rest) = url.split_once("://").ok_or("is not a URL")?;
    if !matches!(scheme, "http" | "https") {
        return Err(format!("targets that speak {scheme} have no equivalent"));
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let valid = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    if authority.is_empty() || !authority.chars().all(valid) {
        return Err("is not a URL of a host".to_owned());
    }
    let path = path.trim_end_matches('/');
    let base = if keep { crate::pattern::encode(path)? } else { String::new() };
    Ok((format!("{scheme}://{authority}{base}"), authority.to_owned(), !keep && !path.is_empty()))
}

/// `10s`, `1m30s`, `500ms`, or seconds, in milliseconds.
pub(crate) fn duration(written: &str) -> Option<u64> {
    if let Ok(seconds) = written.parse::<u64>() {
        return seconds.checked_mul(1000);
    }
    let mut total = 0.0;
    let mut rest = written;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += number
            * match &rest[..letters] {
                "ns" => 1e-6,
                "us" | "µs" => 1e-3,
                "ms" => 1.0,
                "s" => 1000.0,
                "m" => 60_000.0,
                "h" => 3_600_000.0,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    (0.0..1e12).contains(&total).then_some(total as u64)
}

/// Targets by their URLs, each with the sum of its weights: Weir's upstream names a target once.
fn once_each(targets: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let mut out: Vec<(String, u64)> = Vec::with_capacity(targets.len());
    let mut known: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for (url, weight) in targets {
        match known.get(&url) {
            Some(&at) => out[at].1 = out[at].1.saturating_add(weight),
            None => {
                known.insert(url.clone(), out.len());
                out.push((url, weight));
            }
        }
    }
    out
}
