//! `upstream` blocks and the targets of `proxy_pass`.

use std::collections::HashMap;

use super::http::Importer;
use super::parse::Directive;
use super::settings::Settings;
use super::values;
use crate::document::{Entry, Map, Value, map, text, texts, time, word};
use crate::report::SourceLocation;

/// Where a `proxy_pass` goes, without its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) tls: bool,
    /// Name of an upstream, `host[:port]`, or `unix:/path`.
    pub(super) authority: String,
    /// Put before every path.
    pub(super) base: String,
}

/// An upstream that was written.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) name: String,
    /// The upstream of the `backup` servers.
    pub(super) backup: Option<String>,
}

impl<'d> Importer<'d> {
    /// The upstream for an origin under these settings; one is written if there is none yet.
    pub(super) fn upstream(
        &mut self,
        origin: &Origin,
        settings: &Settings<'d>,
        place: &SourceLocation,
    ) -> Result<Made, String> {
        let tls = if origin.tls { Some(self.tls(settings, place)) } else { None };
        let next = settings.all("proxy_next_upstream").last().map_or("error timeout".to_owned(), |d| d.args.join(" "));
        let tries = settings.word("proxy_next_upstream_tries").unwrap_or("0").to_owned();
        let key = format!("{origin:?} {tls:?} {next} {tries}");
        if let Some(made) = self.made.get(&key) {
            return Ok(made.clone());
        }
        let block = self.blocks.get(origin.authority.as_str()).copied();
        let made = match block {
            Some(block) => self.named(origin, block, tls, &next, &tries)?,
            None => {
                let target = target(origin, &origin.authority)?;
                let name = self.doc.name("upstreams", &origin.authority.replace(['[', ']', '/'], "").replace(':', "-"));
                let mut value: Map = vec![("targets".to_owned(), texts([target]))];
                value.extend(tls.map(|tls| ("tls".to_owned(), tls)));
                value.push(("balance".to_owned(), text("round_robin")));
                value.push(("eject".to_owned(), word("none")));
                value.push(("retry".to_owned(), word("none")));
                value.push(("timeouts".to_owned(), default_timeouts()));
                let note = format!("proxy_pass to {}", origin.authority);
                self.doc.upstreams.push(Entry { name: name.clone(), place: place.clone(), note, value });
                Made { name, backup: None }
            }
        };
        self.made.insert(key, made.clone());
        Ok(made)
    }

    fn named(
        &mut self,
        origin: &Origin,
        block: &'d Directive,
        tls: Option<Value>,
        next: &str,
        tries: &str,
    ) -> Result<Made, String> {
        let directives = block.block.as_deref().unwrap_or_default();
        let mut servers = (Vec::new(), Vec::new());
        let mut value = Map::new();
        let mut eject: Option<(u64, u64)> = None;
        let mut max_conns = None;
        let first_time = self.told.insert(format!("upstream {}", origin.authority));
        for directive in directives {
            if directive.name == "server" {
                self.server_line(origin, directive, &mut servers, &mut eject, &mut max_conns, first_time)?;
            }
        }
        let (servers, backups) = servers;
        if servers.is_empty() {
            return Err(format!("the upstream {} has no server that can be used", origin.authority));
        }
        let balance = self.balance(directives, first_time);
        let count = servers.len() + backups.len();
        value.push(("targets".to_owned(), Value::List(servers)));
        if let Some(tls) = &tls {
            value.push(("tls".to_owned(), tls.clone()));
        }
        value.push(("balance".to_owned(), balance));
        value.push(("eject".to_owned(), eject_value(eject, count)));
        value.push(("retry".to_owned(), self.retry(next, tries, count, block, first_time)));
        value.push(("timeouts".to_owned(), default_timeouts()));
        if let Some(keep_alive) = keep_alive(directives) {
            value.push(("keep_alive".to_owned(), keep_alive));
        }
        if let Some(max) = max_conns {
            value.push(("max_in_flight".to_owned(), word(max)));
        }
        let name = self.doc.name("upstreams", &origin.authority);
        let note = format!("upstream {}", origin.authority);
        let entry = |name: &str, value: Map| Entry {
            name: name.to_owned(),
            place: block.place.clone(),
            note: note.clone(),
            value,
        };
        self.doc.upstreams.push(entry(&name, value.clone()));
        if first_time {
            self.doc.report.exact(&block.place, note.clone(), format!("upstream {name}"));
        }
        let backup = if backups.is_empty() {
            None
        } else {
            let backup = self.doc.name("upstreams", &format!("{name}-backup"));
            value[0].1 = Value::List(backups);
            self.doc.upstreams.push(entry(&backup, value));
            if first_time {
                self.doc.report.differs(
                    &block.place,
                    format!("backup servers of {}", origin.authority),
                    format!("they are the upstream {backup}, named by `fallback`: used when no other target may be, or a retryable failure is left; its responses are marked X-Fallback"),
                );
            }
            Some(backup)
        };
        Ok(Made { name, backup })
    }

