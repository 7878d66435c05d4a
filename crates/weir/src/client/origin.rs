//! What connections know of the listener that they came by; its settings follow the configuration while they live.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tls::Names;
use tls::server;

use crate::config::{self, TcpOptions};

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
pub struct HttpsHosts(pub Vec<(Arc<Names>, u16)>);

impl HttpsHosts {
    /// The port at which a host (without port, in lower case) is served over TLS.
    pub fn port_of(&self, host: &str) -> Option<u16> {
        self.0.iter().find(|(names, _)| names.serves(host)).map(|(_, port)| *port)
    }
}

impl Origin {
    /// Follows the configuration; whether that changes anything.
    pub fn follow(&self, configured: &config::Listen) -> bool {
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

    /// The listener was removed.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Connections begin so from now on; their requests are served.
    pub fn accept(&self, accepts: Accepts) {
        self.redirects.store(false, Ordering::Relaxed);
        self.accepts.store(Arc::new(accepts));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Requests are redirected to these hosts from now on.
    pub fn redirect(&self, hosts: Arc<HttpsHosts>) {
        self.hosts.store(hosts);
        self.redirects.store(true, Ordering::Relaxed);
    }
}
