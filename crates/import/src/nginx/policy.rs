//! Limits, passwords, networks.

use super::http::Importer;
use super::settings::Settings;
use crate::document::{Entry, Map, Route, Value, map, text, texts, word};
use crate::report::SourceLocation;

/// A `limit_req_zone` or `limit_conn_zone`.
#[derive(Debug, Clone)]
pub(super) struct Zone {
    pub(super) place: SourceLocation,
    pub(super) key: String,
    /// Requests and seconds.
    pub(super) rate: Option<(u64, &'static str)>,
}

/// A protection that cannot be expressed: the route is closed.
pub(super) struct Unprotected {
    pub(super) place: SourceLocation,
    pub(super) what: String,
    pub(super) why: String,
}

/// Directives by which something else decides who may send a request.
const ELSEWHERE: [&str; 8] = [
    "auth_jwt",
    "auth_digest",
    "auth_gss",
    "auth_ldap",
    "auth_pam",
    "access_by_lua",
    "access_by_lua_block",
    "access_by_lua_file",
];

impl<'d> Importer<'d> {
    /// Reads the zones of a block.
    pub(super) fn zone(&mut self, directive: &'d super::parse::Directive) {
        let mut name = "";
        let mut rate = None;
        for option in directive.args.iter().skip(1) {
            match option.split_once('=') {
                Some(("zone", value)) => name = value.split(':').next().unwrap_or_default(),
                Some(("rate", value)) => {
                    rate = value
                        .strip_suffix("r/s")
                        .map(|number| (number, "s"))
                        .or_else(|| value.strip_suffix("r/m").map(|number| (number, "min")))
                        .and_then(|(number, unit)| {
                            number.parse().ok().filter(|&n: &u64| n > 0).map(|number| (number, unit))
                        });
                }
                _ => {}
            }
        }
        let zone = Zone { place: directive.place.clone(), key: directive.arg(0).to_owned(), rate };
        self.zones.insert(format!("{} {name}", directive.name), zone);
    }

    /// The limits, authenticators and networks of a location.
    pub(super) fn protect(&mut self, route: &mut Route, settings: &Settings<'d>) -> Result<(), Unprotected> {
        self.auth(route, settings)?;
        self.networks(route, settings)?;
        let mut limits = Vec::new();
        for (name, zones) in [("limit_req", "limit_req_zone"), ("limit_conn", "limit_conn_zone")] {
            for directive in settings.all(name) {
                match self.limit(directive, zones, settings) {
                    Ok(Some(limit)) => limits.push(limit),
                    Ok(None) => {}
                    Err(why) => self.doc.report.left_out(&directive.place, directive.shown(), why),
                }
            }
        }
        if !limits.is_empty() {
            route.set("limits", texts(limits));
        }
        Ok(())
    }

