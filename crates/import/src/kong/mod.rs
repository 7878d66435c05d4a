//! Kong, declarative (`_format_version` 3.0, and the older 1.1 and 2.1).
//!
//! A service is an upstream; each path of each route is a route. Plugins of a route take the place of those of its service and of the file.

mod plugins;
mod upstreams;

use std::collections::HashMap;
use std::rc::Rc;

use crate::document::{self, Document, Listen, Route, Wanted, map, text, texts, word};
use crate::expression;
use crate::pattern::{self, Path, encode};
use crate::precedence;
use crate::report::SourceLocation;
use crate::source::{ImportError, Source};
use crate::template::{self, Anchor};
use crate::tree::{self, Fields, Node};

/// Routes of a file.
const MAX_ROUTES: usize = 20_000;

/// Translates one file.
pub(super) struct Importer<'n> {
    pub(super) doc: Document,
    pub(super) source: &'n Source,
    root: &'n Node,
    /// Upstream entities by name.
    balancers: HashMap<&'n str, &'n Node>,
    consumers: Vec<&'n Node>,
    /// What was written for a plugin, by what it says.
    made: HashMap<String, String>,
    ranks: Vec<Rank>,
    /// Before 3.0 an expression has no `~` at its beginning: its characters say that it is one.
    is_before_3: bool,
}

/// Which of two routes Kong tries first: the greater.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
struct Rank {
    categories: usize,
    headers: usize,
    plain_host: bool,
    regex: bool,
    regex_priority: f64,
    length: usize,
}

/// A service as its routes need it.
pub(super) struct Service {
    name: String,
    /// `Host` when the client's is not preserved.
    host: Option<String>,
    plugins: Vec<Rc<Node>>,
    label: String,
}

/// Reads a file.
pub(crate) fn read(source: &Source) -> Result<Document, ImportError> {
    let root = tree::yaml(source)?;
    let fields = Fields::of(&root);
    let version = fields.text("_format_version");
    match version {
        Some("3.0" | "2.1" | "1.1" | "3") => {}
        Some(other) => {
            let message = format!("`_format_version` {other} is not known; 3.0 is");
            return Err(ImportError::new(&source.at(0), message));
        }
        None => {
            return Err(ImportError::new(
                &source.at(0),
                "there is no `_format_version`; is this a declarative configuration of Kong?",
            ));
        }
    }
    let mut importer = Importer {
        doc: Document::default(),
        source,
        root: &root,
        balancers: HashMap::new(),
        consumers: Vec::new(),
        made: HashMap::new(),
        ranks: Vec::new(),
        is_before_3: matches!(version, Some("2.1" | "1.1")),
    };
    fields.skip(&[
        "_transform",
        "services",
        "routes",
        "upstreams",
        "consumers",
        "plugins",
        "_comment",
        "_info",
        "_workspace",
    ]);
    fields.skip(&["keyauth_credentials", "jwt_secrets", "basicauth_credentials"]);
    importer.run();
    fields.name_rest(source, &mut importer.doc.report, "the file");
    Ok(importer.finish())
}

impl<'n> Importer<'n> {
    pub(super) fn place(&self, node: &Node) -> SourceLocation {
        tree::place(self.source, node)
    }

    fn run(&mut self) {
        let root = self.root;
        self.consumers = root.get("consumers").map(Node::items).unwrap_or_default().iter().map(AsRef::as_ref).collect();
        for node in root.get("upstreams").map(Node::items).unwrap_or_default() {
            if let Some(name) = node.get("name").and_then(Node::text) {
                self.balancers.insert(name, node);
            }
        }
        self.listener();
        self.global_plugins();
        let mut services: HashMap<String, Rc<Service>> = HashMap::new();
        for node in root.get("services").map(Node::items).unwrap_or_default() {
            let Some(service) = self.service(node) else { continue };
            let service = Rc::new(service);
            services.insert(service.label.clone(), service.clone());
            for route in node.get("routes").map(Node::items).unwrap_or_default() {
                self.route(route, Some(&service));
            }
        }
        for node in root.get("routes").map(Node::items).unwrap_or_default() {
            let named = node.get("service");
            let named = named.and_then(|service| service.text().or_else(|| service.get("name").and_then(Node::text)));
            let service = named.and_then(|name| services.get(name)).cloned();
            self.route(node, service.as_ref());
        }
        for node in self.consumers.clone() {
            if let Some(plugins) = node.get("plugins").filter(|plugins| !plugins.items().is_empty()) {
                let place = self.place(plugins);
                self.doc.report.left_out(
                    &place,
                    "plugins of a consumer",
                    "Weir's tiers (`limits.*.tiers`) may stand for them",
                );
            }
        }
    }

