//! The listeners of the process: opened at the start, and changed by reloads, all of them or none.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tls::Names;
use tls::server::{self, Tickets};

use super::listen::{self, Group};
use crate::config::{self, ListenerTls, Serves, TcpOptions};

/// What connections know of the listener that they came by.
#[derive(Debug, Default)]
pub struct Origin {
    /// Name of the listener; empty without one.
    name: ArcSwap<String>,
    is_closed: AtomicBool,
    settings: ArcSwap<Settings>,
    /// Whether every request is redirected.
    redirects: AtomicBool,
    accepts: ArcSwap<Accepts>,
    /// Another number after each change of `accepts`.
    generation: AtomicU64,
    /// Where requests are redirected to, if they are.
    hosts: ArcSwap<HttpsHosts>,
}

/// What a listener does with the connections that it accepts, but for TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether a connection in clear text may begin with the preface of HTTP/2.
    pub takes_prior_knowledge: bool,
    /// PROXY header that a connection begins with.
    pub proxy_protocol: Option<proxy_protocol::Accepts>,
    /// Options of TCP connections.
    pub tcp: TcpOptions,
}

/// How a listener's connections begin.
#[derive(Debug, Default)]
pub enum Accepts {
    /// With a request.
    #[default]
    Http,
    /// With a TLS handshake.
    Https(Arc<server::Listener>),
}

/// Hosts that are served over TLS, with the ports of their listeners.
#[derive(Debug, Default)]
pub struct HttpsHosts(Vec<(Arc<Names>, u16)>);

impl HttpsHosts {
    /// The port at which a host (without port, in lower case) is served over TLS.
    pub fn port_of(&self, host: &str) -> Option<u16> {
        self.0.iter().find(|(names, _)| names.serves(host)).map(|(_, port)| *port)
    }
}

impl Origin {
    /// Follows the configuration; whether that changes anything.
    fn follow(&self, configured: &config::Listen) -> bool {
        let settings = Settings {
            takes_prior_knowledge: configured.takes_prior_knowledge,
            proxy_protocol: configured.proxy_protocol,
            tcp: configured.tcp,
        };
        let has_changed = **self.settings.load() != settings;
        if has_changed {
            self.settings.store(Arc::new(settings));
        }
        let name = configured.name.as_deref().unwrap_or_default();
        if **self.name.load() != *name {
            self.name.store(Arc::new(name.to_owned()));
        }
        has_changed
    }

    /// Name of the listener; empty without one.
    pub fn name(&self) -> Arc<String> {
        self.name.load_full()
    }

    /// How connections are treated that are accepted now.
    pub fn settings(&self) -> Settings {
        **self.settings.load()
    }

    /// Whether the listener was removed: its connections end with their next response.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// A number that changes behind [`accepts`](Self::accepts): who reads it first never takes an old policy for a new one.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// How connections begin that are accepted now.
    pub fn accepts(&self) -> Arc<Accepts> {
        self.accepts.load_full()
    }

    /// The hosts that requests are redirected to, if they are.
    #[inline]
    pub fn redirects(&self) -> Option<Arc<HttpsHosts>> {
        self.redirects.load(Ordering::Relaxed).then(|| self.hosts.load_full())
    }
}

/// One socket of a listener, for one worker.
#[derive(Debug)]
pub struct Socket {
    /// The address that it is bound to.
    pub address: SocketAddr,
    /// What its connections know of it.
    pub origin: Arc<Origin>,
    /// The socket itself.
    pub listener: TcpListener,
}

#[derive(Debug)]
struct Listener {
    /// As in the configuration, where the port may be 0.
    configured: SocketAddr,
    /// Its address and duplicates of its sockets, if they are kept for a take-over.
    group: Group,
    origin: Arc<Origin>,
    /// What is in force for its connections.
    serves: Serves,
}

impl Listener {
    fn is(&self, configured: SocketAddr) -> bool {
        self.configured == configured || self.group.address == configured
    }

    fn tls(&self) -> Option<&ListenerTls> {
        match &self.serves {
            Serves::Https(tls) => Some(tls),
            Serves::Http | Serves::RedirectToHttps => None,
        }
    }

    fn url(&self) -> String {
        let scheme = if self.tls().is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.group.address)
    }
}

/// The listeners as the control thread knows them.
#[derive(Debug)]
pub struct Listeners {
    list: Vec<Listener>,
    /// Keys of TLS sessions, which outlive reloads.
    tickets: Tickets,
    workers: usize,
    keeps_duplicates: bool,
}

/// Listeners that are open and not in use yet. Dropping it closes them: nothing was accepted.
#[derive(Debug)]
pub struct Opened {
    wanted: Vec<config::Listen>,
    groups: Vec<(SocketAddr, Group)>,
}

/// What a reload changes.
#[derive(Debug, Default)]
pub struct Change {
    /// New sockets, for each worker.
    pub opened: Vec<Vec<Socket>>,
    /// Addresses of new listeners.
    pub added: Vec<SocketAddr>,
    /// Addresses of listeners that speak TLS, redirect, or show certificates in another way than before.
    pub changed: Vec<SocketAddr>,
    /// Addresses of listeners that are no longer there.
    pub removed: Vec<SocketAddr>,
}

