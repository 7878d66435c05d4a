//! `http` and `server`: listeners, hosts, and the routes of each server.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::known::{Known, look_up};
use super::listen::{self, Listen};
use super::location::is_handler;
use super::parse::Directive;
use super::policy::Zone;
use super::settings::Settings;
use super::upstream::{Blocks, Made};
use super::values;
use crate::document::{self, Document, Map, Route, Value, map, text, time, word};
use crate::pattern::Path;
use crate::precedence;
use crate::report::SourceLocation;
use crate::source::ImportError;
use crate::units;

/// nginx' own bound of a request body.
const BODY: u64 = 1 << 20;
/// Routes of all servers.
const MAX_ROUTES: usize = 20_000;

/// Which location nginx takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    /// `return` and `rewrite` of the server.
    Server,
    Exact,
    Prefix {
        length: usize,
        /// `^~`: no regular expression is tried.
        stop: bool,
    },
    Regex(usize),
    /// What no location takes.
    Rest,
}

impl Rank {
    /// Whether nginx takes this one rather than the other, where both match.
    fn before(self, other: Rank) -> bool {
        let class = |rank: Rank| match rank {
            Rank::Server => 0,
            Rank::Exact => 1,
            Rank::Prefix { stop: true, .. } => 2,
            Rank::Regex(_) => 3,
            Rank::Prefix { stop: false, .. } => 4,
            Rank::Rest => 5,
        };
        match (self, other) {
            (Rank::Prefix { length: a, .. }, Rank::Prefix { length: b, .. }) => a > b,
            (Rank::Regex(a), Rank::Regex(b)) => a < b,
            (a, b) => class(a) < class(b),
        }
    }
}

/// Translates one configuration.
pub(super) struct Importer<'d> {
    pub(super) doc: Document,
    whole: SourceLocation,
    pub(super) blocks: Blocks<'d>,
    pub(super) made: HashMap<String, Made>,
    pub(super) zones: HashMap<String, Zone>,
    /// Limits and authenticators that were written, by what they say.
    pub(super) limits: HashMap<String, String>,
    pub(super) maps: HashMap<&'d str, &'d Directive>,
    pub(super) splits: HashMap<&'d str, &'d Directive>,
    /// What `set` gives a fixed value in the block that is read.
    pub(super) variables: HashMap<String, String>,
    /// What was told already.
    pub(super) told: HashSet<String>,
    /// What holds in the server that is read, and its locations.
    pub(super) of_server: Settings<'d>,
    pub(super) of_locations: Vec<&'d Directive>,
    /// Paths of all `auth_request`.
    pub(super) authorizations: HashSet<&'d str>,
    /// First name of the server that is read.
    pub(super) server_name: Option<String>,
    pub(super) regexes: usize,
    /// Settings of the process, by the reason in the report.
    process: BTreeMap<&'static str, Vec<String>>,
    ranks: Vec<Rank>,
}

impl<'d> Importer<'d> {
    pub(super) fn new(doc: Document, whole: SourceLocation) -> Self {
        Self {
            doc,
            whole,
            blocks: HashMap::new(),
            made: HashMap::new(),
            zones: HashMap::new(),
            limits: HashMap::new(),
            maps: HashMap::new(),
            splits: HashMap::new(),
            variables: HashMap::new(),
            told: HashSet::new(),
            of_server: Settings::default(),
            of_locations: Vec::new(),
            authorizations: HashSet::new(),
            server_name: None,
            regexes: 0,
            process: BTreeMap::new(),
            ranks: Vec::new(),
        }
    }

    /// The whole file: `http { ... }`, or what stands inside of one.
    pub(super) fn main(&mut self, directives: &'d [Directive]) -> Result<(), ImportError> {
        let http: Vec<&Directive> = directives.iter().filter(|directive| directive.name == "http").collect();
        if http.is_empty() {
            if !directives.iter().any(|directive| directive.name == "server") {
                return Err(ImportError::new(
                    &self.whole,
                    "there is no `server` in it; is this a configuration of nginx?",
                ));
            }
            self.http(directives, &Settings::default());
            return Ok(());
        }
        self.unknown_directives(directives);
        let settings = Settings::default();
        for directive in http {
            self.http(directive.block.as_deref().unwrap_or_default(), &settings);
        }
        Ok(())
    }

