//! Middlewares.

use super::Importer;
use super::services::duration;
use crate::document::{
    self, Entry, Map, Route, Value, is_field_value, is_own_field, is_token, map, set, text, texts, word,
};
use crate::nginx::prefix_rewrite;
use crate::pattern::{Segment, encode};
use crate::report::SourceLocation;
use crate::tree::{Fields, Node};
use crate::units;

/// Chains in chains.
const MAX_DEPTH: usize = 8;
/// Middlewares of a router.
const MAX_MIDDLEWARES: usize = 100;

/// Middlewares that decide who may send requests and have no equivalent.
const PROTECTIONS: [&str; 4] = ["digestAuth", "apiKey", "jwt", "oidc"];

/// What middlewares make of the path that was matched.
pub(crate) struct PathEdit {
    /// What stands before the first parameter or `*` of the pattern.
    pub(crate) fixed: String,
    /// What takes its place.
    pub(crate) now: String,
    /// A whole path.
    pub(crate) whole: Option<String>,
}

impl PathEdit {
    pub(crate) fn new(route: &Route) -> Self {
        let mut fixed = String::new();
        for segment in &route.path.segments {
            match segment {
                Segment::Literal(text) => {
                    fixed.push('/');
                    fixed.push_str(text);
                }
                Segment::Param(_) => break,
            }
        }
        Self { now: fixed.clone(), fixed, whole: None }
    }

    pub(crate) fn strip(&mut self, prefixes: &[String], route: &Route) -> Result<(), String> {
        for prefix in prefixes {
            let prefix = prefix.trim_end_matches('/');
            if let Some(rest) = self.now.strip_prefix(prefix) {
                self.now = if rest.is_empty() || rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
                return Ok(());
            }
            // A prefix that only some paths of the pattern have.
            if !route.path.is_exact() && prefix.starts_with(self.now.as_str()) {
                return Err(format!("only some paths of {} begin with {prefix}", route.path));
            }
        }
        Ok(())
    }

    pub(crate) fn write(self, route: &mut Route) -> Result<(), String> {
        if let Some(whole) = self.whole {
            route.set_in("rewrite", "path", text(whole));
        } else if self.now != self.fixed {
            if route.path.expression.is_some() {
                return Err("another prefix for paths that an expression matches has no equivalent".to_owned());
            }
            let open = !route.path.is_exact();
            let now = if self.now.is_empty() { "/".to_owned() } else { self.now };
            route.set_in("rewrite", if open { "prefix" } else { "path" }, text(now));
        }
        Ok(())
    }
}

/// What else a router's middlewares say.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) auth: Vec<String>,
    pub(super) limits: Vec<String>,
    pub(super) attempts: u64,
}

