//! `auth_request`: a location of the server is called for each request. It becomes `auth.*.forward` in `mode: nginx`.

use super::action::{has_variable, target};
use super::http::Importer;
use super::parse::Directive;
use super::policy::Unprotected;
use super::settings::Settings;
use crate::document::{Entry, Map, Value, is_token, text, texts, time, word};
use crate::pattern::encode;
use crate::report::SourceLocation;

/// nginx' own deadline of a response, in milliseconds.
const TIMEOUT: u64 = 60_000;
/// Fields that Weir always sends there.
const SENT: [&str; 2] = ["Authorization", "Cookie"];

/// A part that is not the same: where, what, how.
type Difference = (SourceLocation, String, String);

/// What a block around an `auth_request` takes from the service's response.
#[derive(Default)]
struct ResponseUse {
    copy: Vec<String>,
    to_response: Vec<String>,
}

impl<'d> Importer<'d> {
    /// The name of the authenticator that calls it.
    pub(super) fn authorization(
        &mut self,
        directive: &'d Directive,
        settings: &Settings<'d>,
    ) -> Result<String, Unprotected> {
        let taken = self.taken(settings);
        self.authorize(directive, taken).map_err(|why| Unprotected {
            place: directive.place.clone(),
            what: directive.shown(),
            why,
        })
    }

    fn authorize(&mut self, directive: &'d Directive, taken: ResponseUse) -> Result<String, String> {
        let uri = directive.arg(0);
        if !uri.starts_with('/') || uri.contains('?') || has_variable(uri) {
            return Err(format!("`{uri}` is not the path of a location"));
        }
        let location = self.location_of(uri)?;
        let block = location.block.as_deref().unwrap_or_default();
        let settings = self.of_server.inside(block);
        let other = ["if", "rewrite", "return", "location", "set", "limit_except"];
        if let Some(inner) = block.iter().find(|inner| other.contains(&inner.name.as_str())) {
            return Err(format!("`{}` of `{}` has no equivalent for such a service", inner.name, location.shown()));
        }
        let pass = block.iter().find(|inner| inner.name == "proxy_pass");
        let pass = pass.ok_or_else(|| format!("`{}` forwards to no service", location.shown()))?;
        let url = self.substitute(pass.arg(0));
        if has_variable(&url) {
            return Err(format!("`{}` depends on a variable", pass.shown()));
        }
        let (origin, path) = target(&url)?;
        let prefix = location.args.last().map_or("", String::as_str);
        let path = match path {
            Some(path) => format!("{path}{}", uri.strip_prefix(prefix).unwrap_or_default()),
            None => uri.to_owned(),
        };
        let (send, told) = self.sent(&settings)?;
        let service = self.upstream(&origin, &settings, &pass.place)?;
        if service.backup.is_some() {
            return Err("backup servers of such a service have no equivalent".to_owned());
        }
        let read = settings.word("proxy_read_timeout").and_then(super::values::time).unwrap_or(TIMEOUT);
        let mut inner: Map = vec![
            ("upstream".to_owned(), text(service.name)),
            ("path".to_owned(), text(encode(&path)?)),
            ("mode".to_owned(), word("nginx")),
        ];
        if send != SENT {
            inner.push(("send".to_owned(), texts(send)));
        }
        if !taken.copy.is_empty() {
            inner.push(("copy".to_owned(), texts(taken.copy)));
        }
        if !taken.to_response.is_empty() {
            inner.push(("copy_to_response".to_owned(), texts(taken.to_response)));
        }
        inner.push(("timeout".to_owned(), time(read.max(1))));
        let value = vec![("forward".to_owned(), Value::Map(inner))];
        for (place, what, how) in told {
            self.doc.report.differs(&place, what, how);
        }
        let how = "`auth.*.forward`; the service gets Authorization and Cookie, nginx sends it all fields of the client: add those that it reads to `send`. A refusal reaches the client with its body, `Location` and `Set-Cookie`; nginx writes a page. Without a response Weir says 503, nginx 500";
        self.doc.report.differs(&directive.place, directive.shown(), how);
        let key = format!("forward {value:?}");
        if let Some(name) = self.limits.get(&key) {
            return Ok(name.clone());
        }
        let name = self.doc.name("auth", uri);
        let note = format!("{}, {} ({})", directive.shown(), location.shown(), location.place);
        self.doc.auth.push(Entry { name: name.clone(), place: directive.place.clone(), note, value });
        self.limits.insert(key, name.clone());
        Ok(name)
    }