    fn listener(&mut self) {
        let place = self.source.at(0);
        let how = "`proxy_listen` is in kong.conf, which is not read: 0.0.0.0:8000, Kong's own, was written";
        self.doc.report.differs(&place, "listen", how);
        self.doc.listen.push(Listen { place, value: text("0.0.0.0:8000") });
        let server = map([
            ("head_timeout", word("60s")),
            ("body_idle_timeout", word("60s")),
            ("path", map([("double_slash", text("merge"))])),
        ]);
        document::set(&mut self.doc.top, "server", server);
    }

    /// Plugins of the file that belong to all requests; those with a service or route are looked up there.
    fn global_plugins(&mut self) {
        for plugin in self.root.get("plugins").map(Node::items).unwrap_or_default() {
            let place = self.place(plugin);
            let name = plugin.get("name").and_then(Node::text).unwrap_or_default();
            if plugin.get("enabled").and_then(Node::flag) == Some(false) {
                continue;
            }
            if plugin.get("consumer").is_some() || plugin.get("consumer_group").is_some() {
                self.doc.report.left_out(
                    &place,
                    format!("plugin {name} of a consumer"),
                    "Weir's tiers (`limits.*.tiers`) may stand for it",
                );
            } else if name == "correlation-id" && plugin.get("service").is_none() && plugin.get("route").is_none() {
                let header = plugin.at(&["config", "header_name"]).and_then(Node::text).unwrap_or("Kong-Request-ID");
                if document::is_token(header) {
                    document::set(&mut self.doc.top, "request_id", text(header));
                    let how = "`request_id`: kept from trusted peers, made otherwise, and sent back to the client";
                    self.doc.report.differs(&place, "plugin correlation-id", how);
                }
            }
        }
    }

    /// The plugins that hold for a route: its own, then its service's, then the file's; one of each name.
    fn plugins_of(&self, route: &Node, service: Option<&Service>) -> Vec<Rc<Node>> {
        let route_name = route.get("name").and_then(Node::text);
        let belongs = |plugin: &Node, key: &str, name: Option<&str>| {
            let to = plugin.get(key);
            let to = to.and_then(|to| to.text().or_else(|| to.get("name").and_then(Node::text)));
            to.is_some() && to == name
        };
        let file = self.root.get("plugins").map(Node::items).unwrap_or_default();
        let own = route.get("plugins").map(Node::items).unwrap_or_default().iter();
        let of_route = file.iter().filter(|plugin| belongs(plugin, "route", route_name));
        let of_service = service.map(|service| service.plugins.as_slice()).unwrap_or_default().iter();
        let label = service.map(|service| service.label.as_str());
        let of_named_service = file.iter().filter(|plugin| belongs(plugin, "service", label));
        let global = file.iter().filter(|plugin| {
            ["service", "route", "consumer", "consumer_group"].iter().all(|key| plugin.get(key).is_none())
        });
        let mut out: Vec<Rc<Node>> = Vec::new();
        for plugin in own.chain(of_route).chain(of_service).chain(of_named_service).chain(global) {
            let name = plugin.get("name").and_then(Node::text);
            if !out.iter().any(|known| known.get("name").and_then(Node::text) == name) {
                out.push(plugin.clone());
            }
        }
        out.retain(|plugin| plugin.get("enabled").and_then(Node::flag) != Some(false));
        out
    }

