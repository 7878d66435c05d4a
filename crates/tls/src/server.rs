//! What a listener needs: certificates by name, client authentication, session tickets.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::ticketer::TicketRotator;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};

use crate::names::{Names, Resolver};
use crate::provider::{Alpn, Version, ids, provider};

/// A listener's policy.
#[derive(Debug, Clone)]
pub struct Options {
    /// Certificates by name.
    pub names: Arc<Names>,
    /// What clients have to show, by [`Entry::policy`](crate::names::Entry::policy).
    pub policies: Vec<Policy>,
    /// Application protocols in order of preference; empty: none is negotiated.
    pub alpn: Vec<Alpn>,
    /// Session tickets sent after a TLS 1.3 handshake; 0: sessions are not resumed.
    pub tickets: usize,
    /// Age at which the key of tickets is replaced; tickets of the previous key are still accepted. At most six hours.
    pub rotate: Duration,
}

impl Options {
    /// Defaults for these certificates.
    pub fn new(names: Arc<Names>) -> Self {
        Options {
            names,
            policies: vec![Policy::default()],
            alpn: vec![Alpn::Http2, Alpn::Http11],
            tickets: 1,
            rotate: MAX_ROTATE,
        }
    }
}

/// What a host demands of its clients.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Whether and how clients show certificates.
    pub client_auth: Option<ClientAuth>,
    /// Oldest version spoken.
    pub min_version: Version,
}

/// Longest life of a ticket key: rustls' own.
pub const MAX_ROTATE: Duration = Duration::from_secs(6 * 60 * 60);

/// Certificates of clients.
#[derive(Debug, Clone)]
pub struct ClientAuth {
    /// What the caller knows the authorities by; see [`Listener::client_authorities`].
    pub name: Arc<str>,
    /// Authorities that issue them.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Revocation lists; with any, a certificate whose issuer has no list is accepted.
    pub revocations: Vec<CertificateRevocationListDer<'static>>,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

/// Why a listener's TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An authority's certificate or a revocation list is unusable.
    #[error("client authorities: {0}")]
    ClientAuth(String),
    /// Anything else that rustls refuses.
    #[error("{0}")]
    Rustls(#[from] rustls::Error),
}

/// What accepts connections: immutable, shared by all workers, replaced whole on reload.
#[derive(Clone)]
pub struct Listener {
    /// By policy.
    configs: Vec<Arc<ServerConfig>>,
    /// By policy; none where no certificate is asked for.
    clients: Vec<Option<Clients>>,
    /// Certificates by name.
    pub names: Arc<Names>,
}

/// How the clients of a policy are verified.
#[derive(Clone)]
struct Clients {
    /// What the caller knows the authorities by.
    name: Arc<str>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("names", &self.names.to_string()).finish_non_exhaustive()
    }
}

impl Listener {
    /// A listener with this policy, whose ticket keys come from `tickets`.
    ///
    /// # Errors
    /// What cannot be used.
    pub fn new(options: &Options, tickets: &Tickets) -> Result<Self, ServerError> {
        let clients: Vec<Option<Clients>> = options
            .policies
            .iter()
            .map(|policy| policy.client_auth.as_ref().map(clients).transpose())
            .collect::<Result<_, _>>()?;
        let each = options.policies.iter().zip(&clients);
        let configs = each
            .map(|(policy, clients)| config(options, policy, clients.as_ref(), tickets))
            .collect::<Result<_, _>>()?;
        Ok(Listener { configs, clients, names: options.names.clone() })
    }

    /// The authorities that verify the certificates of clients that ask for this name, or for none.
    pub fn client_authorities(&self, name: Option<&str>) -> Option<Arc<str>> {
        self.clients_for(name).map(|clients| clients.name.clone())
    }