    /// The location that nginx takes for a path inside of the server.
    fn location_of(&self, uri: &str) -> Result<&'d Directive, String> {
        let named = |location: &&&'d Directive, wanted: &[&str]| match location.args.as_slice() {
            [_] => wanted.contains(&""),
            [modifier, _] => wanted.contains(&modifier.as_str()),
            _ => false,
        };
        let path = |location: &&'d Directive| location.args.last().map_or("", String::as_str);
        let mut exact = self.of_locations.iter().filter(|one| named(one, &["="]));
        if let Some(location) = exact.find(|one| path(one) == uri) {
            return Ok(location);
        }
        let prefixes = self.of_locations.iter().filter(|one| named(one, &["", "^~"]) && uri.starts_with(path(one)));
        let longest = prefixes.max_by_key(|one| path(one).len());
        let longest = longest.ok_or_else(|| format!("no location takes `{uri}`"))?;
        if !named(&longest, &["^~"]) && self.of_locations.iter().any(|one| named(&one, &["~", "~*"])) {
            return Err(format!("`{uri}` may be that of a location with a regular expression"));
        }
        Ok(longest)
    }

    /// Fields of the client that the service gets, and what else is to be told. In words, what it would miss.
    fn sent(&mut self, settings: &Settings<'d>) -> Result<(Vec<String>, Vec<Difference>), String> {
        let mut send: Vec<String> = SENT.map(str::to_owned).into();
        let mut told = Vec::new();
        for directive in settings.all("proxy_set_header") {
            let (name, value) = (directive.arg(0), self.substitute(directive.arg(1)));
            let lower = name.to_ascii_lowercase();
            let same = format!("$http_{}", lower.replace('-', "_"));
            match (lower.as_str(), value.as_str()) {
                ("host", _) => {
                    let how = "the service gets its own name in `Host`, that of the request in X-Forwarded-Host";
                    told.push((directive.place.clone(), directive.shown(), how.to_owned()));
                }
                ("connection" | "upgrade" | "content-length" | "content-type", _) => {}
                (_, "") => send.retain(|sent| !sent.eq_ignore_ascii_case(name)),
                ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
                | ("x-real-ip", "$remote_addr")
                | ("x-forwarded-proto", "$scheme")
                | ("x-forwarded-host", "$host" | "$http_host")
                | ("x-forwarded-uri" | "x-original-uri", "$request_uri")
                | ("x-forwarded-method" | "x-original-method", "$request_method")
                | ("x-original-url", "$scheme://$http_host$request_uri" | "$scheme://$host$request_uri") => {}
                (_, value) if value == same && is_token(name) => {
                    if !send.iter().any(|sent| sent.eq_ignore_ascii_case(name)) {
                        send.push(name.to_owned());
                    }
                }
                // It may decide by it.
                _ => return Err(format!("the service would not get `{}`, which it may decide by", directive.shown())),
            }
        }
        Ok((send, told))
    }

    /// Fields of the service's response that upstream and client get.
    fn taken(&self, settings: &Settings<'d>) -> ResponseUse {
        let mut taken = ResponseUse::default();
        let fields = [("proxy_set_header", &mut taken.copy), ("add_header", &mut taken.to_response)];
        for (kind, names) in fields {
            for directive in settings.all(kind) {
                let name = directive.arg(0);
                if is_from_service(settings, name, directive.arg(1))
                    && !names.iter().any(|known| known.eq_ignore_ascii_case(name))
                {
                    names.push(name.to_owned());
                }
            }
        }
        taken
    }
}

/// Whether a field is that of the service's response with the same name: `$user`, of `auth_request_set $user $upstream_http_x_user`.
pub(super) fn is_from_service(settings: &Settings<'_>, name: &str, value: &str) -> bool {
    const OTHERWISE: [&str; 3] = ["authorization", "cookie", "host"];
    let Some(variable) = value.strip_prefix('$').map(|name| name.trim_matches(['{', '}'])) else { return false };
    let lower = name.to_ascii_lowercase();
    let wanted = format!("$upstream_http_{}", lower.replace('-', "_"));
    let authorizations = settings.one("auth_request").is_some_and(|directive| directive.arg(0) != "off");
    let mut set = settings.all("auth_request_set").iter();
    authorizations
        && is_token(name)
        && !OTHERWISE.contains(&lower.as_str())
        && set.any(|set| set.arg(0).trim_start_matches('$') == variable && set.arg(1) == wanted)
}
