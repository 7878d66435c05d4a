//! Traefik's file provider, in YAML or TOML: routers, services and middlewares of HTTP.

pub(crate) mod middlewares;
mod names;
pub(crate) mod rule;
mod services;

use std::collections::HashMap;

use crate::document::{self, Document, Listen, Route, Value, map, text, texts, time, word};
use crate::pattern::Path;
use crate::precedence;
use crate::report::SourceLocation;
use crate::source::{ImportError, Source};
use crate::tree::{self, Fields, Node};
use middlewares::{Chain, PathEdit};
use services::Service;
pub(crate) use services::duration;

/// Routes of a file.
const MAX_ROUTES: usize = 20_000;

/// Translates one file.
pub(super) struct Importer<'n> {
    pub(super) doc: Document,
    pub(super) source: &'n Source,
    pub(super) root: &'n Node,
    pub(super) services: HashMap<&'n str, &'n Node>,
    made: HashMap<String, Result<Service, String>>,
    parts: HashMap<String, String>,
    /// Priority of each route; the greater is tried first.
    ranks: Vec<i64>,
}

/// Reads a file.
pub(crate) fn read(source: &Source) -> Result<Document, ImportError> {
    let is_toml = source.name.to_ascii_lowercase().ends_with(".toml");
    let root = if is_toml { tree::toml(source)? } else { tree::yaml(source)? };
    let root = tree::with_names(&root, &names::OPTIONS, &names::OF_USERS);
    if root.get("http").is_none() {
        let message = "there is no `http` in it; name the file of the file provider that has routers and services";
        return Err(ImportError::new(&source.at(0), message));
    }
    let mut services = HashMap::new();
    for (name, _, node) in root.at(&["http", "services"]).map(Node::entries).unwrap_or_default() {
        services.insert(name.as_str(), node.as_ref());
    }
    let mut importer = Importer {
        doc: Document::default(),
        source,
        root: &root,
        services,
        made: HashMap::new(),
        parts: HashMap::new(),
        ranks: Vec::new(),
    };
    importer.listeners();
    for (name, line, node) in root.at(&["http", "routers"]).map(Node::entries).unwrap_or_default() {
        importer.router(name, *line, node);
    }
    let fields = Fields::of(&root);
    fields.skip(&[
        "http",
        "entryPoints",
        "providers",
        "log",
        "global",
        "api",
        "accessLog",
        "metrics",
        "ping",
        "tracing",
    ]);
    fields.name_rest(source, &mut importer.doc.report, "the file");
    Ok(importer.finish())
}

impl<'n> Importer<'n> {
    pub(super) fn place(&self, node: &Node) -> SourceLocation {
        tree::place(self.source, node)
    }