impl<'n> Importer<'n> {
    /// The middlewares of a router, chains written out.
    pub(super) fn expand(
        &mut self,
        names: &[String],
        depth: usize,
        out: &mut Vec<(String, &'n Node)>,
    ) -> Result<(), String> {
        let root = self.root;
        for name in names {
            let plain = name.strip_suffix("@file").unwrap_or(name);
            let node = root.at(&["http", "middlewares", plain]);
            let node = node
                .filter(|_| !plain.contains('@'))
                .ok_or_else(|| format!("the middleware {name} is not in this file"))?;
            if out.len() >= MAX_MIDDLEWARES || depth > MAX_DEPTH {
                return Err("there are too many middlewares in it".to_owned());
            }
            match node.at(&["chain", "middlewares"]) {
                Some(inner) => self.expand(&inner.texts(), depth + 1, out)?,
                None => out.push((plain.to_owned(), node)),
            }
        }
        Ok(())
    }

    /// One middleware. In words, why the route has to be closed.
    pub(super) fn middleware(
        &mut self,
        route: &mut Route,
        path: &mut PathEdit,
        chain: &mut Chain,
        name: &str,
        node: &'n Node,
    ) -> Result<(), String> {
        for (kind, line, config) in node.entries() {
            let place = self.source.at(*line);
            let label = format!("middleware {name}: {kind}");
            let fields = Fields::of(config);
            match kind.as_str() {
                "stripPrefix" => {
                    fields.skip(&["forceSlash"]);
                    path.strip(&fields.texts("prefixes"), route).map_err(|why| format!("{label}: {why}"))?;
                    let how = "`rewrite`; X-Forwarded-Prefix is not written";
                    self.doc.report.differs(&place, label.clone(), how);
                }
                "addPrefix" => {
                    let prefix = encode(fields.text("prefix").unwrap_or_default().trim_end_matches('/'))
                        .map_err(|why| format!("{label}: {why}"))?;
                    path.now = format!("{prefix}{}", path.now);
                    self.doc.report.exact(&place, label.clone(), "`rewrite`");
                }
                "replacePath" => {
                    let whole = fields
                        .text("path")
                        .filter(|path| path.starts_with('/'))
                        .ok_or_else(|| format!("{label}: not a path"))?;
                    path.whole = Some(encode(whole).map_err(|why| format!("{label}: {why}"))?);
                    self.doc.report.exact(&place, label.clone(), "`rewrite.path`");
                }
                "replacePathRegex" => {
                    let rewrite = prefix_rewrite(
                        fields.text("regex").unwrap_or_default(),
                        fields.text("replacement").unwrap_or_default(),
                    );
                    let rewrite = rewrite.filter(|rewrite| rewrite.below && rewrite.from == path.now);
                    let rewrite = rewrite.ok_or_else(|| {
                        format!("{label}: only the exchange of the router's own prefix has an equivalent")
                    })?;
                    path.now = encode(&rewrite.to).map_err(|why| format!("{label}: {why}"))?;
                    self.doc.report.exact(&place, label.clone(), "`rewrite.prefix`");
                }
                "rateLimit" => chain.limits.extend(self.rate(config, &place, &label)),
                "inFlightReq" => {
                    let value = vec![
                        ("algorithm".to_owned(), text("concurrency")),
                        ("key".to_owned(), text(self.criterion(config, "header:host", &place, &label))),
                        ("quota".to_owned(), word(fields.whole("amount").unwrap_or(1))),
                    ];
                    fields.skip(&["sourceCriterion"]);
                    chain.limits.push(self.once(false, name, &place, &label, value));
                    self.doc.report.exact(&place, label.clone(), "a limit of requests in flight");
                }
                "basicAuth" => chain.auth.push(self.basic(&fields, &place, &label)),
                "headers" => self.headers(route, config, &label),
                "retry" => {
                    chain.attempts = chain.attempts.max(fields.whole("attempts").unwrap_or(1));
                    fields.skip(&["initialInterval", "timeout", "maxRequestBodyBytes"]);
                    let how = "Weir sends a request again at once, only if it is idempotent or nothing of it was sent; Traefik any request";
                    self.doc.report.differs(&place, label.clone(), how);
                }
                "ipAllowList" | "ipWhiteList" => {
                    let mut networks = Vec::new();
                    for network in fields.texts("sourceRange") {
                        let parsed: Result<ipnet::IpNet, _> =
                            network.parse().or_else(|_| network.parse::<std::net::IpAddr>().map(ipnet::IpNet::from));
                        networks.push(
                            parsed.map_err(|_| format!("{label}: `{network}` is not a network"))?.trunc().to_string(),
                        );
                    }
                    if fields.get("ipStrategy").is_some_and(|strategy| !strategy.entries().is_empty()) {
                        let how = "`trusted_proxies` says from whom X-Forwarded-For is believed: set it to the proxies in front";
                        self.doc.report.differs(&place, format!("{label}: ipStrategy"), how);
                    }
                    fields.skip(&["rejectStatusCode"]);
                    route.set("allow", map([("ips", texts(networks))]));
                    self.doc.report.exact(&place, label.clone(), "`allow.ips`");
                }
                "redirectScheme" => {
                    let scheme = fields.text("scheme").unwrap_or("https");
                    let status = if fields.flag("permanent") == Some(true) { 308 } else { 307 };
                    fields.skip(&["port"]);
                    let host = route.host.clone().filter(|host| !host.starts_with('*'));
                    let host = host.ok_or_else(|| {
                        format!("{label}: a redirect to whatever host was requested has no equivalent")
                    })?;
                    if route.path.has_param() {
                        return Err(format!("{label}: a redirect behind a template has no equivalent"));
                    }
                    let port = fields
                        .text("port")
                        .filter(|port| *port != "443")
                        .map(|port| format!(":{port}"))
                        .unwrap_or_default();
                    let to = format!("{scheme}://{host}{port}{}", route.path);
                    route.keys = vec![("redirect".to_owned(), map([("to", text(to)), ("status", word(status))]))];
                    self.doc.report.exact(&place, label.clone(), "a redirect");
                }
                "buffering" => {
                    if let Some(bytes) = fields.whole("maxRequestBodyBytes").filter(|&bytes| bytes > 0) {
                        route.set("body", word(units::size(bytes)));
                    }
                    fields.skip(&["memRequestBodyBytes", "memResponseBodyBytes"]);
                    self.doc.report.differs(
                        &place,
                        label.clone(),
                        "bodies are streamed; `body` bounds those of requests",
                    );
                }
                "compress" => {
                    let mut codings = fields.texts("encodings");
                    codings.retain(|coding| matches!(coding.as_str(), "zstd" | "br" | "gzip"));
                    if codings.is_empty() {
                        codings = ["gzip", "br", "zstd"].map(str::to_owned).into();
                    }
                    let codings: Vec<&str> = codings.iter().map(String::as_str).collect();
                    let mut types = fields.texts("includedContentTypes");
                    types.retain(|name| document::is_media_type(name));
                    let min = fields.whole("minResponseBodyBytes").unwrap_or(1024);
                    fields.skip(&["defaultEncoding"]);
                    route.set("compress", document::compression(&codings, min, &types, &[]));
                    let how = "`compress`; Traefik compresses all media types but those that it is told to leave out, Weir those of `types`";
                    self.doc.report.differs(&place, label.clone(), how);
                }
                "contentType" => {}
                "forwardAuth" => chain.auth.push(self.forward(name, &fields, &place, &label)?),
                other if PROTECTIONS.contains(&other) => return Err(format!("{label} has no equivalent")),
                "redirectRegex" | "stripPrefixRegex" => return Err(format!("{label} has no equivalent")),
                "plugin" => {
                    let how = "plugins have no equivalent; if it protects something, that is open now";
                    self.doc.report.left_out(&place, label.clone(), how);
                    continue;
                }
                _ => {
                    self.doc.report.left_out(&place, label.clone(), "has no equivalent");
                    continue;
                }
            }
            if !matches!(kind.as_str(), "rateLimit" | "headers") {
                fields.name_rest(self.source, &mut self.doc.report, &label);
            }
        }
        Ok(())
    }

    /// A service that is called for each request. In words, why Weir cannot call it in the same way.
    fn forward(
        &mut self,
        name: &str,
        fields: &Fields<'n>,
        place: &SourceLocation,
        label: &str,
    ) -> Result<String, String> {
        let address = fields.text("address").unwrap_or_default();
        let rest = address.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~:[]/?=&%+,".contains(c);
        if !rest.is_some_and(|(_, rest)| !rest.is_empty() && !rest.starts_with('/') && rest.chars().all(plain)) {
            return Err(format!("{label}: `{address}` is not a URL that Weir calls"));
        }
        for (key, why) in [
            ("authResponseHeadersRegex", "fields by an expression have no equivalent: `copy` takes names"),
            ("tls", "it has no equivalent: write an upstream with `tls` and `forward: {upstream: NAME, path: PATH}`"),
        ] {
            if fields
                .get(key)
                .is_some_and(|node| !node.entries().is_empty() || node.text().is_some_and(|text| !text.is_empty()))
            {
                return Err(format!("{label}: {key}: {why}"));
            }
        }
        for key in ["forwardBody", "preserveRequestMethod"] {
            if fields.flag(key) == Some(true) {
                return Err(format!("{label}: {key}: Weir calls it with a GET without a body"));
            }
        }
        let copy = fields.texts("authResponseHeaders");
        let is_other = |name: &String| {
            !is_token(name)
                || is_own_field(name)
                || ["authorization", "cookie"].iter().any(|one| name.eq_ignore_ascii_case(one))
        };
        if let Some(name) = copy.iter().find(|name| is_other(name)) {
            return Err(format!("{label}: authResponseHeaders: {name}: Weir copies no such field"));
        }
        let mut inner: Map = vec![("url".to_owned(), text(address))];
        let send = fields.texts("authRequestHeaders");
        if send.is_empty() {
            let how = "Traefik sends all fields of the client, Weir Authorization and Cookie: add those that the service reads to `send`";
            self.doc.report.differs(place, label, how);
        } else {
            let is_sent = |name: &&String| {
                is_token(name) && !is_own_field(name) && !name.to_ascii_lowercase().starts_with("x-forwarded-")
            };
            inner.push(("send".to_owned(), texts(send.iter().filter(is_sent))));
            self.doc.report.exact(place, label, "`auth.*.forward`");
        }
        if !copy.is_empty() {
            inner.push(("copy".to_owned(), texts(copy)));
        }
        let cookies = fields.texts("addAuthCookiesToResponse");
        if !cookies.is_empty() {
            inner.push(("copy_to_response".to_owned(), texts(["Set-Cookie"])));
            let how = "all cookies that the service sets, not only those that are named";
            self.doc.report.differs(place, format!("{label}: addAuthCookiesToResponse"), how);
        }
        if fields.flag("trustForwardHeader") == Some(true) {
            let how = "`trusted_proxies` says from whom X-Forwarded-* is believed: set it to the proxies in front";
            self.doc.report.differs(place, format!("{label}: trustForwardHeader"), how);
        }
        fields.skip(&["maxResponseBodySize", "maxBodySize", "preserveLocationHeader"]);
        // Traefik's own.
        inner.push(("timeout".to_owned(), word("30s")));
        Ok(self.once(true, name, place, label, vec![("forward".to_owned(), Value::Map(inner))]))
    }

    /// The limit or authenticator that says this, once.
    fn once(&mut self, auth: bool, wanted: &str, place: &SourceLocation, note: &str, value: Map) -> String {
        let key = format!("{auth} {wanted} {value:?}");
        if let Some(name) = self.parts.get(&key) {
            return name.clone();
        }
        let name = self.doc.name(if auth { "auth" } else { "limits" }, wanted);
        self.parts.insert(key, name.clone());
        let entry = Entry { name: name.clone(), place: place.clone(), note: note.to_owned(), value };
        if auth { &mut self.doc.auth } else { &mut self.doc.limits }.push(entry);
        name
    }

    fn criterion(&mut self, config: &Node, default: &str, place: &SourceLocation, label: &str) -> String {
        let Some(criterion) = config.get("sourceCriterion") else { return default.to_owned() };
        if let Some(name) = criterion.get("requestHeaderName").and_then(Node::text).filter(|name| is_token(name)) {
            return format!("header:{}", name.to_ascii_lowercase());
        }
        if criterion.get("requestHost").and_then(Node::flag) == Some(true) {
            return "header:host".to_owned();
        }
        if criterion.get("ipStrategy").is_some_and(|strategy| !strategy.entries().is_empty()) {
            let how = "`trusted_proxies` says from whom X-Forwarded-For is believed: set it to the proxies in front";
            self.doc.report.differs(place, format!("{label}: ipStrategy"), how);
        }
        "client_ip".to_owned()
    }

    fn rate(&mut self, config: &'n Node, place: &SourceLocation, label: &str) -> Option<String> {
        let fields = Fields::of(config);
        let average = fields.whole("average").unwrap_or(0);
        fields.skip(&["sourceCriterion"]);
        if average == 0 {
            self.doc.report.exact(place, label, "an average of 0 limits nothing; it was not written");
            return None;
        }
        let period = fields.text("period").and_then(duration).filter(|&ms| ms > 0).unwrap_or(1000);
        let rate = match period {
            1000 => format!("{average}/s"),
            60_000 => format!("{average}/min"),
            3_600_000 => format!("{average}/h"),
            // Hundredths of a request in an hour are precise enough for anyone.
            ms => format!("{:.2}/h", average as f64 * 3_600_000.0 / ms as f64),
        };
        let mut value: Map = vec![("algorithm".to_owned(), text("token_bucket"))];
        let key = self.criterion(config, "client_ip", place, label);
        if key.starts_with("header:") && key != "header:host" {
            value.push(("missing_key".to_owned(), text("shared")));
        }
        set(&mut value, "key", text(key));
        value.push(("rate".to_owned(), word(rate)));
        value.push(("burst".to_owned(), word(fields.whole("burst").unwrap_or(1).max(1))));
        if fields.get("redis").is_some() {
            let how = "counted by each Weir; `store: redis` and `redis` share counts";
            self.doc.report.differs(place, format!("{label}: redis"), how);
        }
        fields.name_rest(self.source, &mut self.doc.report, label);
        let how = "a token bucket; Traefik holds requests back for a moment before it refuses them, and counts whole IPv6 addresses";
        self.doc.report.differs(place, label, how);
        let wanted = label.trim_start_matches("middleware ").split(':').next().unwrap_or("rate").to_owned();
        Some(self.once(false, &wanted, place, label, value))
    }

    fn basic(&mut self, fields: &Fields<'n>, place: &SourceLocation, label: &str) -> String {
        let file = fields.text("usersFile");
        let users = fields.texts("users");
        if !users.is_empty() {
            let how = "no password is copied: write the lines into the file htpasswd (bcrypt or Argon2id), looked for where Weir is started";
            self.doc.report.left_out(place, format!("{label}: users"), how);
        }
        let mut inner: Map = vec![("file".to_owned(), text(file.unwrap_or("htpasswd")))];
        if let Some(field) = fields.text("headerField").filter(|name| is_token(name)) {
            inner.push(("headers".to_owned(), Value::Map(vec![(field.to_owned(), text("consumer"))])));
        }
        if let Some(realm) = fields.text("realm").filter(|realm| is_field_value(realm) && !realm.is_empty()) {
            inner.push(("realm".to_owned(), text(realm)));
        }
        let remove = fields.flag("removeHeader") == Some(true);
        inner.push(("forward".to_owned(), text(if remove { "none" } else { "token" })));
        self.doc.report.differs(place, label, "lines must be bcrypt or Argon2id: Weir refuses MD5 and SHA-1");
        self.once(true, "users", place, label, vec![("basic".to_owned(), Value::Map(inner))])
    }

    fn headers(&mut self, route: &mut Route, config: &'n Node, label: &str) {
        let fields = Fields::of(config);
        for (key, side) in [("customRequestHeaders", "request"), ("customResponseHeaders", "response")] {
            for (name, line, value) in fields.get(key).map(Node::entries).unwrap_or_default() {
                let place = self.source.at(*line);
                let what = format!("{label}: {key}.{name}");
                let value = value.text().unwrap_or_default();
                if name.eq_ignore_ascii_case("host") && side == "request" && !value.is_empty() {
                    route.set_in("rewrite", "host", text(value));
                    self.doc.report.exact(&place, what, "`rewrite.host`");
                } else if !is_token(name) || is_own_field(name) || !is_field_value(value) {
                    self.doc.report.left_out(&place, what, "Weir writes this field itself, or cannot");
                } else if value.is_empty() {
                    route.edit_header(side, "remove", name, text(""));
                    self.doc.report.exact(&place, what, "the field is removed");
                } else {
                    route.edit_header(side, "set", name, text(value));
                    self.doc.report.exact(&place, what, "the field is set");
                }
            }
        }
        let fixed = [
            ("frameDeny", "X-Frame-Options", "DENY"),
            ("contentTypeNosniff", "X-Content-Type-Options", "nosniff"),
            ("browserXssFilter", "X-XSS-Protection", "1; mode=block"),
        ];
        for (key, name, value) in fixed {
            if fields.flag(key) == Some(true) {
                route.edit_header("response", "set", name, text(value));
            }
        }
        let texts_of = [
            ("customFrameOptionsValue", "X-Frame-Options"),
            ("contentSecurityPolicy", "Content-Security-Policy"),
            ("referrerPolicy", "Referrer-Policy"),
            ("permissionsPolicy", "Permissions-Policy"),
        ];
        for (key, name) in texts_of {
            if let Some(value) = fields.text(key).filter(|value| is_field_value(value) && !value.is_empty()) {
                route.edit_header("response", "set", name, text(value));
            }
        }
        if let Some(seconds) = fields.whole("stsSeconds").filter(|&seconds| seconds > 0) {
            let mut value = format!("max-age={seconds}");
            if fields.flag("stsIncludeSubdomains") == Some(true) {
                value.push_str("; includeSubDomains");
            }
            if fields.flag("stsPreload") == Some(true) {
                value.push_str("; preload");
            }
            route.edit_header("response", "set", "Strict-Transport-Security", text(value));
            let place = self.place(config);
            self.doc.report.differs(
                &place,
                format!("{label}: stsSeconds"),
                "written over http too, where browsers pass it over",
            );
        }
        fields.skip(&["forceSTSHeader", "stsIncludeSubdomains", "stsPreload", "addVaryHeader"]);
        self.cors(route, &fields, config, label);
        fields.name_rest(self.source, &mut self.doc.report, label);
    }

    fn cors(&mut self, route: &mut Route, fields: &Fields<'n>, config: &'n Node, label: &str) {
        let origins = fields.texts("accessControlAllowOriginList");
        if origins.is_empty() {
            return;
        }
        let place = self.place(config);
        let any = origins.iter().any(|origin| origin == "*");
        let valid = |origin: &String| {
            origin == "*" || origin.split_once("://").is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'))
        };
        if !origins.iter().all(valid) {
            self.doc.report.left_out(
                &place,
                format!("{label}: accessControlAllowOriginList"),
                "origins are written as https://app.example.com, or `*`",
            );
            return;
        }
        let mut cors: Map = vec![(
            "origins".to_owned(),
            if any { texts(["*"]) } else { texts(origins.iter().map(|origin| origin.to_ascii_lowercase())) },
        )];
        let methods = fields.texts("accessControlAllowMethods");
        if !methods.is_empty() {
            cors.push(("methods".to_owned(), texts(methods)));
        }
        let headers: Vec<String> = fields
            .texts("accessControlAllowHeaders")
            .into_iter()
            .filter(|name| is_token(name) && name != "*")
            .collect();
        if !headers.is_empty() {
            cors.push(("headers".to_owned(), texts(headers)));
        }
        if let Some(seconds) = fields.whole("accessControlMaxAge") {
            cors.push(("max_age".to_owned(), word(format!("{seconds}s"))));
        }
        if fields.flag("accessControlAllowCredentials") == Some(true) {
            if any {
                self.doc.report.left_out(
                    &place,
                    format!("{label}: accessControlAllowCredentials"),
                    "not together with the origin `*`",
                );
            } else {
                cors.push(("credentials".to_owned(), word(true)));
            }
        }
        route.set("cors", Value::Map(cors));
        self.doc.report.exact(&place, format!("{label}: CORS"), "`cors` of the route");
    }
}
