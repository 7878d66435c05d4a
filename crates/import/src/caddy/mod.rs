//! Caddy's JSON, as `caddy adapt` writes it.
//!
//! Caddy runs through a list of routes: handlers that respond end it, others change the request for what comes later. Here every handler that
//! responds becomes a route for what matched on the way to it, with the changes that were made on that way.

mod authorize;
mod change;
mod matchers;
mod proxy;

use std::collections::HashMap;

use crate::document::{
    self, Document, Listen, Map, Route, Value, is_field_value, is_own_field, is_token, map, text, texts, time, word,
};
use crate::pattern::Path;
use crate::precedence;
use crate::report::SourceLocation;
use crate::source::{ImportError, Source};
use crate::traefik::middlewares::PathEdit;
use crate::traefik::rule::{Alternative, join};
use crate::tree::{self, Fields, Node};

/// Routes of a file, and subroutes in subroutes.
const MAX_ROUTES: usize = 5_000;
const MAX_DEPTH: usize = 16;
/// Changes that hold for a part of the requests.
const MAX_PENDING: usize = 200;

/// A handler that changes the request or response and lets it go on.
#[derive(Clone)]
struct Change<'n> {
    only: Alternative,
    node: &'n Node,
}

pub(super) struct Importer<'n> {
    pub(super) doc: Document,
    pub(super) source: &'n Source,
    pub(super) made: HashMap<String, String>,
    /// Routes of the server that is read, which `invoke` names.
    named: HashMap<&'n str, &'n std::rc::Rc<Node>>,
}

/// Reads a file.
pub(crate) fn read(source: &Source) -> Result<Document, ImportError> {
    let root = tree::json(source)?;
    let servers = root.at(&["apps", "http", "servers"]).map(Node::entries).unwrap_or_default();
    if servers.is_empty() {
        let message = "there is no `apps.http.servers` in it; `caddy adapt --config Caddyfile --pretty` makes the JSON of a Caddyfile";
        return Err(ImportError::new(&source.at(0), message));
    }
    let mut importer = Importer { doc: Document::default(), source, made: HashMap::new(), named: HashMap::new() };
    for (name, line, node) in root.at(&["apps"]).map(Node::entries).unwrap_or_default() {
        let _ = node;
        match name.as_str() {
            "http" => {}
            "tls" | "pki" => {
                importer.doc.report.left_out(&source.at(*line), format!("apps.{name}"), "Weir obtains no certificates");
            }
            _ => importer.doc.report.left_out(&source.at(*line), format!("apps.{name}"), "has no equivalent"),
        }
    }
    for (name, line, node) in servers {
        importer.server(name, &source.at(*line), node);
    }
    let fields = Fields::of(&root);
    fields.skip(&["apps", "admin", "logging", "storage"]);
    fields.name_rest(source, &mut importer.doc.report, "the file");
    Ok(importer.finish())
}

impl<'n> Importer<'n> {
    pub(super) fn place(&self, node: &Node) -> SourceLocation {
        tree::place(self.source, node)
    }