    fn listeners(&mut self) {
        let root = self.root;
        for (name, line, node) in root.get("entryPoints").map(Node::entries).unwrap_or_default() {
            let place = self.source.at(*line);
            let address = node.get("address").and_then(Node::text).unwrap_or_default();
            let address = address.strip_suffix("/tcp").unwrap_or(address);
            self.entry_point(name, node);
            let address = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() };
            if address.parse::<std::net::SocketAddr>().is_ok() {
                self.doc.listen.push(Listen { place: place.clone(), value: text(address) });
                self.doc.report.exact(&place, format!("entryPoint {name}"), "a listener");
            } else {
                self.doc.report.left_out(
                    &place,
                    format!("entryPoint {name}"),
                    "only IP addresses with a port are imported; a Unix socket is written `unix:/PATH` in `listen`",
                );
            }
        }
        if self.doc.listen.is_empty() {
            let place = self.source.at(0);
            let how = "`entryPoints` are in the install configuration, which is not read: 0.0.0.0:80, Traefik's own, was written";
            self.doc.report.differs(&place, "listen", how);
            self.doc.listen.push(Listen { place, value: text("0.0.0.0:80") });
        }
        let server = map([
            ("head_timeout", time(60_000)),
            ("body_idle_timeout", time(60_000)),
            ("keep_alive", time(180_000)),
            ("path", map([("double_slash", text("merge"))])),
        ]);
        document::set(&mut self.doc.top, "server", server);
    }

    /// What an entry point says beside its address.
    fn entry_point(&mut self, name: &str, node: &'n Node) {
        let label = format!("entryPoint {name}");
        let fields = Fields::of(node);
        fields.skip(&["address", "observability", "asDefault", "reusePort", "transport", "allowACMEByPass"]);
        if let Some(redirection) = fields.get("http").and_then(|http| http.at(&["redirections", "entryPoint"])) {
            let place = self.place(redirection);
            let how = "`redirect: https` of a listener does it, once another one has `tls`; written here, no route could be reached";
            self.doc.report.left_out(&place, format!("redirections of {label}"), how);
        }
        for (key, line, _) in fields.get("http").map(Node::entries).unwrap_or_default() {
            if key != "redirections" {
                let place = self.source.at(*line);
                self.doc.report.left_out(&place, format!("http.{key} of {label}"), "has no equivalent");
            }
        }
        if let Some(forwarded) = fields.get("forwardedHeaders") {
            let place = self.place(forwarded);
            let networks = forwarded.get("trustedIPs").map(Node::texts).unwrap_or_default();
            let is_network =
                |text: &String| text.parse::<ipnet::IpNet>().is_ok() || text.parse::<std::net::IpAddr>().is_ok();
            // What one of several entry points believes must not hold for all.
            let is_only = self.root.get("entryPoints").is_some_and(|all| all.entries().len() == 1);
            if is_only && !networks.is_empty() && networks.iter().all(is_network) {
                document::set(&mut self.doc.top, "trusted_proxies", texts(networks));
                self.doc.report.exact(&place, format!("forwardedHeaders of {label}"), "`trusted_proxies`");
            } else {
                let how = "Weir believes peers in `trusted_proxies` only, at every listener alike";
                self.doc.report.left_out(&place, format!("forwardedHeaders of {label}"), how);
            }
        }
        fields.name_rest(self.source, &mut self.doc.report, &label);
    }

    fn router(&mut self, name: &str, line: usize, node: &'n Node) {
        let place = self.source.at(line);
        let label = format!("router {name}");
        let fields = Fields::of(node);
        let rule = fields.text("rule").unwrap_or_default();
        let service = fields.text("service").unwrap_or_default();
        let middlewares = fields.texts("middlewares");
        let priority = fields.get("priority").and_then(Node::number).filter(|priority| *priority != 0.0);
        // Without one, the length of the rule decides.
        let priority = priority.map_or(rule.len() as i64, |priority| priority.clamp(-1e15, 1e15) as i64);
        if let Some(points) = fields.get("entryPoints") {
            let place = self.place(points);
            let how = "Weir's routes do not tell listeners apart: all of them serve the route";
            self.doc.report.differs(&place, format!("entryPoints of {label}"), how);
        }
        if let Some(tls) = fields.get("tls") {
            let place = self.place(tls);
            let how = "the route is served in clear text; write a listener with `tls` and the files of its certificate";
            self.doc.report.left_out(&place, format!("tls of {label}"), how);
        }
        if let Some(parents) = fields.get("parentRefs").filter(|parents| !parents.items().is_empty()) {
            let place = self.place(parents);
            let how = "it is chosen behind the middlewares of other routers, which has no equivalent: the requests of those get 501";
            self.doc.report.left_out(&place, format!("parentRefs of {label}"), how);
            return;
        }
        fields.skip(&["ruleSyntax", "observability"]);
        fields.name_rest(self.source, &mut self.doc.report, &label);
        let alternatives = match rule::read(rule) {
            Ok(alternatives) => alternatives,
            Err(why) => {
                let how = format!("{why}; its requests go to whatever other route matches them, or get 404");
                self.doc.report.left_out(&place, format!("{label}: {rule}"), how);
                return;
            }
        };
        let mut open = true;
        for alternative in alternatives {
            for note in &alternative.notes {
                self.doc.report.differs(&place, label.clone(), note.clone());
            }
            let hosts: Vec<Option<String>> = if alternative.hosts.is_empty() {
                vec![None]
            } else {
                alternative.hosts.iter().cloned().map(Some).collect()
            };
            let paths = if alternative.paths.is_empty() { vec![Path::all()] } else { alternative.paths.clone() };
            for host in &hosts {
                for path in &paths {
                    if self.doc.routes.len() >= MAX_ROUTES {
                        self.doc.report.left_out(&place, label, format!("more than {MAX_ROUTES} routes"));
                        return;
                    }
                    let mut route = Route::new(&place, format!("{label}: {rule}"), path.clone());
                    if hosts.len() == 1 && paths.len() == 1 {
                        route.name = Some(document::plain_name(name));
                    }
                    route.host.clone_from(host);
                    route.methods.clone_from(&alternative.methods);
                    route.headers.clone_from(&alternative.headers);
                    route.query.clone_from(&alternative.query);
                    self.ranks.push(priority);
                    route.rank = self.ranks.len() - 1;
                    if let Err(why) = self.fill(&mut route, service, &middlewares) {
                        route.close();
                        let how = format!("{why}; the route responds with 501, so that no other takes its requests");
                        self.doc.report.left_out(&place, label.clone(), how);
                        open = false;
                    }
                    self.doc.routes.push(route);
                }
            }
        }
        if open {
            self.doc.report.exact(&place, label, "");
        }
    }

    fn fill(&mut self, route: &mut Route, service: &str, middlewares: &[String]) -> Result<(), String> {
        if service.is_empty() {
            return Err("it has no service of its own: routers with `parentRefs` serve its requests".to_owned());
        }
        let mut expanded = Vec::new();
        self.expand(middlewares, 0, &mut expanded)?;
        let mut path = PathEdit::new(route);
        let mut chain = Chain::default();
        for (name, node) in expanded {
            self.middleware(route, &mut path, &mut chain, &name, node)?;
            // What comes behind a redirect sees no request.
            if route.keys.iter().any(|(key, _)| key == "redirect") {
                return Ok(());
            }
        }
        match service {
            "ping@internal" => {
                route.set("respond", map([("status", word(200)), ("body", text("OK"))]));
                return Ok(());
            }
            "noop@internal" => {
                route.set("respond", map([("status", word(418))]));
                return Ok(());
            }
            other if other.ends_with("@internal") => {
                return Err(format!("{other}: metrics and state are on the admin listener (`admin`)"));
            }
            _ => {}
        }
        let service = self.service(service, chain.attempts)?;
        if service.split.is_empty() {
            route.set("upstream", text(service.name));
        } else {
            let weights = service.split.into_iter().map(|(name, weight)| (name, word(weight))).collect();
            route.set("split", map([("upstreams", Value::Map(weights))]));
        }
        if let Some(mirror) = service.mirror {
            route.set("mirror", Value::Map(mirror));
        }
        if let Some(fallback) = service.fallback {
            route.set("fallback", texts([fallback]));
        }
        path.write(route)?;
        if let Some(host) = service.host {
            let own = route.keys.iter().any(|(key, value)| {
                key == "rewrite" && matches!(value, Value::Map(keys) if keys.iter().any(|(key, _)| key == "host"))
            });
            if !own {
                route.set_in("rewrite", "host", text(host));
            }
        }
        // All middlewares of a router have to agree.
        match chain.auth.len() {
            0 => {}
            1 => route.set("auth", texts(chain.auth)),
            _ => route.set("auth", Value::List(vec![texts(chain.auth)])),
        }
        if !chain.limits.is_empty() {
            route.set("limits", texts(chain.limits));
        }
        route.set("upgrade", texts(["websocket"]));
        Ok(())
    }

    fn finish(self) -> Document {
        let Self { mut doc, source, ranks, .. } = self;
        let whole = source.at(0);
        if doc.routes.is_empty() {
            let mut route = Route::new(&whole, "no route could be written", Path::all());
            route.close();
            doc.report.left_out(&whole, "all routers", "no route could be written");
            doc.routes.push(route);
        }
        let mut is_kept = doc.routes.iter().map(|route| !gives_way(route, &doc.routes)).collect::<Vec<_>>().into_iter();
        for (route, _) in doc.routes.iter().zip(is_kept.clone()).filter(|(_, is_kept)| !is_kept) {
            let how = "it gives way to the router behind TLS with the same rule: Weir's routes do not tell listeners apart. `redirect: https` of the listener in clear text does it";
            doc.report.differs(&route.place, route.note.clone(), how);
        }
        doc.routes.retain(|_| is_kept.next().unwrap_or(true));
        precedence::check(&mut doc, |a, b| ranks[a.rank] > ranks[b.rank]);
        doc.drop_doubles();
        for (what, how) in WHOLE {
            doc.report.differs(&whole, what, how);
        }
        doc.report.sort();
        doc
    }
}

