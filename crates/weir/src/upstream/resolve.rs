//! Names of targets to addresses, again and again.
//!
//! As the system does it: `/etc/hosts` first (a name that is there is never requested elsewhere, not even for the other family), then the name servers and
//! search domains of `/etc/resolv.conf`; both files are read again when they change. Every A and AAAA record of the response is a target, except
//! those that this machine has no route to, as long as another one is left: an IPv6 address is no target on a machine without IPv6.
//!
//! The name is resolved again when the TTL ends, but not more often than once a second and not more rarely than every five minutes. A failure of any
//! kind, "no such name" included, keeps the addresses that were known: targets that were really removed fail their health checks and connections, whereas
//! an empty response by mistake would take everything down. That holds for each address family by itself: when only A or only AAAA fails, the
//! last good addresses of that family stay. Failures are repeated after 1, 2, 4, ... 30 seconds.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::config::{LookupIpStrategy, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Resolver as Dns, TokioResolver};
use tokio::sync::Semaphore;

/// Whether an address is of a family.
type IsOfFamily = fn(&IpAddr) -> bool;

/// The record types of addresses.
const FAMILIES: [(RecordType, IsOfFamily); 2] = [(RecordType::A, IpAddr::is_ipv4), (RecordType::AAAA, IpAddr::is_ipv6)];

/// Look-ups at the same time: each has a socket or two, and files and SRV records may name thousands of hosts.
const QUERIES: usize = 512;

/// How often names are resolved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Least time between two responses, however short the TTL.
    pub(super) min: Duration,
    /// Longest time that a response is believed, and one from the hosts file.
    pub(super) max: Duration,
    pub(super) hosts: Duration,
    /// Time after the first failure; doubles up to `retry_max`.
    pub(super) retry: Duration,
    pub(super) retry_max: Duration,
}

impl Pace {
    /// Pause after so many failures in a row, at least one.
    pub(super) fn after_failures(&self, failures: u32) -> Duration {
        self.retry.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.retry_max)
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            min: Duration::from_secs(1),
            max: Duration::from_secs(300),
            hosts: Duration::from_secs(10),
            retry: Duration::from_secs(1),
            retry_max: Duration::from_secs(30),
        }
    }
}

/// Finds the addresses of names. Cheap to clone; its clones share their state.
#[derive(Clone)]
pub struct Resolver(Arc<State>);

struct State {
    hosts: PathBuf,
    servers: Servers,
    pace: Pace,
    /// Look-ups at the same time.
    queries: Semaphore,
    /// Whether this machine can send to an address.
    is_routable: fn(IpAddr) -> bool,
}

/// Where name servers and search domains come from.
enum Servers {
    /// This file, read again when it changes.
    File { path: PathBuf, current: Mutex<Option<FromFile>> },
    /// Fixed.
    #[cfg(test)]
    Fixed(TokioResolver),
}

struct FromFile {
    modified: Option<SystemTime>,
    dns: TokioResolver,
}

/// Addresses of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    /// Not empty.
    pub(super) addresses: Vec<IpAddr>,
    /// When to resolve again, within the bounds.
    pub(super) valid_for: Duration,
}

impl Resolver {
    /// Resolves as `/etc/hosts` and `/etc/resolv.conf` say. Nothing is read before the first look-up.
    pub fn system() -> Resolver {
        Resolver(Arc::new(State {
            hosts: "/etc/hosts".into(),
            servers: Servers::File { path: "/etc/resolv.conf".into(), current: Mutex::default() },
            pace: Pace::default(),
            queries: Semaphore::new(QUERIES),
            is_routable,
        }))
    }