    fn server(&mut self, name: &str, place: &SourceLocation, node: &'n Node) {
        let label = format!("server {name}");
        let fields = Fields::of(node);
        let listens = fields.texts("listen");
        let mut added = 0;
        for listen in &listens {
            let address = listen.strip_prefix("tcp/").unwrap_or(listen);
            let address = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() };
            match address.parse::<std::net::SocketAddr>() {
                Ok(socket) if socket.port() == 443 => {
                    let how = "Caddy speaks TLS there; write a listener with `tls` and the files of its certificate";
                    self.doc.report.left_out(place, format!("listen {listen} of {label}"), how);
                }
                Ok(socket) => {
                    added += 1;
                    self.doc.listen.push(Listen { place: place.clone(), value: text(socket.to_string()) });
                    self.doc.report.exact(place, format!("listen {listen} of {label}"), "a listener");
                }
                Err(_) => self.doc.report.left_out(
                    place,
                    format!("listen {listen} of {label}"),
                    "only IP addresses with a port are imported; a Unix socket is written `unix:/PATH` in `listen`",
                ),
            }
        }
        if self.doc.listen.len() > added && added > 0 {
            self.doc.report.differs(place, label.clone(), "every listener of Weir serves all routes");
        }
        let ms = |key: &str, default: u64| {
            fields.get(key).and_then(proxy::nanoseconds).filter(|&ms| ms > 0).unwrap_or(default)
        };
        let server = map([
            ("head_timeout", time(ms("read_header_timeout", 60_000))),
            ("keep_alive", time(ms("idle_timeout", 300_000))),
            ("path", map([("double_slash", text("merge"))])),
        ]);
        document::set(&mut self.doc.top, "server", server);
        let networks = node.at(&["trusted_proxies", "ranges"]).map(Node::texts).unwrap_or_default();
        if !networks.is_empty() {
            document::set(&mut self.doc.top, "trusted_proxies", texts(networks));
        }
        fields.skip(&[
            "routes",
            "named_routes",
            "automatic_https",
            "logs",
            "protocols",
            "trusted_proxies",
            "tls_connection_policies",
            "read_timeout",
            "write_timeout",
            "strict_sni_host",
        ]);
        fields.name_rest(self.source, &mut self.doc.report, &label);
        let named = node.get("named_routes").map(Node::entries).unwrap_or_default();
        self.named = named.iter().map(|(name, _, route)| (name.as_str(), route)).collect();
        let routes = node.get("routes").map(Node::items).unwrap_or_default();
        let mut changes = Vec::new();
        self.routes(routes, &Alternative::default(), &mut changes, 0);
    }

    /// Runs through a list of routes. Whether a handler responded to all that came here.
    fn routes(
        &mut self,
        routes: &'n [std::rc::Rc<Node>],
        outer: &Alternative,
        changes: &mut Vec<Change<'n>>,
        depth: usize,
    ) -> bool {
        if depth > MAX_DEPTH {
            self.doc.report.left_out(&self.source.at(0), "subroutes", "they are nested too deeply");
            return false;
        }
        for node in routes {
            let place = self.place(node);
            let sets = match matchers::read(node.get("match")) {
                Ok(sets) => sets,
                Err(why) => {
                    let kinds: Vec<&str> = node
                        .get("handle")
                        .map(Node::items)
                        .unwrap_or_default()
                        .iter()
                        .filter_map(|handler| handler.get("handler").and_then(Node::text))
                        .collect();
                    let handlers = node.get("handle").map(Node::items).unwrap_or_default();
                    let guards = handlers.iter().filter(|handler| is_guard(handler));
                    let guards: Vec<Change<'n>> =
                        guards.map(|handler| Change { only: outer.clone(), node: handler }).collect();
                    let how = if guards.is_empty() {
                        format!("{why}; its requests go on to the next routes")
                    } else {
                        format!("{why}; all requests that come here have to authenticate")
                    };
                    changes.extend(guards);
                    self.doc.report.left_out(&place, format!("route with {}", kinds.join(", ")), how);
                    continue;
                }
            };
            let everything = sets.iter().any(|set| *set == Alternative::default());
            for set in sets {
                let has_path = !set.paths.is_empty();
                let here = match join(outer, &set) {
                    Ok(Some(here)) => here,
                    Ok(None) => continue,
                    Err(why) => {
                        self.doc.report.left_out(&place, "route", why);
                        continue;
                    }
                };
                for note in &set.notes {
                    self.doc.report.differs(&place, "matcher", note.clone());
                }
                let moved =
                    changes.iter().any(|change| change.node.get("handler").and_then(Node::text) == Some("rewrite"));
                if moved && has_path {
                    let how = "it is matched after a rewrite, on the new path; Weir matches the path that the client sent. What it does was not written";
                    self.doc.report.left_out(&place, "route", how);
                    continue;
                }
                let mut own = changes.clone();
                let responded = self.handlers(node, &here, &mut own, depth);
                if responded && everything {
                    return true;
                }
                if !responded {
                    if node.get("terminal").and_then(Node::flag) == Some(true) {
                        // Nothing responded: Caddy sends an empty response.
                        self.leaf(&place, "what no handler serves", &here, &own, |_, route| {
                            route.set("respond", map([("status", word(200))]));
                            Ok(())
                        });
                    } else {
                        // The changes hold for what comes later, where this matched.
                        *changes = own;
                        if changes.len() > MAX_PENDING {
                            self.doc.report.left_out(&place, "route", "there are too many handlers before it");
                            return false;
                        }
                    }
                }
            }
        }
        false
    }

    /// The handlers of one route. Whether one of them responded.
    fn handlers(&mut self, node: &'n Node, here: &Alternative, changes: &mut Vec<Change<'n>>, depth: usize) -> bool {
        for handler in node.get("handle").map(Node::items).unwrap_or_default() {
            let place = self.place(handler);
            let kind = handler.get("handler").and_then(Node::text).unwrap_or_default();
            match kind {
                "subroute" => {
                    let routes = handler.get("routes").map(Node::items).unwrap_or_default();
                    if handler.get("errors").is_some() {
                        self.doc.report.left_out(&place, "errors of a subroute", "has no equivalent");
                    }
                    if self.routes(routes, here, changes, depth + 1) {
                        return true;
                    }
                }
                "invoke" => {
                    let name = handler.get("name").and_then(Node::text).unwrap_or_default();
                    let Some(route) = self.named.get(name).copied() else {
                        self.leaf(&place, kind, here, changes, |_, _| Err(format!("there is no route named {name}")));
                        return true;
                    };
                    if self.routes(std::slice::from_ref(route), here, changes, depth + 1) {
                        return true;
                    }
                }
                "headers" | "rewrite" | "authentication" | "request_body" | "encode" => {
                    changes.push(Change { only: here.clone(), node: handler });
                }
                "reverse_proxy" if authorize::is_challenge(handler) => {
                    changes.push(Change { only: here.clone(), node: handler });
                }
                "reverse_proxy" => {
                    self.leaf(&place, "reverse_proxy", here, changes, |importer, route| importer.proxy(route, handler));
                    return true;
                }
                "static_response" => {
                    self.leaf(&place, "static_response", here, changes, |importer, route| {
                        importer.respond(route, handler)
                    });
                    return true;
                }
                "error" => {
                    self.leaf(&place, "error", here, changes, |importer, route| importer.respond(route, handler));
                    return true;
                }
                "vars" | "log_append" | "tracing" | "metrics" => {
                    self.doc.report.differs(&place, kind, "changes nothing that a client or an upstream sees");
                }
                "file_server" | "templates" | "php" | "acme_server" => {
                    self.leaf(&place, kind, here, changes, |_, _| Err("Weir serves no files".to_owned()));
                    return true;
                }
                other => self.doc.report.left_out(&place, format!("handler {other}"), "has no equivalent"),
            }
        }
        false
    }

    /// The routes for a handler that responds: one for each host and path, and others where a change holds for a part of them only.
    fn leaf(
        &mut self,
        place: &SourceLocation,
        label: &str,
        here: &Alternative,
        changes: &[Change<'n>],
        fill: impl Fn(&mut Self, &mut Route) -> Result<(), String>,
    ) {
        // Parts of what matched, each with the changes that hold for all of it.
        let mut parts: Vec<(Alternative, Vec<&'n Node>)> = vec![(here.clone(), Vec::new())];
        for change in changes {
            let mut next = Vec::new();
            for (part, mut nodes) in parts {
                match join(&part, &change.only) {
                    Ok(Some(both)) if same(&both, &part) => {
                        nodes.push(change.node);
                        next.push((part, nodes));
                    }
                    Ok(Some(both)) if next.len() < MAX_PENDING => {
                        let mut with = nodes.clone();
                        with.push(change.node);
                        next.push((both, with));
                        next.push((part, nodes));
                    }
                    Ok(None) => next.push((part, nodes)),
                    Ok(Some(_)) | Err(_) => {
                        let place = self.place(change.node);
                        let kind = change.node.get("handler").and_then(Node::text).unwrap_or_default().to_owned();
                        self.doc.report.left_out(
                            &place,
                            format!("handler {kind}"),
                            "it holds for a part of a route that Weir cannot distinguish",
                        );
                        // A protection that cannot be placed holds for all.
                        if is_guard(change.node) {
                            nodes.push(change.node);
                        }
                        next.push((part, nodes));
                    }
                }
            }
            parts = next;
        }
        for (part, nodes) in parts {
            let hosts: Vec<Option<String>> =
                if part.hosts.is_empty() { vec![None] } else { part.hosts.iter().cloned().map(Some).collect() };
            let paths = if part.paths.is_empty() { vec![Path::all()] } else { part.paths.clone() };
            for host in &hosts {
                for path in &paths {
                    if self.doc.routes.len() >= MAX_ROUTES {
                        self.doc.report.left_out(place, label, format!("more than {MAX_ROUTES} routes"));
                        return;
                    }
                    let mut route = Route::new(place, label, path.clone());
                    route.host.clone_from(host);
                    route.methods.clone_from(&part.methods);
                    route.headers.clone_from(&part.headers);
                    route.query.clone_from(&part.query);
                    route.rank = self.doc.routes.len();
                    let mut done = fill(self, &mut route);
                    let forwards = route.keys.iter().any(|(key, _)| key == "upstream");
                    if done.is_ok() {
                        let mut edit = PathEdit::new(&route);
                        done = nodes.iter().try_for_each(|node| self.change(&mut route, &mut edit, node, forwards));
                        if forwards {
                            done = done.and_then(|()| edit.write(&mut route));
                        }
                    }
                    if let Err(why) = done {
                        route.close();
                        let how = format!("{why}; the route responds with 501, so that no other takes its requests");
                        self.doc.report.left_out(place, label, how);
                    }
                    self.doc.routes.push(route);
                }
            }
        }
    }

    fn respond(&mut self, route: &mut Route, node: &'n Node) -> Result<(), String> {
        let place = self.place(node);
        let status = node
            .get("status_code")
            .and_then(Node::number)
            .unwrap_or(if node.get("handler").and_then(Node::text) == Some("error") { 500.0 } else { 200.0 });
        let status = status as u16;
        if node.get("abort").and_then(Node::flag) == Some(true) {
            route.set("respond", map([("status", word(400))]));
            self.doc.report.differs(&place, "abort", "Caddy closes the connection; Weir responds with 400");
            return Ok(());
        }
        let headers = node.get("headers").map(Node::entries).unwrap_or_default();
        let location = headers
            .iter()
            .find(|(name, _, _)| name.eq_ignore_ascii_case("location"))
            .and_then(|(_, _, value)| value.texts().first().cloned());
        if let (301 | 302 | 303 | 307 | 308, Some(to)) = (status, location) {
            let host = route.host.clone().filter(|host| !host.starts_with('*'));
            let mut to = to.replace("{http.request.hostport}", "{http.request.host}");
            if to.contains("{http.request.host}") {
                let host = host.ok_or("a redirect to whatever host was requested has no equivalent")?;
                to = to.replace("{http.request.host}", &host);
            }
            if let Some(base) = to.strip_suffix("{http.request.uri}") {
                if route.path.has_param() {
                    return Err("a redirect behind a template has no equivalent".to_owned());
                }
                to = format!("{base}{}", route.path);
            } else {
                self.doc.report.differs(&place, format!("redirect to {to}"), "Weir keeps the query of the request");
            }
            if placeholder(&to) || !(to.starts_with('/') || to.starts_with("http://") || to.starts_with("https://")) {
                return Err(format!("a redirect to {to} has no equivalent"));
            }
            route.set("redirect", map([("to", text(to)), ("status", word(status))]));
            return Ok(());
        }
        if !(200..600).contains(&status) {
            return Err(format!("a response with the status {status} has no equivalent"));
        }
        let mut respond: Map = vec![("status".to_owned(), word(status))];
        let media = headers
            .iter()
            .find(|(name, _, _)| name.eq_ignore_ascii_case("content-type"))
            .and_then(|(_, _, value)| value.texts().first().cloned());
        if let Some(body) =
            node.get("body").and_then(Node::text).filter(|body| !body.is_empty() && !matches!(status, 204 | 205 | 304))
        {
            if placeholder(body) {
                return Err("a body with placeholders has no equivalent".to_owned());
            }
            if let Some(media) = media.filter(|media| is_field_value(media)) {
                respond.push(("content_type".to_owned(), text(media)));
            }
            respond.push(("body".to_owned(), text(body)));
        }
        route.set("respond", Value::Map(respond));
        for (name, _, values) in headers {
            let own = name.eq_ignore_ascii_case("content-type") || name.eq_ignore_ascii_case("location");
            if let Some(value) = values.texts().first().filter(|value| {
                !own && is_token(name) && is_field_value(value) && !is_own_field(name) && !placeholder(value)
            }) {
                route.edit_header("response", "set", name, text(value));
            }
        }
        self.doc.report.exact(&place, "static_response", "a fixed response");
        Ok(())
    }

    fn finish(self) -> Document {
        let Self { mut doc, source, .. } = self;
        let whole = source.at(0);
        if doc.listen.is_empty() {
            let how = "no listener could be written: 127.0.0.1:8080 replaces it";
            doc.report.differs(&whole, "listen", how);
            doc.listen.push(Listen { place: whole.clone(), value: text("127.0.0.1:8080") });
        }
        let mut seen: Vec<Value> = Vec::new();
        doc.listen.retain(|listen| {
            let new = !seen.contains(&listen.value);
            seen.push(listen.value.clone());
            new
        });
        if doc.routes.is_empty() {
            let mut route = Route::new(&whole, "no route could be written", Path::all());
            route.close();
            doc.report.left_out(&whole, "all routes", "no route could be written");
            doc.routes.push(route);
        }
        precedence::check(&mut doc, |a, b| a.rank < b.rank);
        doc.drop_doubles();
        for (what, how) in WHOLE {
            doc.report.differs(&whole, what, how);
        }
        doc.report.sort();
        doc
    }
}

/// What holds for every file.
const WHOLE: [(&str, &str); 5] = [
    ("what no route matches", "Weir responds with 404, Caddy 200 without a body"),
    (
        "path matchers",
        "Caddy takes upper and lower case for the same, Weir does not; Weir refuses %2F, %5C and ; with 400, see `server.path`",
    ),
    ("https", "Caddy obtains certificates and redirects from http by itself; Weir does neither"),
    ("X-Real-IP and the like from clients", "removed unless the peer is in `trusted_proxies`, see `untrusted_headers`"),
    ("routes with methods", "Weir responds with 405 where only the method does not fit; GET takes HEAD"),
];

/// Whether a handler refuses requests that do not show who sends them.
fn is_guard(handler: &Node) -> bool {
    handler.get("handler").and_then(Node::text) == Some("authentication") || authorize::is_challenge(handler)
}

fn same(a: &Alternative, b: &Alternative) -> bool {
    a.hosts == b.hosts && a.paths == b.paths && a.methods == b.methods && a.headers == b.headers && a.query == b.query
}

/// Whether a text has a placeholder of Caddy.
pub(super) fn placeholder(value: &str) -> bool {
    value.contains('{') && value.contains('}')
}
