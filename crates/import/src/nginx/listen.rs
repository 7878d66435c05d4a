//! `listen` and `server_name`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::parse::Directive;

/// A `listen`.
#[derive(Debug, Clone)]
pub(super) struct Listen<'d> {
    pub(super) directive: &'d Directive,
    /// As a key: servers with the same one share a listener.
    pub(super) address: String,
    /// What Weir can listen on.
    pub(super) socket: Option<SocketAddr>,
    pub(super) ssl: bool,
    pub(super) default: bool,
    /// Options that change the protocol, by name.
    pub(super) others: Vec<String>,
}

pub(super) fn read(directive: &Directive) -> Listen<'_> {
    let text = directive.arg(0);
    let socket = address(text);
    let option = |name: &str| directive.args.iter().skip(1).any(|arg| arg == name);
    let others = ["http2", "quic", "proxy_protocol"];
    Listen {
        directive,
        address: socket.map_or_else(|| text.to_owned(), |socket| socket.to_string()),
        socket,
        ssl: option("ssl") || option("quic"),
        default: option("default_server") || option("default"),
        others: others.into_iter().filter(|name| option(name)).map(str::to_owned).collect(),
    }
}

/// `80`, `*:80`, `127.0.0.1`, `[::]:80`, `localhost:80`.
pub(super) fn address(text: &str) -> Option<SocketAddr> {
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if let Ok(port) = text.parse::<u16>() {
        return Some(SocketAddr::new(any, port));
    }
    if let Ok(socket) = text.parse() {
        return Some(socket);
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, 80));
    }
    let (host, port) = text.split_once(':').unwrap_or((text, "80"));
    let port = port.parse().ok()?;
    match host {
        "*" => Some(SocketAddr::new(any, port)),
        "localhost" => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        _ => None,
    }
}

/// The hosts of a `server_name` as Weir matches them; in words, why one cannot be matched.
pub(super) fn host(name: &str) -> Result<Vec<String>, String> {
    if name.starts_with('~') {
        return Err("hosts are not matched by regular expressions".to_owned());
    }
    if name.is_empty() || name == "_" {
        return Ok(Vec::new());
    }
    if let Some(rest) = name.strip_prefix('.') {
        let both = [host(rest)?, vec![format!("*.{}", rest.to_ascii_lowercase())]].concat();
        return Ok(both);
    }
    let inner = name.strip_prefix("*.").unwrap_or(name);
    if inner.contains('*') {
        return Err("only `*.` at the beginning of a host has an equivalent".to_owned());
    }
    let label =
        |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if !inner.split('.').all(label) {
        return Err("is not a host that Weir can match".to_owned());
    }
    Ok(vec![name.to_ascii_lowercase()])
}
