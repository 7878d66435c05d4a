//! Where requests go and by what they are distinguished: URLs of targets, keys of hashes and limits.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::raw::text::{is_token, text_type};
use crate::{DemoService, HashKey, LimitKey, TargetAddress};

/// `http://HOST[:PORT][/BASE]`, `https://...`, `srv+http://NAME[/BASE]`, `srv+https://...`, `unix:/PATH` or `demo:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetUrl {
    /// As it is written.
    text: String,
    /// Whether connections use TLS.
    pub tls: bool,
    /// Where to connect.
    pub address: TargetAddress,
    /// Host, with the port unless it is the scheme's own; of a service in DNS its domain. A socket or demo service has none.
    pub authority: Option<String>,
    /// Path without a trailing slash.
    pub base_path: String,
}

text_type!(
    TargetUrl,
    "TargetUrl",
    r"^((srv\+)?https?://[^\s?#@]+|unix:/\S+|demo:[a-z-]+)$",
    "the URL of a target: `http://127.0.0.1:8001`, `srv+http://_api._tcp.example.com`, `unix:/run/app.sock`, or a built-in `demo:inference-python`, `demo:inference-node`, `demo:plain`"
);

impl TargetUrl {
    /// A service that this program plays itself.
    pub fn demo(service: DemoService) -> Self {
        Self::without_host(format!("demo:{}", service.name()), TargetAddress::Demo(service))
    }

    /// As it is written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn without_host(text: String, address: TargetAddress) -> Self {
        TargetUrl { text, tls: false, address, authority: None, base_path: String::new() }
    }
}

impl FromStr for TargetUrl {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.strip_prefix("//").unwrap_or(path) {
                path if !path.starts_with('/') || path.contains('\0') => {
                    Err(format!("`{text}`: write the socket's whole path, `unix:/run/app.sock`"))
                }
                // sun_path holds 108 bytes, the last of them NUL.
                path if path.len() > 107 => Err(format!("`{text}`: the path of a socket has at most 107 bytes")),
                path => Ok(Self::without_host(text.to_owned(), TargetAddress::Unix(path.into()))),
            };
        }
        if let Some(name) = text.strip_prefix("demo:") {
            let found = DemoService::ALL.into_iter().find(|service| service.name() == name);
            return found.map(Self::demo).ok_or_else(|| {
                let names = DemoService::ALL.map(|service| format!("`demo:{}`", service.name()));
                format!("there is no `{text}`; built in are {}", names.join(", "))
            });
        }
        if let Some(name) = text.strip_prefix("endpoints:") {
            return Ok(Self::without_host(text.to_owned(), TargetAddress::Endpoints(name.into())));
        }
        let (is_service, url) = match text.strip_prefix("srv+") {
            Some(url) => (true, url),
            None => (false, text),
        };
        let (tls, rest) = if let Some(rest) = url.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = url.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(format!("`{text}` is not a target; write `http://HOST:PORT` or `unix:/PATH`"));
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("a target's URL takes no user or password".to_owned());
        }
        if rest.contains(['?', '#']) {
            return Err(format!("`{text}`: a target's URL takes no query or fragment"));
        }
        let parsed = match is_service {
            true => parse_service(authority),
            false => parse_authority(authority, if tls { 443 } else { 80 }),
        };
        let (address, authority) = parsed.map_err(|problem| format!("`{text}`: {problem}"))?;
        let base_path = parse_base_path(path).map_err(|problem| format!("`{text}`: {problem}"))?;
        Ok(TargetUrl { text: text.to_owned(), tls, address, authority: Some(authority), base_path })
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Host and port as an address, and as the `Host` that the target sees.
pub(crate) fn parse_authority(text: &str, default_port: u16) -> Result<(TargetAddress, String), String> {
    let bracket = text.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match text[bracket..].rfind(':') {
        Some(colon) => (&text[..bracket + colon], Some(&text[bracket + colon + 1..])),
        None => (text, None),
    };
    let port = match port {
        None => default_port,
        Some(digits) => digits
            .parse()
            .ok()
            .filter(|&port: &u16| port != 0 && !digits.starts_with('+'))
            .ok_or_else(|| format!("`{digits}` is not a port"))?,
    };
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let ip: Option<IpAddr> = match literal {
        Some(inside) => match inside.parse() {
            Ok(ip @ IpAddr::V6(_)) => Some(ip),
            _ => return Err(format!("`{host}` is not an IPv6 address")),
        },
        None => host.parse().ok().filter(IpAddr::is_ipv4),
    };
    let host = host.to_ascii_lowercase();
    if ip.is_none() && !is_host_name(&host) {
        return Err(format!("`{host}` is not the name of a host"));
    }
    let authority = if port == default_port { host.clone() } else { format!("{host}:{port}") };
    let address = match ip {
        Some(ip) => TargetAddress::Ip(SocketAddr::new(ip, port)),
        None => TargetAddress::Name { host: host.into(), port },
    };
    Ok((address, authority))
}

