//! What a location does: `return`, `rewrite`, `proxy_pass`.

use super::authorize::is_from_service;
use super::http::Importer;
use super::parse::Directive;
use super::settings::Settings;
use super::upstream::Origin;
use super::values;
use crate::document::{self, Map, Route, Value, is_field_value, is_own_field, is_token, map, text, texts, time, word};
use crate::pattern::{Path, encode};
use crate::report::SourceLocation;
use crate::template::{self, Anchor};
use crate::variables;

/// A `rewrite` that exchanges the beginning of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rewrite {
    /// Without the slash at its end.
    pub(crate) from: String,
    /// Without the slash at its end; or the whole path.
    pub(crate) to: String,
    /// Everything below `from`, which keeps its rest; otherwise `from` alone becomes `to`.
    pub(crate) below: bool,
}

/// `^/api/(.*)$` and `/v1/$1`.
pub(crate) fn prefix_rewrite(pattern: &str, replacement: &str) -> Option<Rewrite> {
    let body = pattern.strip_prefix('^')?;
    let body = body.strip_suffix('$').unwrap_or(body);
    let (from, slash_in_capture) = if let Some(from) = body.strip_suffix("(/.*)") {
        (from, true)
    } else if let Some(from) = ["/?(.*)", "/(.*)", "/(.+)"].iter().find_map(|end| body.strip_suffix(end)) {
        (from, false)
    } else {
        let whole = pattern.ends_with('$') && !replacement.contains('$');
        let from = plain(body).filter(|_| whole)?;
        return Some(Rewrite { from, to: replacement.to_owned(), below: false });
    };
    let from = if from.is_empty() { String::new() } else { plain(from)? };
    let to = replacement.strip_suffix("$1")?;
    let to = match (slash_in_capture, to.strip_suffix('/')) {
        (true, _) => to,
        (false, Some(to)) => to,
        (false, None) => return None,
    };
    if to.contains('$') { None } else { Some(Rewrite { from, to: to.to_owned(), below: true }) }
}

/// A literal in a regular expression: no character that means something else but an escaped one.
fn plain(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| !c.is_ascii_alphanumeric())?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => return None,
            c => out.push(c),
        }
    }
    out.starts_with('/').then(|| out.trim_end_matches('/').to_owned()).filter(|out| !out.is_empty())
}

/// What a path of a location is to its prefix, for the exchange of prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// `= /x`, or `/x` itself of the location `/x`.
    Whole,
    /// Everything below.
    Below,
    /// A template.
    Template,
}

impl<'d> Importer<'d> {
    /// `return`: a response or a redirect. In words, why not.
    pub(super) fn returns(
        &mut self,
        route: &mut Route,
        directive: &Directive,
        settings: &Settings<'d>,
    ) -> Result<(), String> {
        let first = directive.arg(0);
        let (status, target) = match first.parse::<u16>() {
            Ok(status) => (status, directive.args.get(1).map(String::as_str)),
            Err(_) => (302, Some(first)),
        };
        match (status, target) {
            (301 | 302 | 303 | 307 | 308, Some(to)) => {
                let query = to.contains('?') || to.ends_with("$request_uri") || to.ends_with("$is_args$args");
                let to = self.location(to, route)?;
                route.set("redirect", map([("to", text(to)), ("status", word(status))]));
                if query {
                    self.doc.report.exact(&directive.place, directive.shown(), "a redirect");
                } else {
                    self.doc.report.differs(
                        &directive.place,
                        directive.shown(),
                        "Weir keeps the query of the request, nginx drops it",
                    );
                }
            }
            (444, _) => {
                route.set("respond", map([("status", word(400))]));
                self.doc.report.differs(
                    &directive.place,
                    directive.shown(),
                    "nginx closes the connection; Weir responds with 400",
                );
            }
            (200..=599, body) => {
                let mut respond: Map = vec![("status".to_owned(), word(status))];
                if let Some(body) = body.filter(|body| !body.is_empty() && !matches!(status, 204 | 205 | 304)) {
                    if has_variable(body) {
                        return Err("a body with variables has no equivalent".to_owned());
                    }
                    let media = settings.word("default_type").unwrap_or("text/plain");
                    respond.push(("content_type".to_owned(), text(media)));
                    respond.push(("body".to_owned(), text(body)));
                    self.doc.report.exact(&directive.place, directive.shown(), "a fixed response");
                } else {
                    let how = "without a body: nginx sends a page of HTML for an error";
                    self.doc.report.add(
                        if status < 300 { crate::report::Kind::Exact } else { crate::report::Kind::Differs },
                        &directive.place,
                        directive.shown(),
                        if status < 300 { "a fixed response" } else { how },
                    );
                }
                route.set("respond", crate::document::Value::Map(respond));
            }
            _ => return Err(format!("a response with the status {status} has no equivalent")),
        }
        Ok(())
    }

