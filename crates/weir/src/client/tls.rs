//! What the TLS handshake of a client's connection established.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tls::server::Listener;
use tls::{Names, Session};

use crate::client::origin::{Accepts, Origin};
use crate::policy::auth::ClientCertificate;
use crate::route::host;

/// A client's TLS. It lasts as long as its connection, whatever is reloaded meanwhile.
#[derive(Debug)]
pub struct ClientTls {
    /// What was negotiated.
    pub session: Session,
    /// The client's certificate.
    pub certificate: Option<ClientCertificate>,
    /// The listener's authorities by which the client is accepted, by number; and whether it is.
    accepted: Cell<(u64, bool)>,
    /// What the authorities were called in the handshake.
    authorities: Option<Arc<str>>,
    /// The listener's hosts at the time of the handshake.
    names: Arc<Names>,
    /// The authority that was allowed last: the next one is mostly the same.
    allowed: RefCell<Vec<u8>>,
}

impl ClientTls {
    /// The TLS of a connection to a listener, whose policy had this number.
    pub fn new(session: Session, listener: &Listener, generation: u64) -> Self {
        let authorities = listener.client_authorities(session.sni.as_deref());
        let certificate = session.client_chain.first().cloned().zip(authorities.clone());
        let certificate = certificate.map(|(der, authorities)| ClientCertificate::new(der, authorities));
        ClientTls {
            session,
            certificate,
            accepted: Cell::new((generation, true)),
            authorities,
            names: listener.names.clone(),
            allowed: RefCell::default(),
        }
    }

    /// Whether the listener, as it is now, would let this client in: a certificate may have been revoked, or its authority removed, since the
    /// handshake. Decided once for each change of the listener.
    #[inline]
    pub fn is_still_accepted(&self, origin: &Origin) -> bool {
        let (generation, is_accepted) = self.accepted.get();
        if generation == origin.generation() { is_accepted } else { self.accept_again(origin) }
    }

    #[cold]
    fn accept_again(&self, origin: &Origin) -> bool {
        // Before the policy: a change in between is seen by the next request.
        let generation = origin.generation();
        let is_accepted = match &*origin.accepts() {
            Accepts::Https(listener) => {
                let (name, chain) = (self.session.sni.as_deref(), &self.session.client_chain);
                listener.still_accepts(name, self.authorities.as_deref(), chain)
            }
            // Clear text from now on: a certificate of before says nothing there.
            Accepts::Http => self.certificate.is_none(),
        };
        self.accepted.set((generation, is_accepted));
        is_accepted
    }

    /// Whether a request for `authority` (`Host` or `:authority`, with its port) may come over this connection: the certificate that the
    /// client saw covers it, and the host has the policy that the handshake was made by. Otherwise the response is 421.
    pub fn may_carry(&self, authority: &[u8]) -> bool {
        if *self.allowed.borrow() == authority && !authority.is_empty() {
            return true;
        }
        let mut scratch = [0; host::MAX_BYTES];
        let host = host::normalise(authority, &mut scratch).and_then(|host| std::str::from_utf8(host).ok());
        let may = host.is_some_and(|host| self.names.may_carry(self.session.sni.as_deref(), host));
        if may {
            let mut allowed = self.allowed.borrow_mut();
            allowed.clear();
            allowed.extend_from_slice(authority);
        }
        may
    }
}