    fn route(&mut self, node: &'n Node, service: Option<&Rc<Service>>) {
        let place = self.place(node);
        let fields = Fields::of(node);
        let name = fields.text("name");
        let label = format!("route {}", name.unwrap_or("without a name"));
        fields.skip(&[
            "service",
            "plugins",
            "tags",
            "id",
            "created_at",
            "updated_at",
            "request_buffering",
            "response_buffering",
        ]);
        let protocols = fields.texts("protocols");
        if !protocols.is_empty() && !protocols.iter().any(|protocol| protocol == "http" || protocol == "https") {
            self.doc.report.left_out(&place, label, format!("protocols {} have no equivalent", protocols.join(", ")));
            return;
        }
        for key in ["snis", "sources", "destinations", "expression"] {
            if let Some(found) = fields.get(key).filter(|found| !found.items().is_empty() || found.text().is_some()) {
                let place = self.place(found);
                self.doc.report.left_out(
                    &place,
                    format!("{key} of {label}"),
                    "has no equivalent: the route was not written",
                );
                return;
            }
        }
        if !protocols.is_empty() && !protocols.iter().any(|protocol| protocol == "http") {
            let how = "Weir's routes do not match on the scheme: the route is served over http too";
            self.doc.report.differs(&place, format!("protocols of {label}"), how);
            fields.skip(&["https_redirect_status_code"]);
        }
        let strip = fields.flag("strip_path").unwrap_or(true);
        let preserve = fields.flag("preserve_host").unwrap_or(false);
        let priority = fields.get("regex_priority").and_then(Node::number).unwrap_or(0.0);
        if fields.text("path_handling").is_some_and(|handling| handling != "v0") {
            self.doc.report.differs(&place, format!("path_handling of {label}"), "translated as v0");
        }
        let methods = fields.texts("methods");
        let hosts = self.hosts(&fields, &label, &place);
        let headers = self.headers(&fields, &label, &place);
        let mut paths = fields.texts("paths");
        if self.is_before_3 {
            paths.iter_mut().filter(|path| is_expression(path)).for_each(|path| path.insert(0, '~'));
        }
        fields.name_rest(self.source, &mut self.doc.report, &label);
        let (Some(hosts), Some(headers)) = (hosts, headers) else { return };
        if self.doc.routes.len() > MAX_ROUTES {
            self.doc.report.left_out(&place, label, format!("more than {MAX_ROUTES} routes"));
            return;
        }
        let categories =
            [!methods.is_empty(), hosts.iter().any(Option::is_some), !headers.is_empty(), !paths.is_empty()];
        let categories = categories.into_iter().filter(|there| *there).count();
        let mut patterns: Vec<(Path, bool, String)> = Vec::new();
        for path in &paths {
            match self.paths(path, &label, &place) {
                Ok(found) => {
                    patterns.extend(found.into_iter().map(|found| (found, path.starts_with('~'), path.clone())));
                }
                Err(why) => self.doc.report.left_out(&place, format!("path {path} of {label}"), why),
            }
        }
        if paths.is_empty() {
            patterns.push((Path::all(), false, "/".to_owned()));
        }
        if patterns.is_empty() {
            return;
        }
        let plugins = self.plugins_of(node, service.map(AsRef::as_ref));
        let mut open = true;
        let mut unstripped = None;
        for host in &hosts {
            for (path, regex, written) in &patterns {
                let mut route = Route::new(&place, label.clone(), path.clone());
                if hosts.len() == 1 && patterns.len() == 1 {
                    route.name = name.map(document::plain_name);
                }
                route.host.clone_from(host);
                route.methods.clone_from(&methods);
                route.headers.clone_from(&headers);
                self.ranks.push(Rank {
                    categories,
                    headers: headers.len(),
                    plain_host: host.as_ref().is_some_and(|host| !host.starts_with('*')),
                    regex: *regex,
                    regex_priority: if *regex { priority } else { 0.0 },
                    length: written.len(),
                });
                route.rank = self.ranks.len() - 1;
                match service {
                    None => {
                        // A route without a service responds by a plugin such as request-termination.
                        route.close();
                    }
                    Some(service) => {
                        route.set("upstream", text(&service.name));
                        // Kong takes away what the expression matches; what is behind that stays.
                        let is_stripped = route.path.expression.is_some() && strip;
                        if is_stripped && !written.ends_with('$') {
                            unstripped = Some(written.clone());
                        } else if strip {
                            self.strip(&mut route, *regex, written);
                        }
                        if let (false, Some(host)) = (preserve, &service.host) {
                            route.set_in("rewrite", "host", text(host));
                        }
                        // Kong tunnels WebSocket without being told.
                        route.set("upgrade", texts(["websocket"]));
                    }
                }
                open &= self.apply(&mut route, &plugins, service.is_some());
                if let Some(written) = unstripped.take() {
                    route.close();
                    let how = "strip_path leaves what stands behind the match, which has no equivalent for this expression; the route responds with 501, so that no other takes its requests";
                    self.doc.report.left_out(&place, format!("path {written} of {label}"), how);
                    open = false;
                }
                self.doc.routes.push(route);
            }
        }
        if open {
            self.doc.report.exact(&place, label, "");
        }
    }

    /// What `strip_path` leaves of a path.
    fn strip(&mut self, route: &mut Route, regex: bool, written: &str) {
        if written == "/" {
            return;
        }
        if regex || !route.path.wildcard {
            // The expression, or the prefix alone, is the whole path.
            route.set_in("rewrite", "path", text("/"));
        } else {
            route.set_in("rewrite", "prefix", text("/"));
        }
    }

