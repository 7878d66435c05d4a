//! `weir routes`

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir::config::{
    Action, Condition, Config, HostPattern, Rewrite, Route, RouteId, Split, SplitKey, load_file, process_environment,
};
use weir::route::split::{self, Sender};
use weir::route::{Described, Found, Lookup, Table, path, rewrite};

use super::{BAD_CONFIGURATION, print, refuse};

/// Lists routes, or explains which takes a request.
#[derive(Args)]
pub(super) struct Routes {
    /// Configuration file.
    file: PathBuf,
    /// Request to look for: 'GET api.example.com/users/7', 'GET /users/7' or '/users/7'.
    request: Option<String>,
    /// Header field of the request.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", requires = "request")]
    headers: Vec<String>,
    /// Address of the client, which decides where a route splits its requests by it.
    #[arg(long, value_name = "ADDRESS", requires = "request")]
    client: Option<IpAddr>,
}

impl Routes {
    pub(super) fn run(self) -> ExitCode {
        let config = match load_file(&self.file, &process_environment) {
            Ok(loaded) => loaded.config,
            Err(error) => return refuse(&error),
        };
        let Some(request) = &self.request else { return print(&list(&config)) };
        match Request::parse(request, &self.headers, self.client) {
            Ok(request) => {
                let (text, found) = explain(&config, &request);
                match print(&text) {
                    ExitCode::SUCCESS if !found => ExitCode::FAILURE,
                    code => code,
                }
            }
            Err(problem) => {
                eprintln!("weir: {problem}");
                ExitCode::from(BAD_CONFIGURATION)
            }
        }
    }
}

/// Every route in the order of the file, one a line, in columns.
fn list(config: &Config) -> String {
    let mut rows = vec![["NAME", "METHODS", "HOST", "PATH", "CONDITIONS", "GOES TO"].map(str::to_owned)];
    let any = |text: String| if text.is_empty() { "any".to_owned() } else { text };
    for route in &config.routes {
        let told = Described::of(config, route);
        let conditions = Some(route.matcher.conditions_text()).filter(|text| !text.is_empty());
        let conditions = conditions.unwrap_or_else(|| "-".to_owned());
        let to = match told.checked {
            Some(checked) => format!("{} ({checked})", told.to),
            None => told.to,
        };
        rows.push([told.name, any(told.methods.join(",")), any(told.host), told.path, conditions, to]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str((line + &row[5]).trim_end());
        text.push('\n');
    }
    text
}

/// A request to look for.
struct Request {
    method: String,
    host: String,
    target: String,
    /// Names in lower case.
    fields: Vec<(String, String)>,
    client: Option<IpAddr>,
}

impl Request {
    fn parse(text: &str, headers: &[String], client: Option<IpAddr>) -> Result<Self, String> {
        let text = text.trim();
        let (method, rest) = text.split_once(' ').unwrap_or(("GET", text));
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("http://").or_else(|| rest.strip_prefix("https://")).unwrap_or(rest);
        let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if rest.is_empty() {
            return Err(format!("`{text}` is not a request; write 'GET api.example.com/users/7' or '/users/7'"));
        }
        let fields = headers.iter().map(|header| {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| format!("`{header}` is not a header field; write 'X-Tier: gold'"))?;
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        });
        Ok(Request {
            method: method.to_ascii_uppercase(),
            host: host.to_owned(),
            target: if target.starts_with('/') { target.to_owned() } else { format!("/{target}") },
            fields: fields.collect::<Result<_, String>>()?,
            client,
        })
    }

    fn satisfies(&self, name: &str, condition: &Condition) -> bool {
        condition.holds(self.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value))
    }

    /// The members of a split that may take the request: one if what decides is known.
    fn members(&self, split: &Split) -> Vec<usize> {
        let values = |name: &str| {
            let named = self.fields.iter().filter(move |(known, _)| known == name);
            named.map(|(_, value)| value.as_bytes()).collect::<Vec<_>>().into_iter()
        };
        // What it falls back to where the request has no value.
        let point_for = |address: IpAddr| {
            split.by.as_ref().map(|by| split::point(by, Sender { address: address.into(), consumer: None }, values))
        };
        let one = point_for(self.client.unwrap_or(Ipv4Addr::LOCALHOST.into()));
        let other = point_for(self.client.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        match one.zip(other) {
            Some((one, other)) if one == other && split.by != Some(SplitKey::Consumer) => vec![split.member_at(one)],
            _ => (0..split.members.len()).filter(|&index| split.members[index].1 > 0).collect(),
        }
    }

    fn lookup<'t>(&self, table: &'t Table, target: path::Target<'_>) -> Lookup<'t> {
        let satisfies = |name: &str, condition: &Condition| self.satisfies(name, condition);
        table.lookup(self.host.as_bytes(), target, self.method.as_bytes(), satisfies)
    }
}