    fn limit(
        &mut self,
        directive: &'d super::parse::Directive,
        zones: &str,
        settings: &Settings<'d>,
    ) -> Result<Option<String>, String> {
        let is_rate = directive.name == "limit_req";
        let mut zone_name = if is_rate { "" } else { directive.arg(0) };
        let (mut burst, mut delays) = (0_u64, is_rate);
        for option in &directive.args {
            match option.split_once('=') {
                Some(("zone", value)) => zone_name = value,
                Some(("burst", value)) => burst = value.parse().map_err(|_| format!("`{option}` is not a number"))?,
                None if option == "nodelay" => delays = false,
                _ => {}
            }
        }
        let zone = self.zones.get(&format!("{zones} {zone_name}")).cloned().ok_or("its zone is not defined")?;
        let (key, missing) = limit_key(&zone.key)?;
        let status_name = if is_rate { "limit_req_status" } else { "limit_conn_status" };
        let status = settings.word(status_name).and_then(|word| word.parse::<u16>().ok()).unwrap_or(503);
        let mut value = Map::new();
        if is_rate {
            let (number, unit) = zone.rate.ok_or("the rate of its zone is not a number above 0")?;
            value.push(("algorithm".to_owned(), text("token_bucket")));
            value.push(("key".to_owned(), text(&key)));
            value.push(("rate".to_owned(), word(format!("{number}/{unit}"))));
            value.push(("burst".to_owned(), word(burst.saturating_add(1).min(1_000_000_000))));
            if delays && burst > 0 {
                let how = format!(
                    "nginx holds requests back to the rate; Weir passes {} at once and refuses what is more",
                    burst + 1
                );
                self.doc.report.differs(&directive.place, directive.shown(), how);
            } else {
                self.doc.report.exact(&directive.place, directive.shown(), "a token bucket");
            }
        } else {
            let quota: u64 = directive.arg(1).parse().map_err(|_| "its number is not a number".to_owned())?;
            value.push(("algorithm".to_owned(), text("concurrency")));
            value.push(("key".to_owned(), text(&key)));
            value.push(("quota".to_owned(), word(quota)));
            self.doc.report.exact(&directive.place, directive.shown(), "a limit of requests in flight");
        }
        if key == "client_ip" {
            let how = "IPv6 clients are counted by their /64 network, not by their whole address";
            self.doc.report.differs(&zone.place, format!("{zones} {}", zone.key), how);
        }
        if missing {
            value.push(("missing_key".to_owned(), text("skip")));
        }
        value.push(("on_limit".to_owned(), map([("status", word(status))])));
        let made_key = format!("{zone_name} {value:?}");
        if let Some(name) = self.limits.get(&made_key) {
            return Ok(Some(name.clone()));
        }
        let name = self.doc.name("limits", zone_name);
        if name != crate::document::plain_name(zone_name) {
            let how = format!("the zone is used with different numbers: {name} counts apart from the others");
            self.doc.report.differs(&directive.place, directive.shown(), how);
        }
        self.limits.insert(made_key, name.clone());
        let note = format!("{}, {zones} {zone_name} ({})", directive.shown(), zone.place);
        self.doc.limits.push(Entry { name: name.clone(), place: directive.place.clone(), note, value });
        Ok(Some(name))
    }

    fn auth(&mut self, route: &mut Route, settings: &Settings<'d>) -> Result<(), Unprotected> {
        if let Some(directive) = settings.one("ssl_verify_client").filter(|directive| directive.arg(0) == "on") {
            let why = "clients show no certificates here".to_owned();
            return Err(Unprotected { place: directive.place.clone(), what: directive.shown(), why });
        }
        for name in ELSEWHERE {
            if let Some(directive) = settings.one(name).filter(|directive| directive.arg(0) != "off") {
                let why = "it has no equivalent".to_owned();
                return Err(Unprotected { place: directive.place.clone(), what: directive.shown(), why });
            }
        }
        if let Some(directive) = settings.one("satisfy").filter(|directive| directive.arg(0) == "any") {
            let why = "Weir requires all authenticators of a route".to_owned();
            return Err(Unprotected { place: directive.place.clone(), what: directive.shown(), why });
        }
        let authorization = settings.one("auth_request").filter(|directive| directive.arg(0) != "off");
        let authorization = authorization.map(|directive| self.authorization(directive, settings)).transpose()?;
        let Some(basic) = settings.one("auth_basic").filter(|directive| directive.arg(0) != "off") else {
            if let Some(authorization) = authorization {
                route.set("auth", texts([authorization]));
            }
            return Ok(());
        };
        let unprotected =
            |why: &str| Unprotected { place: basic.place.clone(), what: basic.shown(), why: why.to_owned() };
        let realm = basic.arg(0);
        if realm.contains('$') {
            return Err(unprotected("a realm that depends on a variable may be `off`"));
        }
        let file = settings.word("auth_basic_user_file").filter(|file| !file.contains('$'));
        let file = file.ok_or_else(|| unprotected("no `auth_basic_user_file` that could be read"))?;
        let key = format!("basic {file} {realm}");
        let name = match self.limits.get(&key) {
            Some(name) => name.clone(),
            None => {
                let name = self.doc.name("auth", "users");
                let mut inner = vec![("file".to_owned(), text(file))];
                if crate::document::is_field_value(realm) && !realm.is_empty() {
                    inner.push(("realm".to_owned(), text(realm)));
                }
                inner.push(("forward".to_owned(), text("token")));
                let value = vec![("basic".to_owned(), Value::Map(inner))];
                self.doc.auth.push(Entry {
                    name: name.clone(),
                    place: basic.place.clone(),
                    note: basic.shown(),
                    value,
                });
                self.limits.insert(key, name.clone());
                name
            }
        };
        let how = "lines of the file must be bcrypt (`htpasswd -B`) or Argon2id: Weir refuses MD5, SHA-1 and crypt; paths are from where Weir is started";
        self.doc.report.differs(&basic.place, basic.shown(), how);
        // nginx wants both.
        route.set(
            "auth",
            authorization.map_or_else(
                || texts([name.clone()]),
                |authorization| Value::List(vec![texts([name.clone(), authorization])]),
            ),
        );
        Ok(())
    }