    fn paths(&mut self, written: &str, label: &str, place: &SourceLocation) -> Result<Vec<Path>, String> {
        if let Some(expression) = written.strip_prefix('~') {
            let paths = template::paths(expression, Anchor::Start, false)?;
            if paths.iter().any(|path| path.wildcard) && paths.len() == 1 {
                let how = "an expression that ends with .* is stripped whole by strip_path in Kong";
                self.doc.report.differs(place, format!("path {written} of {label}"), how);
            }
            return Ok(paths);
        }
        if !written.ends_with('/') {
            let how = format!(
                "Kong takes it for the beginning of any name, `{written}x` too; Weir for `{written}` and all below `{written}/`"
            );
            self.doc.report.differs(place, format!("path {written} of {label}"), how);
        }
        pattern::prefix(&pattern::decode(written).unwrap_or_default())
    }

    fn hosts(&mut self, fields: &Fields<'n>, label: &str, place: &SourceLocation) -> Option<Vec<Option<String>>> {
        let written = fields.texts("hosts");
        if written.is_empty() {
            return Some(vec![None]);
        }
        let mut hosts = Vec::new();
        for host in written {
            let inner = host.strip_prefix("*.").unwrap_or(&host);
            let valid = |label: &str| {
                !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            };
            if inner.split('.').all(valid) {
                hosts.push(Some(host.to_ascii_lowercase()));
            } else {
                self.doc.report.left_out(
                    place,
                    format!("host {host} of {label}"),
                    "Weir matches names, and `*.` at their beginning, without a port",
                );
            }
        }
        if hosts.is_empty() { None } else { Some(hosts) }
    }

    fn headers(&mut self, fields: &Fields<'n>, label: &str, place: &SourceLocation) -> Option<Vec<(String, Wanted)>> {
        let mut out = Vec::new();
        for (name, _, values) in fields.get("headers").map(Node::entries).unwrap_or_default() {
            let wanted = match values.texts().as_slice() {
                _ if !document::is_token(name) => Err("is not the name of a field".to_owned()),
                [value] if value.starts_with("~*") => {
                    expression::searched(&value[2..], false).map(|found| Wanted::Matches(found.text().to_owned()))
                }
                [value] if document::is_field_value(value) => Ok(Wanted::Is(value.clone())),
                [] => Err("has no value".to_owned()),
                values => expression::any_of(values).map(|found| Wanted::Matches(found.text().to_owned())),
            };
            match wanted {
                Ok(wanted) => out.push((name.clone(), wanted)),
                Err(why) => {
                    let how = format!("{why}: the route was not written");
                    self.doc.report.left_out(place, format!("header {name} of {label}"), how);
                    return None;
                }
            }
        }
        Some(out)
    }

    fn finish(self) -> Document {
        let Self { mut doc, source, ranks, .. } = self;
        let whole = source.at(0);
        if doc.routes.is_empty() {
            let mut route = Route::new(&whole, "no route could be written", Path::all());
            route.close();
            doc.report.left_out(&whole, "all routes", "no route could be written");
            doc.routes.push(route);
        }
        precedence::check(&mut doc, |a, b| {
            ranks[a.rank] > ranks[b.rank] || (ranks[a.rank] == ranks[b.rank] && a.rank < b.rank)
        });
        doc.drop_doubles();
        for (what, how) in WHOLE {
            doc.report.differs(&whole, what, how);
        }
        doc.report.sort();
        doc
    }
}

/// What holds for every file.
const WHOLE: [(&str, &str); 6] = [
    ("paths", "Weir refuses %2F, %5C and ; with 400 (`server.path` says otherwise); Kong forwards %2F"),
    ("Host that several targets see", "Weir sends one host for an upstream; Kong that of the target which is picked"),
    (
        "X-Forwarded-Port, X-Forwarded-Path, X-Forwarded-Prefix, Via, X-Kong-*",
        "Weir does not write them; X-Forwarded-For, -Proto and -Host it does",
    ),
    ("retries", "Weir sends a request again only if it is idempotent or nothing of it was sent, within `budget`"),
    ("routes with methods", "Weir responds with 405 where only the method does not fit, Kong 404"),
    ("redirects to a path, error bodies", "Weir's own errors are problem documents (RFC 9457)"),
];

/// Whether Kong before 3.0 takes a path for an expression: it has a character that a plain path of it cannot have. Kong 3 reads older files by
/// the same rule.
fn is_expression(path: &str) -> bool {
    !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_~/%".contains(&byte))
}

/// A path before every path, in Weir's form.
pub(super) fn base(path: &str) -> Result<String, String> {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() { Ok(String::new()) } else { encode(&pattern::decode(trimmed).ok_or("is not UTF-8")?) }
}