    /// Addresses of a name that no upstream has.
    ///
    /// # Errors
    /// What went wrong, for people.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        self.look_up(host, &[]).await.map(|resolved| resolved.addresses)
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.0.pace
    }

    /// Addresses of `host` now, of which `known` are known so far; what went wrong, for people.
    pub(super) async fn look_up(&self, host: &str, known: &[IpAddr]) -> Result<Resolved, String> {
        let resolved = match from_hosts_file(&self.0.hosts, host) {
            Some(addresses) => Resolved { addresses, valid_for: self.0.pace.hosts },
            None => self.query(host, known).await?,
        };
        Ok(self.without_unroutable(resolved))
    }

    async fn query(&self, host: &str, known: &[IpAddr]) -> Result<Resolved, String> {
        // Nobody closes it.
        let _permit = self.0.queries.acquire().await;
        let dns = self.dns()?;
        // Relaxed: names with an underscore are no host names (RFC 952), and what Compose calls its services.
        let name = Name::from_str_relaxed(host).map_err(|error| error.to_string())?;
        let found = dns.lookup_ip(name).await.map_err(|error| error.to_string())?;
        let valid_for = found.valid_until().saturating_duration_since(Instant::now());
        let addresses: Vec<IpAddr> = found.iter().collect();
        if addresses.is_empty() {
            return Err("the DNS response holds no address".into());
        }
        let mut resolved = Resolved { addresses, valid_for: valid_for.clamp(self.0.pace.min, self.0.pace.max) };
        // The client joins both families and does not say which of them failed.
        for (kind, is_of_family) in FAMILIES {
            let known: Vec<IpAddr> = known.iter().copied().filter(is_of_family).collect();
            if known.is_empty() || resolved.addresses.iter().any(is_of_family) {
                continue;
            }
            let mut name = found.query().name().clone();
            name.set_fqdn(true);
            match dns.lookup(name, kind).await {
                Ok(found) => {
                    resolved.addresses.extend(found.answers().iter().filter_map(|record| record.data.ip_addr()));
                }
                // The name server says that there are none: the family has been removed.
                Err(error) if error.is_no_records_found() => {}
                Err(error) => {
                    tracing::warn!(host, %kind, %error, kept = ?known, "half of a name not resolved");
                    resolved.addresses.extend(known);
                    resolved.valid_for = resolved.valid_for.min(self.0.pace.retry_max);
                }
            }
        }
        Ok(resolved)
    }

    /// The client for the name servers at this moment.
    pub(super) fn dns(&self) -> Result<TokioResolver, String> {
        let (path, current) = match &self.0.servers {
            Servers::File { path, current } => (path, current),
            #[cfg(test)]
            Servers::Fixed(dns) => return Ok(dns.clone()),
        };
        let modified = std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let mut current = super::lock(current);
        if let Some(known) = &*current
            && known.modified == modified
        {
            return Ok(known.dns.clone());
        }
        let dns = std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|text| {
                let parsed = hickory_resolver::system_conf::parse_resolv_conf(text);
                parsed.map_err(|error| error.to_string())
            })
            .and_then(|(config, options)| client(config, options))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        *current = Some(FromFile { modified, dns: dns.clone() });
        Ok(dns)
    }

    fn without_unroutable(&self, mut resolved: Resolved) -> Resolved {
        if resolved.addresses.iter().any(|address| (self.0.is_routable)(*address)) {
            resolved.addresses.retain(|address| (self.0.is_routable)(*address));
        }
        resolved
    }
}

/// A client that keeps nothing (we check when we want to know) and leaves the hosts file to us.
fn client(config: ResolverConfig, mut options: ResolverOpts) -> Result<TokioResolver, String> {
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    Dns::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .map_err(|error| error.to_string())
}

/// Addresses of a name in the hosts file (hosts(5)); `None` when it is not there.
fn from_hosts_file(path: &std::path::Path, host: &str) -> Option<Vec<IpAddr>> {
    let text = std::fs::read_to_string(path).ok()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    let mut addresses = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        if let Some(address) = address
            && words.any(|name| name.eq_ignore_ascii_case(host))
            && !addresses.contains(&address)
        {
            addresses.push(address);
        }
    }
    (!addresses.is_empty()).then_some(addresses)
}

/// Whether this machine has a source address and a route for `address`: connecting a datagram socket queries the kernel and sends nothing.
fn is_routable(address: IpAddr) -> bool {
    let local: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let connect = || -> io::Result<()> {
        // Port 9 is discard; any port does.
        UdpSocket::bind(SocketAddr::new(local, 0))?.connect(SocketAddr::new(address, 9))
    };
    connect().is_ok()
}

#[cfg(test)]
pub(super) mod tests;