    /// Names what is not translated.
    pub(super) fn unknown_directives(&mut self, block: &'d [Directive]) {
        for directive in block {
            let (place, shown) = (&directive.place, directive.shown());
            match look_up(&directive.name) {
                // A service of `auth_request` gets no body anyway.
                _ if directive.name == "proxy_pass_request_body"
                    && block.iter().any(|inner| inner.name == "internal") => {}
                _ if is_handler(&directive.name) => {}
                Known::Translated => {}
                Known::Process(why) => {
                    let told = self.process.entry(why).or_default();
                    let shown = format!("{} ({})", directive.name, place.line);
                    if told.len() < 40 && !told.contains(&shown) {
                        told.push(shown);
                    }
                    if directive.name == "events" {
                        self.unknown_directives(directive.block.as_deref().unwrap_or_default());
                    }
                }
                Known::Other(why) => self.doc.report.differs(place, shown, why),
                Known::Unknown => self.doc.report.left_out(place, shown, "has no equivalent"),
            }
        }
    }

    fn http(&mut self, block: &'d [Directive], outer: &Settings<'d>) {
        self.unknown_directives(block);
        let settings = outer.inside(block);
        for directive in block {
            match directive.name.as_str() {
                "upstream" => {
                    self.blocks.insert(directive.arg(0), directive);
                }
                "limit_req_zone" | "limit_conn_zone" => self.zone(directive),
                "split_clients" => {
                    self.splits.insert(directive.arg(1).trim_start_matches('$'), directive);
                }
                "map" => {
                    self.maps.insert(directive.arg(1).trim_start_matches('$'), directive);
                    if !matches!(directive.arg(0), "$http_upgrade" | "$request_method") {
                        self.doc.report.left_out(
                            &directive.place,
                            directive.shown(),
                            "variables by `map` have no equivalent",
                        );
                    }
                }
                "if" => self.condition(directive),
                _ => {}
            }
        }
        self.server_keys(&settings);
        let servers: Vec<&Directive> = block.iter().filter(|directive| directive.name == "server").collect();
        self.servers(&servers, &settings);
    }

    /// `server` of Weir's file, with nginx' own defaults.
    fn server_keys(&mut self, settings: &Settings<'d>) {
        let read = |name: &str, default: u64| settings.word(name).and_then(values::time).unwrap_or(default);
        let body = settings.word("client_max_body_size").and_then(values::size).unwrap_or(BODY);
        let mut server = Map::new();
        server.push(("body".to_owned(), word(if body == 0 { "none".to_owned() } else { units::size(body) })));
        server.push(("head_timeout".to_owned(), time(read("client_header_timeout", 60_000).max(1))));
        server.push(("body_idle_timeout".to_owned(), time(read("client_body_timeout", 60_000).max(1))));
        server.push(("keep_alive".to_owned(), time(read("keepalive_timeout", 75_000).max(1000))));
        if settings.word("merge_slashes") == Some("off") {
            let how = "`//` stays in nginx; Weir refuses it with 400 unless `server.path.double_slash` is `keep`";
            if let Some(directive) = settings.one("merge_slashes") {
                self.doc.report.differs(&directive.place, directive.shown(), how);
            }
        } else {
            server.push(("path".to_owned(), map([("double_slash", text("merge"))])));
        }
        document::set(&mut self.doc.top, "server", Value::Map(server));
        let mut networks: Vec<String> = Vec::new();
        for directive in settings.all("set_real_ip_from") {
            match directive
                .arg(0)
                .parse::<ipnet::IpNet>()
                .or_else(|_| directive.arg(0).parse::<std::net::IpAddr>().map(Into::into))
            {
                Ok(network) => networks.push(network.trunc().to_string()),
                Err(_) => self.doc.report.left_out(&directive.place, directive.shown(), "is not a network"),
            }
        }
        if !networks.is_empty() {
            document::set(&mut self.doc.top, "trusted_proxies", document::texts(networks));
            let header = settings.one("real_ip_header");
            if let Some(directive) =
                header.filter(|directive| !directive.arg(0).eq_ignore_ascii_case("x-forwarded-for"))
            {
                let how = "Weir takes the client's address from X-Forwarded-For";
                self.doc.report.left_out(&directive.place, directive.shown(), how);
            }
        }
    }