    /// Where a redirect goes, as `redirect.to` says it for this route.
    fn location(&mut self, to: &str, route: &Route) -> Result<String, String> {
        let to = to.replace("${", "$").replace('}', "");
        let host = route.host.clone().filter(|host| !host.starts_with('*'));
        let mut to = to;
        for variable in ["$host", "$http_host", "$server_name"] {
            if to.contains(variable) {
                let host = host.as_deref().or(self.server_name.as_deref().filter(|_| variable == "$server_name"));
                let host = host.ok_or("a redirect to whatever host was requested has no equivalent; name the host")?;
                to = to.replace(variable, host);
            }
        }
        let scheme = to.replace("$scheme://", "http://");
        if scheme != to {
            return Err("a redirect to whatever scheme was used has no equivalent; name the scheme".to_owned());
        }
        if let Some(base) = to.strip_suffix("$request_uri") {
            return match (route.path.wildcard, route.path.has_param()) {
                // The rest of the path follows what the pattern begins with.
                (true, false) => Ok(format!("{base}{}", route.path)),
                (false, false) if route.path.is_exact() => Ok(format!("{base}{}", route.path)),
                _ => Err("`$request_uri` behind a pattern with parameters has no equivalent".to_owned()),
            };
        }
        let to = to.strip_suffix("$is_args$args").map(str::to_owned).unwrap_or(to);
        if has_variable(&to) {
            return Err("a target with variables has no equivalent".to_owned());
        }
        if to.ends_with('*') || !(to.starts_with('/') || to.starts_with("http://") || to.starts_with("https://")) {
            return Err(format!("`{to}` is not a path or URL that Weir redirects to"));
        }
        Ok(to)
    }

    /// A `rewrite ... permanent|redirect` as a route of its own. In words, why not.
    pub(super) fn rewrite_redirect(&mut self, directive: &Directive) -> Result<Vec<Route>, String> {
        let status = match directive.arg(2) {
            "permanent" => 301,
            "redirect" => 302,
            _ if directive.arg(1).starts_with("http://") || directive.arg(1).starts_with("https://") => 302,
            _ => return Err("a rewrite to another location has no equivalent".to_owned()),
        };
        let rewrite = prefix_rewrite(directive.arg(0), directive.arg(1))
            .ok_or("only `^/prefix/(.*)$ /other/$1` and fixed paths have an equivalent")?;
        // A `?` at the end drops the query.
        if rewrite.to.ends_with('?') {
            return Err("a redirect that drops the query has no equivalent".to_owned());
        }
        let to = rewrite.to.clone();
        let route = |path: Path, to: String| {
            let mut route = Route::new(&directive.place, directive.shown(), path);
            route.set("redirect", map([("to", text(to)), ("status", word(status))]));
            route
        };
        let paths = if rewrite.below {
            vec![route(Path::below(&format!("{}/", rewrite.from))?, format!("{to}/*"))]
        } else {
            vec![route(Path::exact(&rewrite.from)?, to)]
        };
        self.doc.report.exact(&directive.place, directive.shown(), "a redirect");
        Ok(paths)
    }

