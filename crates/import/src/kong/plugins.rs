//! Plugins.

use std::rc::Rc;

use super::Importer;
use crate::document::{
    Entry, Map, Route, Value, is_field_value, is_own_field, is_token, map, set, text, texts, time, word,
};
use crate::report::SourceLocation;
use crate::tree::{Fields, Node};
use crate::units;

/// Plugins that decide who may send requests and have no equivalent: their routes are closed.
const PROTECTIONS: [&str; 15] = [
    "oauth2",
    "oauth2-introspection",
    "openid-connect",
    "hmac-auth",
    "ldap-auth",
    "ldap-auth-advanced",
    "mtls-auth",
    "session",
    "acl",
    "opa",
    "key-auth-enc",
    "jwt-signer",
    "bot-detection",
    "vault-auth",
    "saml",
];

/// Plugins that only watch.
const WATCHING: [&str; 12] = [
    "prometheus",
    "file-log",
    "http-log",
    "tcp-log",
    "udp-log",
    "syslog",
    "loggly",
    "statsd",
    "datadog",
    "zipkin",
    "opentelemetry",
    "correlation-id",
];

impl<'n> Importer<'n> {
    /// What the plugins of a route make of it; `false` if it had to be closed.
    pub(super) fn apply(&mut self, route: &mut Route, plugins: &[Rc<Node>], has_service: bool) -> bool {
        let mut authenticators = Vec::new();
        let mut limits = Vec::new();
        let mut responded = has_service;
        let mut cache = None;
        for plugin in plugins {
            let place = self.place(plugin);
            let name = plugin.get("name").and_then(Node::text).unwrap_or_default().to_owned();
            let label = format!("plugin {name}");
            let empty = Rc::new(Node::clone(plugin));
            let config = plugin.get("config").unwrap_or(&empty);
            let done = match name.as_str() {
                "key-auth" => self.key_auth(config, &place).map(|name| authenticators.push(name)),
                "jwt" => self.jwt(config, &place).map(|name| authenticators.push(name)),
                "basic-auth" => self.basic(config, &place).map(|name| authenticators.push(name)),
                "ip-restriction" => self.addresses(route, config, &place),
                "rate-limiting" => self.rate_limiting(config, &place, plugins).map(|names| limits.extend(names)),
                "cors" => {
                    self.cors(route, config, &place);
                    Ok(())
                }
                "proxy-cache" => {
                    cache = Some((self.cache(config, &place), place.clone()));
                    Ok(())
                }
                "request-termination" => {
                    self.termination(route, config, &place);
                    responded = true;
                    Ok(())
                }
                "request-size-limiting" => {
                    self.size(route, config, &place);
                    Ok(())
                }
                "request-transformer" | "response-transformer" => {
                    self.transformer(route, config, &place, &name);
                    Ok(())
                }
                "correlation-id" => Ok(()),
                other if WATCHING.contains(&other) => {
                    self.doc.report.differs(
                        &place,
                        label.clone(),
                        "Weir has metrics on its admin listener and `access_log`",
                    );
                    Ok(())
                }
                other if PROTECTIONS.contains(&other) => Err("has no equivalent".to_owned()),
                _ => {
                    self.doc.report.left_out(&place, label.clone(), "has no equivalent");
                    Ok(())
                }
            };
            if let Err(why) = done {
                route.close();
                let how = format!("{why}; the route responds with 501, so that nothing is served without it");
                self.doc.report.left_out(&place, format!("{label} ({})", route.note), how);
                return false;
            }
        }
        if !responded {
            let how = "it has no service, and no plugin that sends a response and has an equivalent; the route responds with 501";
            self.doc.report.left_out(&route.place, route.note.clone(), how);
            return false;
        }
        if !authenticators.is_empty() {
            // Kong requests all plugins of a route.
            let value = if authenticators.len() == 1 {
                texts(authenticators)
            } else {
                Value::List(vec![texts(authenticators)])
            };
            route.set("auth", value);
        }
        if !limits.is_empty() {
            route.set("limits", texts(limits));
        }
        if let Some((name, place)) = cache {
            if route.keys.iter().any(|(key, _)| key == "auth") {
                let how = "a route with `auth` has a cache only with `partition_by: [consumer]` or `shared: true`, which is yours to choose: it serves without one";
                self.doc.report.left_out(&place, format!("plugin proxy-cache ({})", route.note), how);
            } else if route.keys.iter().any(|(key, _)| key == "upstream") {
                route.set("cache", text(name));
            }
        }
        true
    }