    fn server_line(
        &mut self,
        origin: &Origin,
        directive: &'d Directive,
        servers: &mut (Vec<Value>, Vec<Value>),
        eject: &mut Option<(u64, u64)>,
        max_conns: &mut Option<u64>,
        tell: bool,
    ) -> Result<(), String> {
        let url = match target(origin, directive.arg(0)) {
            Ok(url) => url,
            Err(why) => {
                self.doc.report.left_out(&directive.place, directive.shown(), why);
                return Ok(());
            }
        };
        let mut weight = None;
        let mut backup = false;
        let (mut fails, mut period) = (1, 10_000);
        for option in directive.args.iter().skip(1) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name, value.parse::<u64>()) {
                ("weight", Ok(number)) if (1..=u64::from(u32::MAX)).contains(&number) => weight = Some(number),
                ("max_fails", Ok(number)) => fails = number.min(u64::from(u32::MAX)),
                ("fail_timeout", _) => period = values::time(value).unwrap_or(period),
                ("max_conns", Ok(number)) if (1..=u64::from(u32::MAX)).contains(&number) => {
                    *max_conns = Some(number);
                    if tell {
                        let how = "`max_in_flight` counts requests, over the whole process and for each target of the upstream";
                        self.doc.report.differs(&directive.place, option.clone(), how);
                    }
                }
                ("max_conns", Ok(0)) => {}
                ("backup", _) => backup = true,
                ("down", _) => {
                    if tell {
                        self.doc.report.exact(
                            &directive.place,
                            directive.shown(),
                            "a server that is down gets no requests; it was not written",
                        );
                    }
                    return Ok(());
                }
                // Weir resolves names again as their TTL ends.
                ("resolve", _) => {}
                _ => {
                    if tell {
                        self.doc.report.left_out(
                            &directive.place,
                            format!("{option} of server {}", directive.arg(0)),
                            "has no equivalent",
                        );
                    }
                }
            }
        }
        match eject {
            None => *eject = Some((fails, period)),
            Some(known) if *known != (fails, period) && tell => {
                let how = "`eject` holds for all targets of an upstream: the numbers of the first server are used";
                self.doc.report.differs(&directive.place, directive.shown(), how);
            }
            Some(_) => {}
        }
        let value = match weight {
            Some(weight) if weight != 1 => map([("url", text(url)), ("weight", word(weight))]),
            _ => text(url),
        };
        if backup {
            servers.1.push(value);
        } else {
            servers.0.push(value);
        }
        Ok(())
    }

    fn balance(&mut self, directives: &'d [Directive], tell: bool) -> Value {
        for directive in directives {
            let mut differs = |how: &str| {
                if tell {
                    self.doc.report.differs(&directive.place, directive.shown(), how);
                }
            };
            match directive.name.as_str() {
                "least_conn" => return text("least_request"),
                "random" => {
                    differs("`least_request` takes the less busy of two random targets");
                    return text("least_request");
                }
                "ip_hash" => {
                    differs(
                        "the whole address is hashed, not the first three bytes of it, and a target that is much busier than the rest is passed over",
                    );
                    return map([("hash", text("client_ip"))]);
                }
                "hash" => match directive.arg(0) {
                    "$remote_addr" | "$binary_remote_addr" => {
                        differs("a target that is much busier than the rest is passed over");
                        return map([("hash", text("client_ip"))]);
                    }
                    "$request_uri" | "$uri" => {
                        differs(
                            "the path is hashed, without the query; a target that is much busier than the rest is passed over",
                        );
                        return map([("hash", text("path"))]);
                    }
                    key => match key.strip_prefix("$http_") {
                        Some(name) => {
                            differs("a target that is much busier than the rest is passed over");
                            return map([("hash", text(format!("header:{}", name.replace('_', "-"))))]);
                        }
                        None if tell => {
                            let how = "Weir hashes `client_ip`, `path` or `header:NAME`; targets are taken in turn";
                            self.doc.report.left_out(&directive.place, directive.shown(), how);
                        }
                        None => {}
                    },
                },
                "server" | "keepalive" | "keepalive_timeout" | "keepalive_requests" | "keepalive_time" | "zone" => {}
                name if tell => {
                    let how = format!("`{name}` in an upstream has no equivalent");
                    self.doc.report.left_out(&directive.place, directive.shown(), how);
                }
                _ => {}
            }
        }
        text("round_robin")
    }

    fn retry(&mut self, next: &str, tries: &str, count: usize, block: &Directive, tell: bool) -> Value {
        let words: Vec<&str> = next.split(' ').collect();
        if words.contains(&"off") || (count == 1 && !words.iter().any(|word| word.starts_with("http_5"))) {
            return word("none");
        }
        let mut on = Vec::new();
        for cause in &words {
            match *cause {
                "error" => on.extend(["connect", "reset"].map(word)),
                "timeout" => on.push(word("try_timeout")),
                "http_502" | "http_503" | "http_504" => on.push(word(&cause[5..])),
                "non_idempotent" if tell => self.doc.report.left_out(
                    &block.place,
                    "proxy_next_upstream non_idempotent",
                    "Weir sends a request that is not idempotent again only if nothing of it was sent",
                ),
                other if tell => {
                    let what = format!("proxy_next_upstream {other}");
                    self.doc.report.left_out(
                        &block.place,
                        what,
                        "Weir tries again on connect, reset, try_timeout, 502, 503 and 504",
                    );
                }
                _ => {}
            }
        }
        // nginx tries every server once, unless the number is given.
        let tries = tries.parse::<usize>().ok().filter(|&tries| tries > 0).unwrap_or(count);
        let extra = tries.min(count).saturating_sub(1).min(10);
        if extra == 0 || on.is_empty() {
            return word("none");
        }
        if tell && words.contains(&"timeout") {
            let how = "Weir tries again when a connection cannot be made or breaks; a response after the deadline becomes 504, unless `timeouts.try` is set";
            self.doc.report.differs(&block.place, "proxy_next_upstream timeout", how);
        }
        map([("extra_attempts", word(extra)), ("budget", word("100%")), ("on", Value::List(on))])
    }

    fn tls(&mut self, settings: &Settings<'d>, place: &SourceLocation) -> Value {
        let mut tls = Map::new();
        let verify = settings.is_on("proxy_ssl_verify");
        if !verify {
            self.doc.report.differs(
                place,
                "proxy_ssl_verify off",
                "written as it is (`verify: false, insecure: true`): anyone on the way to the target can read and change requests; remove both to verify",
            );
            tls.push(("verify".to_owned(), word(false)));
            tls.push(("insecure".to_owned(), word(true)));
        }
        if let Some(file) = settings.word("proxy_ssl_trusted_certificate").filter(|_| verify) {
            // Debian's own bundle is what `system` reads.
            if file != "/etc/ssl/certs/ca-certificates.crt" {
                tls.push(("roots".to_owned(), text(file)));
            }
        }
        if let Some(name) = settings.word("proxy_ssl_name").map(|name| self.substitute(name)) {
            if name.contains('$') {
                let how = "the name of the target's URL is used";
                self.doc.report.left_out(place, format!("proxy_ssl_name {name}"), how);
            } else {
                tls.push(("server_name".to_owned(), text(name)));
            }
        }
        if let (Some(cert), Some(key)) =
            (settings.word("proxy_ssl_certificate"), settings.word("proxy_ssl_certificate_key"))
        {
            tls.push(("client_cert".to_owned(), map([("cert", text(cert)), ("key", text(key))])));
        }
        if settings.one("proxy_ssl_protocols").is_some_and(|d| d.args.iter().all(|version| version == "TLSv1.3")) {
            tls.push(("min_version".to_owned(), text("1.3")));
        }
        if !settings.is_on("proxy_ssl_server_name") {
            let how = "Weir always sends the name of the target (SNI), nginx only with `proxy_ssl_server_name on`";
            self.doc.report.differs(place, "proxy_pass https://", how);
        }
        Value::Map(tls)
    }
}