    /// A body's bound, where it is not that of the file.
    pub(super) fn body(&mut self, route: &mut Route, settings: &Settings<'d>) {
        let bytes = settings.word("client_max_body_size").and_then(values::size).unwrap_or(BODY);
        let value = word(if bytes == 0 { "none".to_owned() } else { units::size(bytes) });
        let default = self.doc.top.iter().find(|(key, _)| key == "server").and_then(|(_, server)| match server {
            Value::Map(keys) => keys.iter().find(|(key, _)| key == "body").map(|(_, value)| value.clone()),
            _ => None,
        });
        if default.as_ref() != Some(&value) {
            route.set("body", value);
        }
    }

    pub(super) fn rank(&mut self, rank: Rank) -> usize {
        self.ranks.push(rank);
        self.ranks.len() - 1
    }

    fn servers(&mut self, servers: &[&'d Directive], settings: &Settings<'d>) {
        let listens: Vec<Vec<Listen<'d>>> = servers.iter().map(|server| server_listens(server)).collect();
        // The default of an address: the one that says so, else the first.
        let mut defaults: HashMap<String, usize> = HashMap::new();
        for explicit in [true, false] {
            for (index, listens) in listens.iter().enumerate() {
                for listen in listens.iter().filter(|listen| listen.default || !explicit) {
                    defaults.entry(listen.address.clone()).or_insert(index);
                }
            }
        }
        let names: Vec<Vec<String>> = servers.iter().map(|server| self.server_names(server)).collect();
        // Weir's routes do not tell listeners apart: a host belongs to one server. One that only sends clients to https gives way.
        let mut order: Vec<usize> = (0..servers.len()).collect();
        order.sort_by_key(|&index| sends_to_https(servers[index]));
        let mut owners: HashMap<&str, usize> = HashMap::new();
        for &index in &order {
            for name in &names[index] {
                owners.entry(name).or_insert(index);
            }
        }
        let is_default = |index: usize| defaults.values().any(|&default| default == index) || listens[index].is_empty();
        let any_host = order.iter().copied().find(|&index| is_default(index));
        for (index, server) in servers.iter().enumerate() {
            let listens = &listens[index];
            let lost: Vec<&String> =
                names[index].iter().filter(|name| owners.get(name.as_str()) != Some(&index)).collect();
            let mut hosts: Vec<Option<String>> = names[index]
                .iter()
                .filter(|name| owners.get(name.as_str()) == Some(&index))
                .cloned()
                .map(Some)
                .collect();
            if let Some(first) = lost.first() {
                let owner =
                    owners.get(first.as_str()).map(|&owner| servers[owner].place.to_string()).unwrap_or_default();
                let how = format!(
                    "the server at {owner} has the same host, and Weir's routes do not tell listeners apart: its routes are used"
                );
                let listed: Vec<&str> = lost.iter().map(|name| name.as_str()).collect();
                self.doc.report.left_out(&server.place, format!("server_name {}", listed.join(" ")), how);
            }
            if any_host == Some(index) {
                hosts.clear();
                if needs_host(server) {
                    hosts.extend(names[index].iter().cloned().map(Some));
                }
                hosts.push(None);
            } else if is_default(index) {
                let how = "another server is the default of another address, and Weir's routes do not tell listeners apart: this one takes only the hosts that it names";
                self.doc.report.differs(&server.place, "server", how);
            }
            self.listeners(listens, servers.len() > 1);
            if hosts.is_empty() {
                let how = "no host is left that leads to it; give it one, or run it as a Weir of its own";
                self.doc.report.left_out(&server.place, "server", how);
                continue;
            }
            self.server(server, settings, &names[index], &hosts);
        }
    }

    fn server_names(&mut self, server: &'d Directive) -> Vec<String> {
        let mut names = Vec::new();
        for directive in server.block.as_deref().unwrap_or_default().iter().filter(|inner| inner.name == "server_name")
        {
            for name in &directive.args {
                match listen::host(name) {
                    Ok(hosts) => names.extend(hosts),
                    Err(why) => self.doc.report.left_out(&directive.place, format!("server_name {name}"), why),
                }
            }
        }
        names.dedup();
        names
    }

    fn listeners(&mut self, listens: &[Listen<'d>], several: bool) {
        for listen in listens {
            let (place, shown) = (&listen.directive.place, listen.directive.shown());
            for other in &listen.others {
                let how = match other.as_str() {
                    "http2" => {
                        "listeners with `tls` offer it by themselves; in clear text write `http2: prior_knowledge`"
                    }
                    _ => "Weir's listeners do not take it",
                };
                self.doc.report.left_out(place, format!("{other} of {shown}"), how);
            }
            let Some(socket) = listen.socket else {
                self.doc.report.left_out(
                    place,
                    shown,
                    "only IP addresses with a port are imported; a Unix socket is written `unix:/PATH` in `listen`",
                );
                continue;
            };
            if listen.ssl {
                self.doc.report.left_out(
                    place,
                    shown,
                    "certificates are not imported; write a listener with `tls` and the files of this one",
                );
                continue;
            }
            let value = text(socket.to_string());
            if !self.doc.listen.iter().any(|known| known.value == value) {
                self.doc.listen.push(document::Listen { place: place.clone(), value });
                self.doc.report.exact(place, shown, "a listener");
                if several && self.doc.listen.len() == 2 {
                    let how = "every listener of Weir serves all routes; nginx tries only the servers of that address";
                    self.doc.report.differs(place, "several listeners", how);
                }
            }
        }
    }

    fn server(&mut self, server: &'d Directive, outer: &Settings<'d>, names: &[String], hosts: &[Option<String>]) {
        let block = server.block.as_deref().unwrap_or_default();
        self.unknown_directives(block);
        self.variables.clear();
        self.server_name = names.first().filter(|name| !name.starts_with('*')).cloned();
        let settings = outer.inside(block);
        self.of_server = settings.clone();
        self.of_locations = block.iter().filter(|inner| inner.name == "location").collect();
        self.authorizations = settings.word("auth_request").into_iter().collect();
        authorizations(block, &mut self.authorizations);
        block.iter().filter(|inner| inner.name == "set").for_each(|inner| self.variable(inner));
        if let Some(directive) =
            settings.one("ssl_verify_client").filter(|directive| !["off", "on"].contains(&directive.arg(0)))
        {
            self.doc.report.left_out(&directive.place, directive.shown(), "client certificates are not requested");
        }
        for host in hosts {
            let before = self.doc.routes.len();
            let mut routes = Vec::new();
            self.regexes = 0;
            if let Some(directive) = block.iter().find(|inner| inner.name == "return") {
                let mut route = Route::new(&directive.place, directive.shown(), Path::all());
                route.host.clone_from(host);
                route.rank = self.rank(Rank::Server);
                if let Err(why) = self.returns(&mut route, directive, &settings) {
                    self.closed(&mut route, &directive.place, &directive.shown(), &why);
                } else {
                    self.response_fields(&mut route, &settings);
                }
                routes.push(route);
            } else {
                for directive in block {
                    match directive.name.as_str() {
                        "if" => self.condition(directive),
                        "rewrite" => match self.rewrite_redirect(directive) {
                            Ok(found) => {
                                for mut route in found {
                                    route.rank = self.rank(Rank::Server);
                                    routes.push(route);
                                }
                            }
                            Err(why) => self.doc.report.left_out(&directive.place, directive.shown(), why),
                        },
                        _ => {}
                    }
                }
                let locations: Vec<&Directive> = block.iter().filter(|inner| inner.name == "location").collect();
                for directive in &locations {
                    self.location_routes(directive, &settings, &locations, host.as_deref(), &mut routes, 0);
                }
                if let Some(directive) = block.iter().find(|inner| inner.name == "try_files") {
                    self.doc.report.left_out(&directive.place, directive.shown(), "Weir serves no files");
                }
            }
            // Without this, requests for the host would go on to the routes for every host.
            let all = Path::all();
            if host.is_some() && !routes.iter().any(|route| route.path == all && route.methods.is_empty()) {
                let mut route = Route::new(&server.place, "what no location of this server takes", all);
                route.set("respond", map([("status", word(404))]));
                route.rank = self.rank(Rank::Rest);
                routes.push(route);
            }
            if self.doc.routes.len() + routes.len() > MAX_ROUTES {
                self.doc.report.left_out(&server.place, "server", format!("more than {MAX_ROUTES} routes"));
                return;
            }
            for mut route in routes {
                route.host.clone_from(host);
                self.doc.routes.push(route);
            }
            debug_assert!(self.doc.routes.len() >= before);
        }
    }

    /// `set $name value` with a fixed value.
    pub(super) fn variable(&mut self, directive: &Directive) {
        let name = directive.arg(0).trim_start_matches('$');
        if !name.is_empty() && directive.arg(1).len() < 1024 {
            self.variables.insert(name.to_owned(), directive.arg(1).to_owned());
        }
    }

    /// The document, whole.
    pub(super) fn finish(self) -> Document {
        let Self { mut doc, whole, ranks, process, .. } = self;
        if doc.listen.is_empty() {
            let how = "no listener could be written: 127.0.0.1:8080 replaces it";
            doc.report.differs(&whole, "listen", how);
            doc.listen.push(document::Listen { place: whole.clone(), value: text("127.0.0.1:8080") });
        }
        if doc.routes.is_empty() {
            let mut route = Route::new(&whole, "no route could be written", Path::all());
            route.close();
            doc.report.left_out(&whole, "all locations", "no route could be written");
            doc.routes.push(route);
        }
        precedence::check(&mut doc, |a, b| {
            let rank = |route: &Route| ranks.get(route.rank).copied().unwrap_or(Rank::Rest);
            a.host == b.host && rank(a).before(rank(b))
        });
        doc.drop_doubles();
        for (what, how) in WHOLE {
            doc.report.differs(&whole, what, how);
        }
        for (why, told) in process {
            doc.report.differs(&whole, told.join(", "), why);
        }
        doc.report.sort();
        doc
    }
}

/// What holds for every file.
const WHOLE: [(&str, &str); 8] = [
    ("redirects to a path", "`Location` is the path; nginx makes a URL of it, with the host and port that it knows"),
    (
        "paths",
        "Weir routes and forwards one normal form (dot segments removed, escapes of letters and digits decoded), in which `+` and `%2B` are two; nginx compares the decoded path and forwards the path as it came where `proxy_pass` has no path",
    ),
    ("%2F, %5C, ; in a path", "refused with 400; nginx takes %2F for a slash. `server.path` says otherwise"),
    (
        "X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Request-Id",
        "Weir always writes them; nginx only where `proxy_set_header` says so",
    ),
    (
        "X-Real-IP and the like from clients",
        "removed unless the peer is in `trusted_proxies`, see `untrusted_headers`; nginx forwards them",
    ),
    (
        "header fields with an underscore in their name",
        "Weir forwards them; nginx drops them unless `underscores_in_headers` is on",
    ),
    (
        "HTTP version and connections to upstreams",
        "Weir speaks HTTP/1.1 and keeps connections; nginx before 1.29.7 speaks HTTP/1.0 and closes them unless told",
    ),
    ("files below `html`", "nginx serves them where no location matches; Weir responds with 404"),
];

/// The paths of all `auth_request` in a block.
fn authorizations<'d>(block: &'d [Directive], out: &mut HashSet<&'d str>) {
    for directive in block {
        if directive.name == "auth_request" {
            out.insert(directive.arg(0));
        }
        authorizations(directive.block.as_deref().unwrap_or_default(), out);
    }
}

fn server_listens<'d>(server: &'d Directive) -> Vec<Listen<'d>> {
    let block = server.block.as_deref().unwrap_or_default();
    let ssl_on = block.iter().any(|inner| inner.name == "ssl" && inner.arg(0) == "on");
    let listens = block.iter().filter(|inner| inner.name == "listen").map(listen::read);
    listens
        .map(|mut listen| {
            listen.ssl |= ssl_on;
            listen
        })
        .collect()
}