    /// The authenticator, limit or cache for a plugin that says this, once.
    fn once(&mut self, section: &str, wanted: &str, place: &SourceLocation, note: &str, value: Map) -> String {
        let key = format!("{section} {value:?}");
        if let Some(name) = self.made.get(&key) {
            return name.clone();
        }
        let name = self.doc.name(section, wanted);
        self.made.insert(key, name.clone());
        let entry = Entry { name: name.clone(), place: place.clone(), note: note.to_owned(), value };
        match section {
            "auth" => self.doc.auth.push(entry),
            "limits" => self.doc.limits.push(entry),
            _ => self.doc.caches.push(entry),
        }
        name
    }

    fn key_auth(&mut self, config: &Node, place: &SourceLocation) -> Result<String, String> {
        if config.get("anonymous").is_some() {
            return Err("requests without a key pass as a consumer (`anonymous`), which has no equivalent".to_owned());
        }
        let names = config
            .get("key_names")
            .map(Node::texts)
            .filter(|names| !names.is_empty())
            .unwrap_or_else(|| vec!["apikey".to_owned()]);
        if config.get("key_in_header").and_then(Node::flag) == Some(false) {
            return Err("keys outside of header fields have no equivalent".to_owned());
        }
        if config.get("key_in_query").and_then(Node::flag) != Some(false)
            || config.get("key_in_body").and_then(Node::flag) == Some(true)
        {
            self.doc.report.differs(
                place,
                "plugin key-auth: key_in_query, key_in_body",
                "keys are taken from header fields only",
            );
        }
        let places: Vec<String> = names
            .iter()
            .filter(|name| is_token(name))
            .map(|name| format!("header:{}", name.to_ascii_lowercase()))
            .collect();
        let forward = if config.get("hide_credentials").and_then(Node::flag) == Some(true) { "none" } else { "token" };
        let value = vec![(
            "api_key".to_owned(),
            map([
                ("in", texts(places)),
                ("store", map([("file", text("keys.yaml"))])),
                ("headers", map([("X-Consumer-Username", text("consumer"))])),
                ("forward", text(forward)),
            ]),
        )];
        for consumer in self.consumers.clone() {
            let name = consumer
                .get("username")
                .or_else(|| consumer.get("custom_id"))
                .and_then(Node::text)
                .unwrap_or("a consumer");
            for key in consumer.get("keyauth_credentials").map(Node::items).unwrap_or_default() {
                let place = self.place(key);
                let how = format!(
                    "no key is copied: `weir keys create {name} --file keys.yaml` makes one, or import it there"
                );
                self.doc.report.left_out(&place, format!("key of consumer {name}"), how);
            }
        }
        self.doc.report.differs(place, "plugin key-auth", "`auth` with keys in keys.yaml, looked for where Weir is started; X-Consumer-Id and X-Credential-Identifier are not written");
        Ok(self.once("auth", "keys", place, "plugin key-auth", value))
    }