impl Listeners {
    /// Takes over the listeners of a process that starts; `configured` are they in the configuration. Returns the sockets of each worker.
    ///
    /// # Errors
    /// When the sockets cannot be duplicated for a take-over.
    pub fn new(
        configured: &[config::Listen],
        groups: Vec<Group>,
        workers: usize,
        keeps_duplicates: bool,
    ) -> io::Result<(Listeners, Vec<Vec<Socket>>)> {
        let mut listeners = Listeners { list: Vec::new(), tickets: Tickets::default(), workers, keeps_duplicates };
        let mut sockets: Vec<Vec<Socket>> = (0..workers).map(|_| Vec::new()).collect();
        for (configured, group) in configured.iter().zip(groups) {
            listeners.add(configured.bind, group, &mut sockets)?;
        }
        listeners.configure(configured);
        Ok((listeners, sockets))
    }

    /// Opens the listeners of `wanted` that are not open yet.
    ///
    /// # Errors
    /// The address that cannot be listened on, and why; then none was opened.
    pub fn open(&self, wanted: &[config::Listen]) -> Result<Opened, (SocketAddr, io::Error)> {
        let mut groups = Vec::new();
        for address in wanted.iter().map(|wanted| wanted.bind) {
            if self.list.iter().any(|listener| listener.is(address)) {
                continue;
            }
            // The one that it takes the place of is open until the new one is.
            let overlaps = |listener: &Listener| overlaps(listener.group.address, address);
            let group = if self.list.iter().any(overlaps) {
                listen::bind_beside(address, self.workers)
            } else {
                listen::bind(address, self.workers)
            };
            groups.push((address, group.map_err(|error| (address, error))?));
        }
        Ok(Opened { wanted: wanted.to_vec(), groups })
    }

    /// Puts what was opened in force.
    ///
    /// # Errors
    /// When the sockets cannot be duplicated for a take-over; then nothing has changed.
    pub fn apply(&mut self, opened: Opened) -> io::Result<Change> {
        let before = self.list.len();
        let mut sockets: Vec<Vec<Socket>> = (0..self.workers).map(|_| Vec::new()).collect();
        for (configured, group) in opened.groups {
            if let Err(error) = self.add(configured, group, &mut sockets) {
                self.list.truncate(before);
                return Err(error);
            }
        }
        let mut change = Change { opened: sockets, ..Change::default() };
        change.added.extend(self.list[before..].iter().map(|listener| listener.group.address));
        self.list.retain_mut(|listener| {
            match opened.wanted.iter().find(|wanted| listener.is(wanted.bind)) {
                Some(wanted) => {
                    listener.configured = wanted.bind;
                    true
                }
                // Its duplicates go before the workers close theirs: the last one closes the queue.
                None => {
                    listener.origin.is_closed.store(true, Ordering::Relaxed);
                    change.removed.push(listener.group.address);
                    false
                }
            }
        });
        change.changed = self.configure(&opened.wanted);
        change.changed.retain(|address| !change.added.contains(address));
        Ok(change)
    }

    /// Puts in force what the configuration says of each listener. Connections that are there keep what they began with, as long as their
    /// clients would still be accepted.
    /// Returns the addresses of those that changed.
    fn configure(&mut self, wanted: &[config::Listen]) -> Vec<SocketAddr> {
        let mut changed = Vec::new();
        let mut free: Vec<&config::Listen> = wanted.iter().collect();
        let mut redirecting = Vec::new();
        for listener in &mut self.list {
            // One entry for each: several may request any free port of one address.
            let Some(position) = free.iter().position(|wanted| listener.is(wanted.bind)) else { continue };
            let wanted = free.remove(position);
            if listener.origin.follow(wanted) {
                changed.push(listener.group.address);
            }
            let serves = &wanted.serves;
            if listener.serves == *serves {
                // Also where it redirects: the hosts may be others.
                if *serves == Serves::RedirectToHttps {
                    redirecting.push(listener.origin.clone());
                }
                continue;
            }
            let accepts = match serves {
                Serves::Https(tls) => match server::Listener::new(&tls.options, &self.tickets) {
                    Ok(made) => {
                        warn_of_problems(tls);
                        Accepts::Https(Arc::new(made))
                    }
                    // It was made once when the configuration was checked, so it can be made.
                    Err(error) => {
                        tracing::error!(%error, address = %listener.group.address, "TLS cannot be set up: it stays as it was");
                        continue;
                    }
                },
                Serves::Http => Accepts::Http,
                Serves::RedirectToHttps => {
                    redirecting.push(listener.origin.clone());
                    Accepts::Http
                }
            };
            listener.serves = serves.clone();
            if changed.last() != Some(&listener.group.address) {
                changed.push(listener.group.address);
            }
            listener.origin.redirects.store(false, Ordering::Relaxed);
            listener.origin.accepts.store(Arc::new(accepts));
            listener.origin.generation.fetch_add(1, Ordering::Release);
        }
        let of =
            |listener: &Listener| listener.tls().map(|tls| (tls.options.names.clone(), listener.group.address.port()));
        let hosts = Arc::new(HttpsHosts(self.list.iter().filter_map(of).collect()));
        for origin in redirecting {
            origin.hosts.store(hosts.clone());
            origin.redirects.store(true, Ordering::Relaxed);
        }
        self.tickets.retain(self.list.iter().filter_map(Listener::tls).map(|tls| &tls.options));
        changed
    }