    /// Whether a client that showed this chain (none: an empty one) in an earlier handshake for this name, to the authorities of that time, would
    /// be accepted now.
    pub fn still_accepts(
        &self,
        name: Option<&str>,
        authorities: Option<&str>,
        chain: &[CertificateDer<'static>],
    ) -> bool {
        match (self.clients_for(name), chain.split_first()) {
            (None, None) => true,
            (Some(clients), None) => !clients.verifier.client_auth_mandatory(),
            // Nobody would look at it any more.
            (None, Some(_)) => false,
            (Some(clients), Some((first, rest))) => {
                authorities == Some(&*clients.name)
                    && clients.verifier.verify_client_cert(first, rest, UnixTime::now()).is_ok()
            }
        }
    }

    fn clients_for(&self, name: Option<&str>) -> Option<&Clients> {
        self.clients.get(self.names.policy_for(name)?)?.as_ref()
    }

    /// What a client gets that asks for this name, or for none. `None`: there is no certificate for it.
    pub(crate) fn config_for(&self, name: Option<&str>) -> Option<Arc<ServerConfig>> {
        self.configs.get(self.names.policy_for(name)?).cloned()
    }
}

fn clients(auth: &ClientAuth) -> Result<Clients, ServerError> {
    let fail = |error: &dyn fmt::Display| ServerError::ClientAuth(error.to_string());
    let mut roots = RootCertStore::empty();
    for authority in &auth.authorities {
        roots.add(authority.clone()).map_err(|error| fail(&error))?;
    }
    let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    if !auth.revocations.is_empty() {
        verifier = verifier.with_crls(auth.revocations.iter().cloned()).allow_unknown_revocation_status();
    }
    if !auth.is_required {
        verifier = verifier.allow_unauthenticated();
    }
    Ok(Clients { name: auth.name.clone(), verifier: verifier.build().map_err(|error| fail(&error))? })
}

fn config(
    options: &Options,
    policy: &Policy,
    clients: Option<&Clients>,
    tickets: &Tickets,
) -> Result<Arc<ServerConfig>, ServerError> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(policy.min_version.and_newer())?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.verifier.clone()),
    };
    let mut config = builder.with_cert_resolver(Arc::new(Resolver(options.names.clone())));
    config.alpn_protocols = ids(&options.alpn);
    // Sessions lie with the client, sealed: nothing is stored here for a client that never comes back.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = options.tickets;
    if options.tickets > 0 {
        config.ticketer = tickets.for_policy(policy, options.rotate)?;
    }
    // Early data can be replayed (RFC 8446 section 8).
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// Ticket keys of a process, which outlive reloads. There is one set for each client-authentication policy: if two policies shared one,
/// a session made without a certificate could be resumed where one is required.
#[derive(Default)]
pub struct Tickets(Mutex<HashMap<[u8; 32], Arc<dyn ProducesTickets>>>);

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

impl Tickets {
    fn for_policy(&self, policy: &Policy, rotate: Duration) -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let policy = policy.fingerprint(rotate);
        if let Some(ticketer) = known.get(&policy) {
            return Ok(ticketer.clone());
        }
        let lifetime = rotate.min(MAX_ROTATE).as_secs().max(1);
        let ticketer = TicketRotator::new(u32::try_from(lifetime).unwrap_or(u32::MAX), || {
            Ok(Box::new(Shared(Ticketer::new().map_err(|_| rustls::crypto::GetRandomFailed)?)))
        })?;
        let ticketer: Arc<dyn ProducesTickets> = Arc::new(ticketer);
        known.insert(policy, ticketer.clone());
        Ok(ticketer)
    }

    /// Forgets the keys of policies that none of `listeners` has.
    pub fn retain<'a>(&self, listeners: impl IntoIterator<Item = &'a Options>) {
        let of = |options: &'a Options| options.policies.iter().map(|policy| policy.fingerprint(options.rotate));
        let used: Vec<_> = listeners.into_iter().flat_map(of).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|policy, _| used.contains(policy));
    }
}

impl Policy {
    /// What tells client-authentication policies apart.
    fn fingerprint(&self, rotate: Duration) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(rotate.as_nanos().to_be_bytes());
        self.hash_client_auth(&mut hash);
        hash.finalize().into()
    }

    fn hash_client_auth(&self, hash: &mut Sha256) {
        if let Some(auth) = &self.client_auth {
            hash.update([1, u8::from(auth.is_required)]);
            hash.update((auth.name.len() as u64).to_be_bytes());
            hash.update(auth.name.as_bytes());
            for list in [
                &auth.authorities.iter().map(AsRef::as_ref).collect::<Vec<&[u8]>>(),
                &auth.revocations.iter().map(AsRef::as_ref).collect(),
            ] {
                hash.update((list.len() as u64).to_be_bytes());
                for part in list {
                    hash.update((part.len() as u64).to_be_bytes());
                    hash.update(part);
                }
            }
        }
    }
}

impl Options {
    /// What tells listeners apart: the same for options that lead to the same handshakes.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for policy in &self.policies {
            hash.update([u8::from(policy.min_version == Version::Tls13), u8::from(policy.client_auth.is_some())]);
            policy.hash_client_auth(&mut hash);
        }
        self.names.hash(&mut hash);
        for alpn in &self.alpn {
            hash.update(alpn.id());
            hash.update([0]);
        }
        hash.update((self.tickets as u64).to_be_bytes());
        hash.update(self.rotate.as_nanos().to_be_bytes());
        hash.finalize().into()
    }
}

/// One generation of ticket keys.
#[derive(Debug)]
struct Shared(Arc<dyn ProducesTickets>);

impl ProducesTickets for Shared {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher)
    }
}