    fn jwt(&mut self, config: &Node, place: &SourceLocation) -> Result<String, String> {
        if config.get("anonymous").is_some() {
            return Err("requests without a token pass as a consumer (`anonymous`), which has no equivalent".to_owned());
        }
        if config.get("key_claim_name").and_then(Node::text).is_some_and(|claim| claim != "iss") {
            return Err("an issuer that is not named by `iss` has no equivalent".to_owned());
        }
        let secrets: Vec<&Node> = self
            .consumers
            .iter()
            .flat_map(|consumer| consumer.get("jwt_secrets").map(Node::items).unwrap_or_default())
            .map(AsRef::as_ref)
            .collect();
        let [secret] = secrets.as_slice() else {
            return Err(format!(
                "{} consumers have a secret or key for tokens, and a route of Weir takes those of one issuer",
                secrets.len()
            ));
        };
        let algorithm = secret.get("algorithm").and_then(Node::text).unwrap_or("HS256");
        let least = match algorithm {
            "HS256" => 32,
            "HS384" => 48,
            "HS512" => 64,
            _ => {
                return Err(format!(
                    "{algorithm} needs a JSON Web Key Set: write the key of the consumer as one and name it under `jwks.file`"
                ));
            }
        };
        let issuer =
            secret.get("key").and_then(Node::text).ok_or("the consumer's secret has no `key`, which is the issuer")?;
        let value = secret.get("secret").and_then(Node::text).ok_or("the consumer's secret is not written down")?;
        if config.get("secret_is_base64").and_then(Node::flag) == Some(true) {
            return Err("a secret in base64 has no equivalent".to_owned());
        }
        if value.len() < least || !is_field_value(value) {
            return Err(format!("Weir takes a secret for {algorithm} of {least} printable bytes and more"));
        }
        let jwt = map([
            ("issuer", text(issuer)),
            ("audience", word("any")),
            ("secret", text(value)),
            ("algorithms", texts([algorithm])),
            ("forward", text("token")),
        ]);
        let place_of_secret = self.place(secret);
        self.doc.report.differs(
            &place_of_secret,
            "secret of a consumer",
            "it is copied; `${VAR}` in its place keeps it out of the file",
        );
        self.doc.report.differs(place, "plugin jwt", "`exp` has to be there and is checked; tokens are taken from `Authorization: Bearer` only; the consumer is `sub`");
        Ok(self.once("auth", "tokens", place, "plugin jwt", vec![("jwt".to_owned(), jwt)]))
    }

    fn basic(&mut self, config: &Node, place: &SourceLocation) -> Result<String, String> {
        if config.get("anonymous").is_some() {
            return Err(
                "requests without a password pass as a consumer (`anonymous`), which has no equivalent".to_owned()
            );
        }
        let forward = if config.get("hide_credentials").and_then(Node::flag) == Some(true) { "none" } else { "token" };
        let inner = map([
            ("file", text("htpasswd")),
            ("headers", map([("X-Consumer-Username", text("consumer"))])),
            ("forward", text(forward)),
        ]);
        for consumer in self.consumers.clone() {
            for credential in consumer.get("basicauth_credentials").map(Node::items).unwrap_or_default() {
                let place = self.place(credential);
                let name = credential.get("username").and_then(Node::text).unwrap_or("a user");
                let how = format!("no password is copied: `htpasswd -B htpasswd {name}` writes one");
                self.doc.report.left_out(&place, format!("password of {name}"), how);
            }
        }
        self.doc.report.differs(
            place,
            "plugin basic-auth",
            "`auth` with passwords in htpasswd, looked for where Weir is started",
        );
        Ok(self.once("auth", "users", place, "plugin basic-auth", vec![("basic".to_owned(), inner)]))
    }