    /// `proxy_pass` with everything that belongs to it. In words, why not.
    pub(super) fn proxy(
        &mut self,
        route: &mut Route,
        part: Part,
        location: &str,
        directive: &'d Directive,
        rewrites: &[&'d Directive],
        settings: &Settings<'d>,
    ) -> Result<(), String> {
        let url = self.substitute(directive.arg(0));
        let split = self.split_of(&url)?;
        let (origin, uri) = match &split {
            Some(split) => split.first()?,
            None => target(&url)?,
        };
        if rewrites.is_empty() {
            if let Some(uri) = &uri {
                self.exchange_prefix(route, part, location, uri, directive)?;
            }
        } else {
            if uri.is_some() {
                return Err("a rewrite beside a path in `proxy_pass` has no equivalent".to_owned());
            }
            self.rewrites(route, part, location, rewrites)?;
        }
        if let Some(split) = split {
            self.write_split(route, &split, settings, directive)?;
        } else {
            let made = self.upstream(&origin, settings, &directive.place)?;
            route.set("upstream", text(made.name));
            if let Some(backup) = made.backup {
                route.set("fallback", texts([backup]));
            }
        }
        self.request_fields(route, &origin, settings);
        Self::timeouts(route, settings);
        self.response_fields(route, settings);
        self.compression(route, settings);
        Ok(())
    }

    /// `gzip` and `brotli`.
    fn compression(&mut self, route: &mut Route, settings: &Settings<'d>) {
        // What nginx takes where the file says nothing: the shortest body, the level.
        const DEFAULTS: [(&str, &str, u64, u64); 2] = [("br", "brotli", 20, 6), ("gzip", "gzip", 20, 1)];
        let on: Vec<_> = DEFAULTS.iter().filter(|(_, name, ..)| settings.is_on(name)).collect();
        let Some((_, first, min, _)) = on.last() else { return };
        let codings: Vec<&str> = on.iter().map(|(coding, ..)| *coding).collect();
        let number = |name: &str, key: &str| settings.word(&format!("{name}_{key}")).and_then(values::size);
        let levels: Vec<(&str, u64)> =
            on.iter().map(|(coding, name, _, level)| (*coding, number(name, "comp_level").unwrap_or(*level))).collect();
        // text/html always is; `*` stands for every type, which Weir's own list comes nearest to.
        let more = settings.one(&format!("{first}_types"));
        let named: Vec<&String> = more.map(|more| more.args.iter().collect()).unwrap_or_default();
        let mut types: Vec<String> = Vec::new();
        if !named.iter().any(|name| name.as_str() == "*") {
            types.push("text/html".to_owned());
            for name in named.into_iter().filter(|name| document::is_media_type(name)) {
                if !types.contains(name) {
                    types.push(name.clone());
                }
            }
        }
        let min = number(first, "min_length").unwrap_or(*min);
        route.set("compress", document::compression(&codings, min, &types, &levels));
        for (_, name, ..) in on {
            if let Some(directive) = settings.one(name) {
                let how = "`compress`; responses with `Set-Cookie` stay as they are, and those to other proxies are compressed too";
                self.doc.report.differs(&directive.place, directive.shown(), how);
            }
        }
    }

    /// The path in `proxy_pass` takes the place of the location's prefix.
    fn exchange_prefix(
        &mut self,
        route: &mut Route,
        part: Part,
        location: &str,
        uri: &str,
        directive: &Directive,
    ) -> Result<(), String> {
        if has_variable(uri) {
            // `^/api/(.*)$` with `/v1/$1`.
            let args = uri.strip_suffix("$is_args$args").unwrap_or(uri);
            let rewrite = prefix_rewrite(location, args).filter(|rewrite| rewrite.below && route.path.wildcard);
            let rewrite = rewrite.ok_or_else(|| format!("a path with variables (`{uri}`) has no equivalent"))?;
            route.set_in("rewrite", "prefix", text(slash(&encode(&rewrite.to)?)));
            return Ok(());
        }
        match part {
            Part::Template => return Err("a fixed path behind a regular expression has no equivalent".to_owned()),
            Part::Whole => {
                route.set_in("rewrite", "path", text(encode(uri)?));
            }
            Part::Below => {
                let (at_end, uri_at_end) = (location.ends_with('/'), uri.ends_with('/'));
                if at_end && !uri_at_end {
                    return Err(format!(
                        "`{location}x` would become `{uri}x`: the slash at the end of one is missing, which Weir cannot write"
                    ));
                }
                if !at_end && uri_at_end {
                    let how = format!("nginx sends `{location}/x` as `{uri}/x`, with two slashes; Weir sends one");
                    self.doc.report.differs(&directive.place, directive.shown(), how);
                }
                // `/` with `/` changes nothing.
                if uri.trim_end_matches('/') != location.trim_end_matches('/') {
                    route.set_in("rewrite", "prefix", text(slash(&encode(uri.trim_end_matches('/'))?)));
                }
            }
        }
        Ok(())
    }

    fn rewrites(
        &mut self,
        route: &mut Route,
        part: Part,
        location: &str,
        rewrites: &[&'d Directive],
    ) -> Result<(), String> {
        let [one] = rewrites else { return Err("more than one rewrite has no equivalent".to_owned()) };
        if !matches!(one.arg(2), "break" | "last" | "") {
            return Err(format!("`{}` beside a target has no equivalent", one.shown()));
        }
        if one.arg(2) != "break" {
            return Err(format!("`{}`: a rewrite that looks for another location has no equivalent", one.shown()));
        }
        let wrong = || format!("`{}`: only the exchange of the location's own prefix has an equivalent", one.shown());
        let rewrite = prefix_rewrite(one.arg(0), one.arg(1)).ok_or_else(wrong)?;
        let trimmed = location.trim_end_matches('/');
        match part {
            Part::Below if rewrite.below && rewrite.from == trimmed => {
                route.set_in("rewrite", "prefix", text(slash(&encode(&rewrite.to)?)));
            }
            // `/api` itself is not what `^/api/(.*)` matches: it stays.
            Part::Whole if rewrite.below && rewrite.from == trimmed => {}
            Part::Whole if !rewrite.below && rewrite.from == location => {
                route.set_in("rewrite", "path", text(encode(&rewrite.to)?));
            }
            Part::Template => {
                let same = template::read(one.arg(0), Anchor::None, true)
                    .is_ok_and(|t| t.paths.iter().any(|path| path.same(&route.path)));
                if !(same && rewrite.below && route.path.wildcard) {
                    return Err(wrong());
                }
                route.set_in("rewrite", "prefix", text(slash(&encode(&rewrite.to)?)));
            }
            _ => return Err(wrong()),
        }
        self.doc.report.exact(&one.place, one.shown(), "`rewrite` of the route");
        Ok(())
    }

    /// `proxy_set_header`: what the upstream sees.
    fn request_fields(&mut self, route: &mut Route, origin: &Origin, settings: &Settings<'d>) {
        let mut host = None;
        let mut upgrade = false;
        for directive in settings.all("proxy_set_header") {
            let value = self.substitute(directive.arg(1));
            let (name, value) = (directive.arg(0), value.as_str());
            let (place, shown) = (&directive.place, directive.shown());
            let lower = name.to_ascii_lowercase();
            match (lower.as_str(), value) {
                ("host", value) => host = Some((directive, value.to_owned())),
                ("upgrade", _) => upgrade = true,
                ("connection", value)
                    if value.is_empty() || value == "$connection_upgrade" || value.eq_ignore_ascii_case("upgrade") => {}
                ("connection", value) if value.contains("upgrade") || self.maps_to_upgrade(value) => {}
                ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
                | ("x-forwarded-proto", "$scheme")
                | ("x-forwarded-host", "$host" | "$http_host") => {
                    self.doc.report.exact(place, shown, "Weir writes it by itself");
                }
                ("x-request-id", "$request_id") => {
                    self.doc.report.exact(place, shown, "Weir's request id, under the same name");
                }
                ("accept-encoding", "") => {
                    route.edit_header("request", "remove", name, text(""));
                    self.doc.report.exact(place, shown, "the field is removed");
                }
                (own, _) if is_own_field(own) => {
                    self.doc.report.left_out(place, shown, "Weir writes this field from what it knows, or not at all");
                }
                (_, "") => route.edit_header("request", "remove", name, text("")),
                (_, value) if value == format!("$http_{}", lower.replace('-', "_")) => {
                    self.doc.report.exact(place, shown, "fields of the client pass");
                }
                (_, value) if is_from_service(settings, name, value) => {
                    self.doc.report.exact(place, shown, "`copy` of the service");
                }
                (_, value) if self.maps_to_itself(&lower, value) => {
                    let how = "fields of the client pass; Weir sends none where the client sends none, and nginx what `map` says";
                    self.doc.report.differs(place, shown, how);
                }
                (_, value) if has_variable(value) => match variables::of_nginx(value, self.server_name.as_deref()) {
                    Some(value) if is_token(name) && is_field_value(&value) => {
                        route.edit_header("request", "set", name, Value::Template(value));
                        self.doc.report.exact(place, shown, "`headers.request.set`");
                    }
                    _ => {
                        // nginx overwrites what a client sends under this name; so it must not pass here either.
                        if is_token(name) {
                            route.edit_header("request", "remove", name, text(""));
                        }
                        let how =
                            "the value of one of these variables has no equivalent; a client's own field is removed";
                        self.doc.report.left_out(place, shown, how);
                    }
                },
                (_, value) if is_token(name) && is_field_value(value) => {
                    route.edit_header("request", "set", name, text(value));
                    self.doc.report.exact(place, shown, "`headers.request.set`");
                }
                _ => self.doc.report.left_out(place, shown, "is not a field that Weir can write"),
            }
        }
        if upgrade {
            route.set("upgrade", texts(["websocket"]));
        }
        match host.as_ref().map(|(directive, value)| (directive, value.as_str())) {
            Some((directive, "$host" | "$http_host")) => {
                let kind = if directive.arg(1) == "$host" {
                    "`Host` passes as the client sent it; nginx drops the port"
                } else {
                    ""
                };
                if kind.is_empty() {
                    self.doc.report.exact(&directive.place, directive.shown(), "`Host` passes");
                } else {
                    self.doc.report.differs(&directive.place, directive.shown(), kind);
                }
            }
            Some((_, "$proxy_host")) | None => {
                // By default nginx sends the host of `proxy_pass`.
                let host = if origin.authority.starts_with("unix:") { "localhost" } else { &origin.authority };
                route.set_in("rewrite", "host", text(host));
            }
            Some((directive, "$server_name")) => match self.server_name.clone() {
                Some(name) => route.set_in("rewrite", "host", text(name)),
                None => self.doc.report.left_out(
                    &directive.place,
                    directive.shown(),
                    "the server has no name; the client's `Host` passes",
                ),
            },
            Some((directive, value)) => {
                let valid = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
                if !value.is_empty() && value.chars().all(valid) {
                    route.set_in("rewrite", "host", text(value));
                } else {
                    self.doc.report.left_out(&directive.place, directive.shown(), "the client's `Host` passes");
                }
            }
        }
    }

    fn timeouts(route: &mut Route, settings: &Settings<'d>) {
        const DEFAULT: u64 = 60_000;
        let read = |name: &str| settings.word(name).and_then(values::time).unwrap_or(DEFAULT);
        let mut timeouts = Map::new();
        if read("proxy_connect_timeout") != DEFAULT {
            timeouts.push(("connect".to_owned(), time(read("proxy_connect_timeout"))));
        }
        let response = read("proxy_read_timeout");
        if response != DEFAULT {
            for key in ["first_byte", "idle", "tunnel_idle"] {
                timeouts.push((key.to_owned(), time(response)));
            }
        }
        if !timeouts.is_empty() {
            route.set("timeouts", crate::document::Value::Map(timeouts));
        }
    }

    /// `add_header` and `proxy_hide_header`: what the client sees.
    pub(super) fn response_fields(&mut self, route: &mut Route, settings: &Settings<'d>) {
        for directive in settings.all("proxy_hide_header") {
            let name = directive.arg(0);
            if is_token(name) && !is_own_field(name) {
                route.edit_header("response", "remove", name, text(""));
                self.doc.report.exact(&directive.place, directive.shown(), "`headers.response.remove`");
            }
        }
        for directive in settings.all("add_header") {
            let (name, value) = (directive.arg(0), directive.arg(1));
            if is_from_service(settings, name, value) {
                let how = "`copy_to_response` of the service";
                self.doc.report.exact(&directive.place, directive.shown(), how);
                continue;
            }
            let written = variables::of_nginx(value, self.server_name.as_deref());
            let written = written.filter(|value| is_token(name) && is_field_value(value) && !value.is_empty());
            let Some(value) = written.filter(|_| !is_own_field(name)) else {
                self.doc.report.left_out(
                    &directive.place,
                    directive.shown(),
                    "a field with this name or value has no equivalent",
                );
                continue;
            };
            route.edit_header("response", "add", name, Value::Template(value));
            if directive.arg(2) == "always" {
                let how = "added to every response but the gateway's own errors";
                self.doc.report.differs(&directive.place, directive.shown(), how);
            } else {
                let how = "nginx adds it to responses with 200, 201, 204, 206, 301 to 304, 307 and 308; Weir to those of every status";
                self.doc.report.differs(&directive.place, directive.shown(), how);
            }
        }
    }

    /// Whether a `map` leaves the client's field of this name as it is, but for one that is not there.
    fn maps_to_itself(&self, field: &str, value: &str) -> bool {
        let own = format!("$http_{}", field.replace('-', "_"));
        let name = value.strip_prefix('$').map(|name| name.trim_matches(['{', '}']));
        let Some(map) = name.and_then(|name| self.maps.get(name)).filter(|map| map.arg(0) == own) else {
            return false;
        };
        let entries = map.block.as_deref().unwrap_or_default();
        let is_default = |entry: &Directive| entry.name == "default" && entry.arg(0) == own;
        entries.iter().any(is_default) && entries.iter().all(|entry| is_default(entry) || entry.name.is_empty())
    }

    /// Whether a `map` makes `upgrade` of the client's field.
    fn maps_to_upgrade(&self, value: &str) -> bool {
        let name = value.trim_start_matches('$').trim_matches(['{', '}']);
        self.maps.get(name).is_some_and(|map| map.arg(0) == "$http_upgrade")
    }

    /// A text with the variables that `set` gives a fixed value.
    pub(super) fn substitute(&self, text: &str) -> String {
        let mut out = text.to_owned();
        // A variable may be set from others; their number bounds the rounds.
        for _ in 0..self.variables.len().min(8) {
            for (name, value) in &self.variables {
                if out.len() < 4096 {
                    out = out.replace(&format!("${{{name}}}"), value);
                    out = replace_variable(&out, name, value);
                }
            }
        }
        out
    }

    /// A rule of `if` that refuses or redirects: it is named in the report with what it did.
    pub(super) fn condition(&mut self, directive: &Directive) {
        let body = directive.block.as_deref().unwrap_or_default();
        let refused = body.iter().find(|inner| inner.name == "return").map(|inner| inner.arg(0));
        let how = match refused.and_then(|status| status.parse::<u16>().ok()) {
            Some(status) if status >= 400 => {
                format!("conditions have no equivalent: requests that it refuses with {status} pass in Weir")
            }
            _ => "conditions have no equivalent".to_owned(),
        };
        self.doc.report.left_out(&directive.place, directive.shown(), how);
    }

    pub(super) fn closed(&mut self, route: &mut Route, place: &SourceLocation, what: &str, why: &str) {
        route.close();
        let how = format!("{why}; the route responds with 501, so that no other takes its requests");
        self.doc.report.left_out(place, what, how);
    }
}

/// `$name` where no further letter of a name follows.
fn replace_variable(text: &str, name: &str, value: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let pattern = format!("${name}");
    while let Some(at) = rest.find(&pattern) {
        let after = &rest[at + pattern.len()..];
        let longer = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        out.push_str(&rest[..at]);
        out.push_str(if longer { &pattern } else { value });
        rest = after;
    }
    out + rest
}

/// Where the URL of a `proxy_pass` goes, and the path in it.
pub(super) fn target(url: &str) -> Result<(Origin, Option<String>), String> {
    let (tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err("a target that depends on a variable has no equivalent".to_owned()),
    };
    // The path as it came, with or without a slash before the variable: `http://$host:8080$request_uri`.
    let (rest, is_whole_uri) = rest.strip_suffix("$request_uri").map_or((rest, false), |rest| (rest, true));
    let (authority, uri) = if let Some(socket) = rest.strip_prefix("unix:") {
        let (path, uri) = socket.split_once(':').map_or((socket, None), |(path, uri)| (path, Some(uri)));
        (format!("unix:{path}"), uri.filter(|uri| !uri.is_empty()))
    } else {
        let at = rest.find('/').unwrap_or(rest.len());
        (rest[..at].to_owned(), Some(&rest[at..]).filter(|uri| !uri.is_empty()))
    };
    let mut origin = Origin { tls, authority, base: String::new() };
    let mut uri = uri.map(str::to_owned);
    if is_whole_uri {
        origin.base = encode(uri.take().unwrap_or_default().trim_end_matches('/'))?;
    }
    if let Some(uri) = uri.as_deref().filter(|uri| uri.contains('?')) {
        return Err(format!("a query in the target's path (`{uri}`) has no equivalent"));
    }
    Ok((origin, uri))
}

/// Whether a text has a variable.
pub(super) fn has_variable(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '$' && chars.peek().is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_' || *c == '{') {
            return true;
        }
    }
    false
}

/// A prefix as Weir writes it: `/` for none.
fn slash(prefix: &str) -> String {
    if prefix.is_empty() { "/".to_owned() } else { prefix.to_owned() }
}