    /// `allow` and `deny`, of which nginx takes the first that fits.
    fn networks(&mut self, route: &mut Route, settings: &Settings<'d>) -> Result<(), Unprotected> {
        let rules = settings.all("allow");
        let Some(first) = rules.first() else { return Ok(()) };
        let unprotected = |why: &str| Unprotected {
            place: first.place.clone(),
            what: "allow and deny".to_owned(),
            why: why.to_owned(),
        };
        let (mut allowed, mut denied) = (Vec::new(), Vec::new());
        let mut rest_denied = false;
        for rule in rules {
            let network = rule.arg(0);
            let allow = rule.name == "allow";
            if network == "all" {
                rest_denied = !allow;
                break;
            }
            let network: ipnet::IpNet = network
                .parse()
                .or_else(|_| network.parse::<std::net::IpAddr>().map(Into::into))
                .map_err(|_| unprotected(&format!("`{network}` is not a network")))?;
            if allow {
                allowed.push(network.trunc());
            } else if let Some(before) =
                allowed.iter().find(|before| before.contains(&network) || network.contains(*before))
            {
                return Err(unprotected(&format!(
                    "`deny {network}` comes after `allow {before}`, and only the first that fits counts"
                )));
            } else {
                denied.push(network.trunc());
            }
        }
        let shown = |networks: &[ipnet::IpNet]| texts(networks.iter().map(ToString::to_string));
        let mut allow = Map::new();
        if rest_denied {
            if allowed.is_empty() {
                route.close();
                route.set("respond", map([("status", word(403))]));
                self.doc.report.exact(&first.place, "deny all", "the route responds with 403");
                return Ok(());
            }
            allow.push(("ips".to_owned(), shown(&allowed)));
        }
        if !denied.is_empty() {
            allow.push(("not_ips".to_owned(), shown(&denied)));
        }
        if !allow.is_empty() {
            route.set("allow", Value::Map(allow));
            self.doc.report.exact(&first.place, "allow and deny", "`allow` of the route");
        }
        Ok(())
    }
}

/// What is counted, and whether requests without it are not.
fn limit_key(key: &str) -> Result<(String, bool), String> {
    match key {
        "$binary_remote_addr" | "$remote_addr" => return Ok(("client_ip".to_owned(), false)),
        "$server_name" | "$host" | "$http_host" => return Ok(("header:host".to_owned(), false)),
        _ => {}
    }
    let plain = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if let Some(name) = key.strip_prefix("$http_").filter(|name| plain(name)) {
        return Ok((format!("header:{}", name.replace('_', "-")), true));
    }
    if let Some(name) = key.strip_prefix("$arg_").filter(|name| plain(name)) {
        return Ok((format!("query:{name}"), true));
    }
    if !key.contains('$') {
        return Ok(("global".to_owned(), false));
    }
    Err(format!("`{key}` is not something that Weir counts by: client_ip, header, query, route, global"))
}