/// Whether what a server does depends on the host that was requested.
fn needs_host(server: &Directive) -> bool {
    let block = server.block.as_deref().unwrap_or_default();
    let inner = block
        .iter()
        .chain(block.iter().filter(|inner| inner.name == "location").flat_map(|inner| inner.block.iter().flatten()));
    let mut returns = inner.filter(|inner| inner.name == "return");
    returns.any(|inner| inner.args.iter().any(|arg| arg.contains("$host") || arg.contains("$http_host")))
}

/// Whether all that a server does is to send clients to https.
fn sends_to_https(server: &Directive) -> bool {
    let block = server.block.as_deref().unwrap_or_default();
    let goes = |block: &[Directive]| {
        let to = |inner: &Directive| inner.args.last().is_some_and(|to| to.starts_with("https://"));
        block.iter().any(|inner| matches!(inner.name.as_str(), "return" | "rewrite") && to(inner))
    };
    let mut locations = block.iter().filter(|inner| inner.name == "location").peekable();
    let forwards =
        locations.clone().any(|location| location.block.iter().flatten().any(|inner| inner.name == "proxy_pass"));
    !forwards
        && (goes(block)
            || (locations.peek().is_some()
                && locations.any(|location| goes(location.block.as_deref().unwrap_or_default()))))
}