/// Name of SRV records (RFC 2782), and the domain in it: what is left without `_service._proto`.
fn parse_service(name: &str) -> Result<(TargetAddress, String), String> {
    if name.contains(':') {
        return Err("SRV records say the port; leave it out".to_owned());
    }
    let name = name.to_ascii_lowercase();
    if !is_host_name(&name) {
        return Err(format!("`{name}` is not a name in DNS"));
    }
    let whole = name.strip_suffix('.').unwrap_or(&name);
    let labels: Vec<&str> = whole.split('.').skip_while(|label| label.starts_with('_')).collect();
    if labels.is_empty() {
        return Err(format!("`{name}` has no domain; write `_SERVICE._PROTO.DOMAIN`"));
    }
    Ok((TargetAddress::Service(name.as_str().into()), labels.join(".")))
}

/// Letters, digits, hyphens and, as container networks use them, underscores.
pub fn is_host_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name of digits and dots only is an address with a slip in it.
    let digits = name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    name.len() <= 253 && !digits && name.split('.').all(label)
}

pub(crate) fn parse_base_path(path: &str) -> Result<String, String> {
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    if trimmed.is_empty() {
        return Ok(String::new());
    }
    check_path(trimmed)?;
    Ok(trimmed.to_owned())
}

/// A path that is written to upstreams or clients as it stands: in the normal form, so that nobody reads it in another way.
pub(crate) fn check_path(path: &str) -> Result<(), String> {
    let mut scratch = Vec::new();
    match message::path::normalise(path.as_bytes(), &mut scratch) {
        Err(refusal) => Err(refusal.to_string()),
        Ok(target) if target.path == path.as_bytes() => Ok(()),
        Ok(target) if target.query.is_some() => Err("a query is not allowed here".to_owned()),
        Ok(target) => Err(format!("write it in its normal form, `{}`", String::from_utf8_lossy(target.path))),
    }
}

/// `client_ip`, `header:NAME` or `path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashKeyText(pub HashKey);

text_type!(
    HashKeyText,
    "HashKey",
    r"^(client_ip|path|header:\S+)$",
    "input of a hash: `client_ip`, `path` or `header:NAME`"
);

impl FromStr for HashKeyText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(HashKeyText(match text {
            "client_ip" => HashKey::ClientIp,
            "path" => HashKey::Path,
            _ => match text.strip_prefix("header:") {
                Some(name) => HashKey::Header(field(name)?.into()),
                None => {
                    return Err(format!("expected `client_ip`, `header:NAME` or `path`, found `{text}`"));
                }
            },
        }))
    }
}

impl fmt::Display for HashKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HashKey::ClientIp => f.write_str("client_ip"),
            HashKey::Path => f.write_str("path"),
            HashKey::Header(name) => write!(f, "header:{name}"),
        }
    }
}

/// `client_ip`, `header:NAME`, `query:NAME`, `consumer`, `virtual_key`, `team`, `tier`, `claim:PATH`, `meta:NAME`, `model`, `route` or `global`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitKeyText(pub LimitKey);

text_type!(
    LimitKeyText,
    "LimitKey",
    r"^(client_ip|consumer|virtual_key|team|tier|model|route|global|(header|query|claim|meta):\S+)$",
    "key of a limit: `client_ip`, `header:NAME`, `query:NAME`, `consumer`, `virtual_key`, `team`, `tier`, `claim:PATH`, `meta:NAME`, `model`, `route` or `global`"
);

impl FromStr for LimitKeyText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let key = match (text, text.split_once(':')) {
            ("client_ip", _) => LimitKey::ClientIp,
            ("consumer", _) => LimitKey::Consumer,
            ("virtual_key", _) => LimitKey::VirtualKey,
            ("team", _) => LimitKey::Team,
            ("tier", _) => LimitKey::Tier,
            ("model", _) => LimitKey::Model,
            (_, Some(("claim", path))) if !path.is_empty() => LimitKey::Claim(path.into()),
            (_, Some(("meta", name))) if !name.is_empty() => LimitKey::Meta(name.into()),
            ("route", _) => LimitKey::Route,
            ("global", _) => LimitKey::Global,
            (_, Some(("header", name))) => LimitKey::Header(field(name)?.into()),
            (_, Some(("query", name))) if !name.is_empty() => LimitKey::Query(name.into()),
            _ => {
                return Err(format!(
                    "expected `client_ip`, `header:NAME`, `query:NAME`, `consumer`, `virtual_key`, `team`, `tier`, `claim:PATH`, `meta:NAME`, `model`, `route` or `global`, found `{text}`"
                ));
            }
        };
        Ok(LimitKeyText(key))
    }
}

impl fmt::Display for LimitKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            LimitKey::ClientIp => f.write_str("client_ip"),
            LimitKey::Consumer => f.write_str("consumer"),
            LimitKey::VirtualKey => f.write_str("virtual_key"),
            LimitKey::Team => f.write_str("team"),
            LimitKey::Tier => f.write_str("tier"),
            LimitKey::Model => f.write_str("model"),
            LimitKey::Claim(path) => write!(f, "claim:{path}"),
            LimitKey::Meta(name) => write!(f, "meta:{name}"),
            LimitKey::Route => f.write_str("route"),
            LimitKey::Global => f.write_str("global"),
            LimitKey::Header(name) => write!(f, "header:{name}"),
            LimitKey::Query(name) => write!(f, "query:{name}"),
        }
    }
}

/// The name of a header field, as requests are searched for it.
fn field(name: &str) -> Result<String, String> {
    if is_token(name) {
        Ok(name.to_ascii_lowercase())
    } else {
        Err(format!("`{name}` is not the name of a header field"))
    }
}

#[cfg(test)]
mod tests;