    fn addresses(&mut self, route: &mut Route, config: &Node, place: &SourceLocation) -> Result<(), String> {
        let mut allow = Map::new();
        for (key, own) in [("allow", "ips"), ("deny", "not_ips")] {
            let mut networks = Vec::new();
            for network in config.get(key).map(Node::texts).unwrap_or_default() {
                let parsed: Result<ipnet::IpNet, _> =
                    network.parse().or_else(|_| network.parse::<std::net::IpAddr>().map(ipnet::IpNet::from));
                networks.push(parsed.map_err(|_| format!("`{network}` is not a network"))?.trunc().to_string());
            }
            if !networks.is_empty() {
                allow.push((own.to_owned(), texts(networks)));
            }
        }
        if !allow.is_empty() {
            route.set("allow", Value::Map(allow));
        }
        if config.get("status").and_then(Node::whole).is_some_and(|status| status != 403)
            || config.get("message").is_some()
        {
            self.doc.report.differs(
                place,
                "plugin ip-restriction: status, message",
                "Weir responds with 403 with a problem document",
            );
        }
        self.doc.report.exact(place, "plugin ip-restriction", "`allow` of the route");
        Ok(())
    }

    fn rate_limiting(
        &mut self,
        config: &Node,
        place: &SourceLocation,
        plugins: &[Rc<Node>],
    ) -> Result<Vec<String>, String> {
        const AUTH: [&str; 3] = ["key-auth", "jwt", "basic-auth"];
        let fields = Fields::of(config);
        fields.skip(&["hide_client_headers", "sync_rate", "policy", "redis", "fault_tolerant"]);
        let known = plugins
            .iter()
            .any(|plugin| plugin.get("name").and_then(Node::text).is_some_and(|name| AUTH.contains(&name)));
        let key = match (fields.text("limit_by").unwrap_or("consumer"), fields.text("header_name")) {
            ("consumer" | "credential", _) if known => "consumer".to_owned(),
            ("consumer" | "credential" | "ip", _) => "client_ip".to_owned(),
            ("service", _) => "global".to_owned(),
            ("header", Some(name)) if is_token(name) => format!("header:{}", name.to_ascii_lowercase()),
            (other, _) => {
                let how = "Weir counts by consumer, client_ip, header, query, route or all together";
                self.doc.report.left_out(place, format!("plugin rate-limiting by {other}"), how);
                return Ok(Vec::new());
            }
        };
        let policy = config.get("policy").and_then(Node::text).unwrap_or("local");
        let redis = config.get("redis").unwrap_or(config);
        let host = redis.get("host").or_else(|| redis.get("redis_host")).and_then(Node::text);
        let store = match (policy, host) {
            ("redis", Some(host)) => {
                let port = redis.get("port").or_else(|| redis.get("redis_port")).and_then(Node::whole).unwrap_or(6379);
                let database =
                    redis.get("database").or_else(|| redis.get("redis_database")).and_then(Node::whole).unwrap_or(0);
                set(&mut self.doc.top, "redis", map([("url", text(format!("redis://{host}:{port}/{database}")))]));
                if redis.get("password").or_else(|| redis.get("redis_password")).is_some() {
                    self.doc.report.left_out(
                        place,
                        "password of Redis",
                        "no password is copied: write it into `redis.url`, or `${VAR}`",
                    );
                }
                "redis"
            }
            ("cluster", _) => {
                self.doc.report.differs(
                    place,
                    "plugin rate-limiting: policy cluster",
                    "counted by each Weir; `store: redis` shares counts",
                );
                "memory"
            }
            _ => "memory",
        };
        let status = fields.whole("error_code").filter(|code| (400..600).contains(code)).unwrap_or(429);
        let mut refusal: Map = vec![("status".to_owned(), word(status))];
        if let Some(message) = fields.text("error_message").filter(|message| *message != "API rate limit exceeded") {
            refusal.push(("body".to_owned(), text(message)));
        }
        let mut names = Vec::new();
        for (unit, seconds) in [
            ("second", 1),
            ("minute", 60),
            ("hour", 3600),
            ("day", 86_400),
            ("month", 30 * 86_400),
            ("year", 365 * 86_400),
        ] {
            let Some(quota) = fields.whole(unit) else { continue };
            let mut value: Map = vec![
                ("algorithm".to_owned(), text("fixed_window")),
                ("key".to_owned(), text(&key)),
                ("quota".to_owned(), word(quota)),
                ("window".to_owned(), word(units::duration(seconds * 1000))),
                ("aligned".to_owned(), word(true)),
            ];
            if store == "redis" {
                value.push(("store".to_owned(), text("redis")));
                let open = config.get("fault_tolerant").and_then(Node::flag) != Some(false);
                value.push(("on_store_failure".to_owned(), text(if open { "open" } else { "closed" })));
            }
            value.push(("on_limit".to_owned(), Value::Map(refusal.clone())));
            if seconds > 86_400 {
                self.doc.report.differs(
                    place,
                    format!("plugin rate-limiting: {unit}"),
                    "a window of 30 or 365 days, not one of the calendar",
                );
            }
            names.push(self.once("limits", &format!("per-{unit}"), place, "plugin rate-limiting", value));
        }
        fields.name_rest(self.source, &mut self.doc.report, "plugin rate-limiting");
        self.doc.report.differs(
            place,
            "plugin rate-limiting",
            "windows begin at the same moments (`aligned`); one count for all routes that share the plugin's numbers; IPv6 clients count by /64; header fields are RateLimit and RateLimit-Policy",
        );
        Ok(names)
    }