    /// Duplicates for another process.
    ///
    /// # Errors
    /// The system's.
    pub fn duplicates(&self) -> io::Result<Vec<Group>> {
        self.list.iter().map(|listener| listener.group.try_clone()).collect()
    }

    /// Gives up the duplicates: from now on the sockets are the workers' alone.
    pub fn drop_duplicates(&mut self) {
        self.keeps_duplicates = false;
        self.list.iter_mut().for_each(|listener| listener.group.sockets.clear());
    }

    /// Where clients connect, as URLs.
    pub fn urls(&self) -> Vec<String> {
        self.list.iter().map(Listener::url).collect()
    }

    /// The same for one listener.
    pub fn url_of(&self, address: SocketAddr) -> Option<String> {
        self.list.iter().find(|listener| listener.group.address == address).map(Listener::url)
    }

    /// Adds a listener; each worker gets its sockets. There may be more sockets than workers: they come from a process that had more of them, and all
    /// must be listened on.
    fn add(&mut self, configured: SocketAddr, group: Group, workers: &mut [Vec<Socket>]) -> io::Result<()> {
        let origin = Arc::new(Origin::default());
        let address = group.address;
        let kept = if self.keeps_duplicates { group.try_clone()? } else { Group { address, sockets: Vec::new() } };
        for (index, listener) in group.sockets.into_iter().enumerate() {
            workers[index % self.workers].push(Socket { address, origin: origin.clone(), listener });
        }
        self.list.push(Listener { configured, group: kept, origin, serves: Serves::Http });
        Ok(())
    }
}

/// Says what clients will not like about certificates.
fn warn_of_problems(tls: &ListenerTls) {
    let now = SystemTime::now();
    for certificate in tls.options.names.certificates() {
        if let Some(problem) = certificate.facts.problem(now) {
            let names = certificate.facts.dns_names.join(", ");
            tracing::warn!(names, subject = certificate.facts.subject, "{problem}");
        }
    }
}

/// Whether sockets at both addresses could not be bound without SO_REUSEPORT.
fn overlaps(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && (one.ip().is_unspecified() || other.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn listeners(configured: &[&str], keeps_duplicates: bool) -> (Listeners, Vec<Vec<Socket>>) {
        let configured: Vec<config::Listen> = configured.iter().map(|text| address(text).into()).collect();
        let groups = configured.iter().map(|listener| listen::bind(listener.bind, 2).unwrap()).collect();
        Listeners::new(&configured, groups, 2, keeps_duplicates).unwrap()
    }

    #[test]
    fn every_socket_has_a_worker() {
        let group = listen::bind(address("127.0.0.1:0"), 5).unwrap();
        let (_, sockets) = Listeners::new(&[address("127.0.0.1:0").into()], vec![group], 2, false).unwrap();
        let counts: Vec<usize> = sockets.iter().map(Vec::len).collect();
        assert_eq!(counts, [3, 2]);
    }

    #[test]
    fn all_are_opened_or_none() {
        let (mut listeners, _sockets) = listeners(&["127.0.0.1:0"], true);
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let wanted = [address("127.0.0.2:0"), taken.local_addr().unwrap()];
        let (refused, error) = listeners.open(&wanted.map(config::Listen::from)).unwrap_err();
        assert_eq!((refused, error.kind()), (wanted[1], io::ErrorKind::AddrInUse));
        assert_eq!(listeners.list.len(), 1);

        let first = listeners.list[0].group.address;
        let opened = listeners.open(&[first.into(), address("127.0.0.2:0").into()]).unwrap();
        let change = listeners.apply(opened).unwrap();
        assert_eq!((change.added.len(), change.removed.len()), (1, 0));
        assert_eq!(change.opened.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(listeners.duplicates().unwrap().len(), 2);
        let opened = listeners.open(&[address("127.0.0.2:0").into()]).unwrap();
        let change = listeners.apply(opened).unwrap();
        assert_eq!(change.removed, [first]);
        assert!(change.opened.iter().all(Vec::is_empty));
    }

    #[test]
    fn an_address_can_become_the_unspecified_one() {
        let (mut listeners, sockets) = listeners(&["127.0.0.1:0"], false);
        let before = listeners.list[0].group.address;
        let wanted = SocketAddr::new([0, 0, 0, 0].into(), before.port());
        let opened = listeners.open(&[wanted.into()]).unwrap();
        let change = listeners.apply(opened).unwrap();
        assert_eq!((change.added, change.removed), (vec![wanted], vec![before]));
        assert!(sockets[0][0].origin.is_closed());
    }
}