/// nginx' deadlines.
fn default_timeouts() -> Value {
    map([
        ("connect", time(60_000)),
        ("first_byte", time(60_000)),
        ("idle", time(60_000)),
        ("tunnel_idle", time(60_000)),
    ])
}

/// nginx takes a server out after `max_fails` failures; one alone is never taken out.
fn eject_value(eject: Option<(u64, u64)>, count: usize) -> Value {
    match eject {
        Some((fails, period)) if fails > 0 && count > 1 => {
            map([("after", word(fails)), ("for", time(period.max(1000)))])
        }
        _ => word("none"),
    }
}

fn keep_alive(directives: &[Directive]) -> Option<Value> {
    let find =
        |name: &str| directives.iter().find(|directive| directive.name == name).map(|directive| directive.arg(0));
    let count: u64 = find("keepalive")?.parse().ok()?;
    let idle = find("keepalive_timeout").and_then(values::time).filter(|&ms| ms > 0).unwrap_or(60_000);
    Some(if count == 0 { word("none") } else { map([("idle", time(idle)), ("max_idle", word(count))]) })
}

/// The URL of one server.
fn target(origin: &Origin, server: &str) -> Result<String, String> {
    if let Some(path) = server.strip_prefix("unix:") {
        if origin.tls {
            return Err("TLS over a Unix socket has no equivalent".to_owned());
        }
        if !origin.base.is_empty() {
            return Err("a path before every path cannot be written for a Unix socket".to_owned());
        }
        return if path.starts_with('/') && path.len() <= 107 {
            Ok(format!("unix:{path}"))
        } else {
            Err("is not the path of a socket".to_owned())
        };
    }
    if server.contains('$') {
        return Err("a target that depends on a variable has no equivalent".to_owned());
    }
    let valid = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    if server.is_empty() || !server.chars().all(valid) {
        return Err(format!("`{server}` is not a host and port"));
    }
    let bracket = server.rfind(']').map_or(0, |end| end + 1);
    let port = server[bracket..].rsplit_once(':').map(|(_, port)| port);
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Err(format!("`{server}` has no valid port"));
    }
    let scheme = if origin.tls { "https" } else { "http" };
    // nginx takes port 80 for a server without one, whatever the scheme; `proxy_pass https://host` takes 443.
    let address = if port.is_none() && origin.tls && server != origin.authority {
        format!("{server}:80")
    } else {
        server.to_owned()
    };
    Ok(format!("{scheme}://{address}{}", origin.base))
}

/// Blocks by name.
pub(super) type Blocks<'d> = HashMap<&'d str, &'d Directive>;