    fn cors(&mut self, route: &mut Route, config: &Node, place: &SourceLocation) {
        let fields = Fields::of(config);
        let mut origins: Vec<String> = Vec::new();
        for origin in fields.get("origins").map(Node::texts).unwrap_or_else(|| vec!["*".to_owned()]) {
            let plain = |c: char| c.is_ascii_alphanumeric() || ":/.-[]_".contains(c);
            let valid = origin.split_once("://").is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'))
                && origin.chars().all(plain);
            if origin == "*" || valid {
                origins.push(origin.to_ascii_lowercase());
            } else {
                self.doc.report.left_out(
                    place,
                    format!("plugin cors: origin {origin}"),
                    "origins are written out, or `*`",
                );
            }
        }
        if origins.iter().any(|origin| origin == "*") {
            origins = vec!["*".to_owned()];
        }
        if origins.is_empty() {
            return;
        }
        let credentials = fields.flag("credentials") == Some(true);
        let any = origins == ["*"];
        let mut cors: Map = vec![("origins".to_owned(), texts(origins))];
        let methods: Vec<String> = fields.texts("methods");
        if !methods.is_empty() {
            cors.push(("methods".to_owned(), texts(methods)));
        }
        let headers: Vec<String> =
            fields.texts("headers").into_iter().filter(|name| is_token(name) && name != "*").collect();
        if !headers.is_empty() {
            cors.push(("headers".to_owned(), texts(headers)));
        }
        if let Some(seconds) = fields.whole("max_age") {
            cors.push(("max_age".to_owned(), word(format!("{seconds}s"))));
        }
        if credentials && any {
            self.doc.report.left_out(
                place,
                "plugin cors: credentials",
                "not together with the origin `*`: any page could act for the user",
            );
        } else if credentials {
            cors.push(("credentials".to_owned(), word(true)));
        }
        if fields.flag("preflight_continue") == Some(true) {
            self.doc.report.left_out(
                place,
                "plugin cors: preflight_continue",
                "Weir responds to preflight requests itself",
            );
        }
        fields.skip(&["private_network", "allow_origin_absent"]);
        fields.name_rest(self.source, &mut self.doc.report, "plugin cors");
        route.set("cors", Value::Map(cors));
        self.doc.report.exact(place, "plugin cors", "`cors` of the route");
    }

    fn cache(&mut self, config: &Node, place: &SourceLocation) -> String {
        let fields = Fields::of(config);
        let seconds = fields.whole("cache_ttl").unwrap_or(300).clamp(1, 31_536_000);
        let http = fields.flag("cache_control") == Some(true);
        fields.skip(&["strategy", "memory", "request_method", "response_code", "content_type", "storage_ttl"]);
        let value = vec![
            ("mode".to_owned(), text(if http { "http" } else { "ttl" })),
            (if http { "default_ttl" } else { "ttl" }.to_owned(), time(seconds * 1000)),
        ];
        let how = "responses to GET and HEAD with 200 are stored, whatever their media type, unless they say no-store, private or Set-Cookie; requests with Authorization or Cookie bypass the cache";
        self.doc.report.differs(place, "plugin proxy-cache", how);
        fields.name_rest(self.source, &mut self.doc.report, "plugin proxy-cache");
        self.once("caches", "responses", place, "plugin proxy-cache", value)
    }