/// What would become of a request, and whether a route takes it.
fn explain(config: &Config, request: &Request) -> (String, bool) {
    let mut scratch = Vec::new();
    let target = match path::normalise_by(config.server.path, request.target.as_bytes(), &mut scratch) {
        Ok(target) => target,
        Err(refusal) => return (format!("400: {refusal} ({})\n", refusal.reason()), false),
    };
    let mut text = String::new();
    let table = Table::new(&config.routes);
    let found = match request.lookup(&table, target) {
        Lookup::Found(found) => {
            text.push_str(&taken(config, request, &config.routes[found.route.0], found, target));
            Some(found)
        }
        Lookup::MethodNotAllowed(allow) => {
            let methods: Vec<&str> = allow.methods().collect();
            text.push_str(&format!(
                "405: routes match, but none takes {}; Allow: {}\n",
                request.method,
                methods.join(", ")
            ));
            None
        }
        Lookup::NotFound => {
            text.push_str("404: no route matches\n");
            None
        }
    };
    if target.path != request.target.split('?').next().unwrap_or_default().as_bytes() {
        text.push_str(&format!("  the path is matched as {}\n", String::from_utf8_lossy(target.path)));
    }
    let others =
        config.routes.iter().enumerate().filter(|(index, _)| found.is_none_or(|found| found.route != RouteId(*index)));
    for (_, route) in others {
        if let Some(reason) = why_not(route, request, target) {
            text.push_str(&format!("  not `{}`: {reason}\n", route.name));
        }
    }
    (text, found.is_some())
}

/// The route that takes the request, why, and what happens next.
fn taken(config: &Config, request: &Request, route: &Route, found: Found, target: path::Target<'_>) -> String {
    let matcher = &route.matcher;
    let mut out = Vec::new();
    let mut text = format!("`{}`: {}\n  because of path {}", route.name, Described::of(config, route).to, matcher.path);
    if matcher.host != HostPattern::Any {
        text.push_str(&format!(", host {}", matcher.host));
    }
    if !matcher.methods.is_empty() {
        text.push_str(&format!(", method {}", matcher.methods.join(" or ")));
    }
    for (name, condition) in &matcher.headers {
        text.push_str(&format!(", {name}: {condition}"));
    }
    for (name, condition) in &matcher.query {
        text.push_str(&format!(", query {name}={condition}"));
    }
    text.push('\n');
    if let Some(checked) = Described::of(config, route).checked {
        text.push_str(&format!("  checked by the description of {checked}\n"));
    }
    match &route.action {
        Action::Proxy(proxy) => {
            let chosen = match &proxy.split {
                Some(split) => request.members(split),
                None => vec![0],
            };
            for (index, id) in proxy.first_choices().enumerate().filter(|(index, _)| chosen.contains(index)) {
                let upstream = &config.upstreams[id.0];
                let base = upstream.targets.first().map_or("", |target| &target.base_path);
                out.clear();
                rewrite::upstream_target(&mut out, base, &proxy.rewrite, found, target);
                let changed = if proxy.rewrite == Rewrite::None && base.is_empty() { "" } else { ", rewritten" };
                let share = match &proxy.split {
                    Some(split) if chosen.len() > 1 => format!(" ({} %)", split.rounded_percent(index)),
                    _ => String::new(),
                };
                let to = String::from_utf8_lossy(&out);
                text.push_str(&format!("  forwards to `{}`{share} as {to}{changed}\n", upstream.name));
                for source in upstream.sources() {
                    text.push_str(&format!("    its targets are named by {source}\n"));
                }
            }
        }
        Action::Redirect(redirect) => {
            match &redirect.parts {
                None => rewrite::location(&mut out, redirect, found, target),
                Some(parts) => {
                    let asked = rewrite::Asked { scheme: "http", authority: request.host.as_bytes() };
                    rewrite::changed_location(&mut out, parts, asked, found, target);
                }
            }
            text.push_str(&format!("  sends the client to {}\n", String::from_utf8_lossy(&out)));
        }
        Action::Ai(_) | Action::Respond(_) | Action::Builtin(_) => {}
    }
    text
}

/// Why another route whose path matches does not take the request; nothing for one whose path does not match.
fn why_not(route: &Route, request: &Request, target: path::Target<'_>) -> Option<String> {
    // The route alone, with one part after the other taken into account.
    let mut probe = route.clone();
    let headers_wanted = std::mem::take(&mut probe.matcher.headers);
    let query_wanted = std::mem::take(&mut probe.matcher.query);
    let methods = std::mem::take(&mut probe.matcher.methods);
    let host = std::mem::replace(&mut probe.matcher.host, HostPattern::Any);
    let matches =
        |probe: &Route| matches!(request.lookup(&Table::new(std::slice::from_ref(probe)), target), Lookup::Found(_));
    if !matches(&probe) {
        return None;
    }
    probe.matcher.host = host;
    if !matches(&probe) {
        return Some(format!("it is for the host {}", probe.matcher.host));
    }
    probe.matcher.methods = methods;
    if !matches(&probe) {
        return Some(format!("it takes {} only", probe.matcher.methods.join(", ")));
    }
    probe.matcher.headers = headers_wanted;
    probe.matcher.query = query_wanted;
    if !matches(&probe) {
        return Some(format!("it wants {}", probe.matcher.conditions_text()));
    }
    Some(format!("{} comes after", probe.matcher.path))
}
