//! URLs of Redis: what `redis: {url}` may say, and what it means.

use std::fmt;

/// Port of a Redis that the URL does not name.
const PORT: u16 = 6379;
/// Port of a Sentinel that the URL does not name.
const SENTINEL_PORT: u16 = 26379;

/// Forms that [`Address::parse`] reads, for messages.
pub const FORMS: &str = "redis://[user:password@]host[:port][/database], rediss://... for TLS, \
     redis+cluster://a[:port],b,c or redis+sentinel://host[:port][,host]/service[/database]";

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// Name or address, without the brackets of IPv6.
    pub name: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// Which servers there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Servers {
    /// One Redis.
    One(Host),
    /// Some nodes of a Redis Cluster; the others are learnt from them.
    Cluster(Vec<Host>),
    /// Sentinels. They are queried for the primary, in this order.
    Sentinel {
        /// Where they are.
        sentinels: Vec<Host>,
        /// Name under which they watch the primary.
        service: String,
        /// Password of the Sentinels themselves.
        password: Option<String>,
    },
}

/// What a URL says.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Where Redis is.
    pub servers: Servers,
    /// Whether connections are TLS.
    pub tls: bool,
    /// User (ACL); the default user without one.
    pub user: Option<String>,
    /// Password: never print it.
    pub password: Option<String>,
    /// Number of the database.
    pub database: u32,
}

impl fmt::Debug for Address {
    /// Leaves user and password out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("servers", &self.to_string()).field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl fmt::Display for Address {
    /// The servers, for logs: no user, no password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hosts, service) = match &self.servers {
            Servers::One(host) => (std::slice::from_ref(host), None),
            Servers::Cluster(hosts) => (&hosts[..], None),
            Servers::Sentinel { sentinels, service, .. } => (&sentinels[..], Some(service)),
        };
        for (index, host) in hosts.iter().enumerate() {
            write!(f, "{}{host}", if index == 0 { "" } else { "," })?;
        }
        service.map_or(Ok(()), |service| write!(f, "/{service}"))
    }
}

/// What is wrong with a URL; never shows any of it, as it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}; a Redis URL is {FORMS}")]
pub struct BadUrl(&'static str);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    One,
    Cluster,
    Sentinel,
}

impl Address {
    /// Reads a URL. User and password are percent-encoded where they hold `@ : / ? # %` or a comma. Cluster and Sentinel take
    /// `?tls=true`, Sentinel also `?sentinel_password=` (URLs of Redis itself use the scheme `rediss`).
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(url: &str) -> Result<Address, BadUrl> {
        let schemes = [
            ("redis://", Kind::One, false),
            ("rediss://", Kind::One, true),
            ("redis+cluster://", Kind::Cluster, false),
            ("redis+sentinel://", Kind::Sentinel, false),
        ];
        let find = |&(scheme, kind, tls)| Some((url.strip_prefix(scheme)?, kind, tls));
        let (rest, kind, mut tls) = schemes
            .iter()
            .find_map(find)
            .ok_or(BadUrl("the scheme is not redis, rediss, redis+cluster or redis+sentinel"))?;
        if rest.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
            return Err(BadUrl("there is a space or a `#` in it"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A password may hold `@` as %40 only, but a stray one is kinder read from the right.
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (user, password) = credentials.map_or(Ok((None, None)), read_credentials)?;
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let default_port = if kind == Kind::Sentinel { SENTINEL_PORT } else { PORT };
        let hosts = hosts.split(',').map(|host| read_host(host, default_port)).collect::<Result<Vec<_>, _>>()?;

        let mut sentinel_password = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match (pair.split_once('=').unwrap_or((pair, "")), kind) {
                (("tls", "true"), Kind::Cluster | Kind::Sentinel) => tls = true,
                (("tls", "false"), Kind::Cluster | Kind::Sentinel) => {}
                (("sentinel_password", word), Kind::Sentinel) => sentinel_password = Some(decode(word)?),
                _ => {
                    return Err(BadUrl("the query (after `?`) has something other than tls=true or sentinel_password"));
                }
            }
        }

        let (service, database) = match kind {
            Kind::Sentinel => path.split_once('/').unwrap_or((path, "")),
            _ => ("", path),
        };
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| BadUrl("the database is not a number"))?,
        };
        let servers = match (kind, hosts) {
            (Kind::One, mut hosts) if hosts.len() == 1 => Servers::One(hosts.remove(0)),
            (Kind::One, _) => return Err(BadUrl("several hosts need redis+cluster:// or redis+sentinel://")),
            (Kind::Cluster, _) if database != 0 => return Err(BadUrl("a cluster has only the database 0")),
            (Kind::Cluster, hosts) => Servers::Cluster(hosts),
            (Kind::Sentinel, _) if service.is_empty() => return Err(BadUrl("the name of the service is missing")),
            (Kind::Sentinel, sentinels) => {
                Servers::Sentinel { sentinels, service: decode(service)?, password: sentinel_password }
            }
        };
        Ok(Address { servers, tls, user, password, database })
    }
}

fn read_credentials(text: &str) -> Result<(Option<String>, Option<String>), BadUrl> {
    let (user, password) =
        text.split_once(':').ok_or(BadUrl("a user without a password (write :password@ without a user)"))?;
    let some = |text: String| (!text.is_empty()).then_some(text);
    Ok((some(decode(user)?), some(decode(password)?)))
}

fn read_host(text: &str, default_port: u16) -> Result<Host, BadUrl> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']').ok_or(BadUrl("`[` without `]`"))?;
            if name.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(BadUrl("the text in brackets is not an IPv6 address"));
            }
            (name, port)
        }
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    if name.is_empty() {
        return Err(BadUrl("a host is missing"));
    }
    let port = match port {
        "" => default_port,
        port => {
            let number = port.strip_prefix(':').and_then(|port| port.parse().ok());
            number.filter(|&port| port != 0).ok_or(BadUrl("a port is not a number from 1 to 65535"))?
        }
    };
    Ok(Host { name: name.to_owned(), port })
}

/// Resolves percent-encoding.
fn decode(text: &str) -> Result<String, BadUrl> {
    const BAD: BadUrl = BadUrl("a `%` that is not followed by two hexadecimal digits of UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = tail.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)).ok_or(BAD)?;
            let digits = std::str::from_utf8(digits).map_err(|_| BAD)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| BAD)?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_err(|_| BAD)
}