/// Whether a route only sends clients to https, where another one serves the same requests: without this, it would redirect without limit.
fn gives_way(route: &Route, routes: &[Route]) -> bool {
    let redirects = |route: &Route| {
        let host = route.host.as_deref().unwrap_or_default();
        route.keys.iter().any(|(key, value)| {
            let Value::Map(redirect) = value else { return false };
            let to = redirect.iter().find(|(key, _)| key == "to").map(|(_, to)| to);
            key == "redirect" && matches!(to, Some(Value::Text(to)) if to.starts_with(&format!("https://{host}")))
        })
    };
    redirects(route)
        && routes.iter().any(|other| {
            !redirects(other)
                && other.host == route.host
                && other.path.same(&route.path)
                && other.methods == route.methods
                && other.headers == route.headers
                && other.query == route.query
        })
}

/// What holds for every file.
const WHOLE: [(&str, &str); 5] = [
    (
        "X-Forwarded-Server, X-Forwarded-Port, X-Real-Ip",
        "Weir does not write them; X-Forwarded-For, -Proto and -Host it does",
    ),
    ("X-Real-IP and the like from clients", "removed unless the peer is in `trusted_proxies`, see `untrusted_headers`"),
    (
        "paths",
        "Weir refuses %2F, %5C and ; with 400, see `server.path`; Traefik refuses them by default since 3.6.4 and forwarded them before",
    ),
    ("routers with Method", "Weir responds with 405 where only the method does not fit, Traefik 404; GET takes HEAD"),
    ("HTTP version to targets", "Weir speaks HTTP/1.1; Traefik HTTP/2 where a target with TLS offers it"),
];