    fn termination(&mut self, route: &mut Route, config: &Node, place: &SourceLocation) {
        let status =
            config.get("status_code").and_then(Node::whole).filter(|status| (200..600).contains(status)).unwrap_or(503);
        let mut respond: Map = vec![("status".to_owned(), word(status))];
        if let Some(body) = config.get("body").and_then(Node::text) {
            let media = config.get("content_type").and_then(Node::text).unwrap_or("application/json; charset=utf-8");
            respond.push(("content_type".to_owned(), text(media)));
            respond.push(("body".to_owned(), text(body)));
        } else if let Some(message) = config.get("message").and_then(Node::text) {
            respond.push(("content_type".to_owned(), text("application/json; charset=utf-8")));
            respond.push(("body".to_owned(), text(serde_json::json!({ "message": message }).to_string())));
        }
        if matches!(status, 204 | 205 | 304) {
            respond.truncate(1);
        }
        route.keys.retain(|(key, _)| matches!(key.as_str(), "headers" | "cors" | "allow"));
        route.set("respond", Value::Map(respond));
        self.doc.report.exact(place, "plugin request-termination", "a fixed response");
    }

    fn size(&mut self, route: &mut Route, config: &Node, place: &SourceLocation) {
        let number = config.get("allowed_payload_size").and_then(Node::whole).unwrap_or(128).min(1 << 20);
        let size = match config.get("size_unit").and_then(Node::text).unwrap_or("megabytes") {
            "bytes" => units::size(number),
            "kilobytes" => format!("{number}KB"),
            _ => format!("{number}MB"),
        };
        route.set("body", word(size));
        self.doc.report.exact(place, "plugin request-size-limiting", "`body` of the route");
    }

    fn transformer(&mut self, route: &mut Route, config: &Node, place: &SourceLocation, name: &str) {
        let side = if name.starts_with("request") { "request" } else { "response" };
        for (edit, _, what) in config.entries() {
            if what.is_null() || (what.entries().is_empty() && what.text().is_none()) {
                continue;
            }
            for (key, line, values) in what.entries() {
                let label = format!("plugin {name}: {edit}.{key}");
                let line = self.source.at(*line);
                if values.texts().is_empty() {
                    continue;
                }
                if key != "headers" {
                    self.doc.report.left_out(&line, label, "only header fields are edited");
                    continue;
                }
                for field in values.texts() {
                    let (field_name, value) = field.split_once(':').unwrap_or((&field, ""));
                    let fits = is_token(field_name)
                        && is_field_value(value.trim())
                        && !is_own_field(field_name)
                        && !value.contains("$(");
                    let own = match edit.as_str() {
                        "remove" => "remove",
                        "replace" | "add" => "set",
                        "append" => "add",
                        _ => "",
                    };
                    if !fits || own.is_empty() {
                        self.doc.report.left_out(&line, format!("{label} {field}"), "has no equivalent");
                        continue;
                    }
                    route.edit_header(side, own, field_name, text(value.trim()));
                    match edit.as_str() {
                        "add" => self.doc.report.differs(
                            &line,
                            label.clone(),
                            "Kong adds a field that is not there; Weir sets it in any case",
                        ),
                        "replace" => self.doc.report.differs(
                            &line,
                            label.clone(),
                            "Kong replaces a field that is there; Weir sets it in any case",
                        ),
                        _ => self.doc.report.exact(place, label.clone(), "`headers` of the route"),
                    }
                }
            }
        }
    }
}
