//! Public listeners.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use proxy_protocol::Accepts;
use tls::names::{Entry, Names};
use tls::server::{self, MAX_ROTATE, Policy};
use tls::{Alpn, CertificateError};

use super::Resolver;
use super::tls::version;
use crate::raw::TrustedProxy;
use crate::raw::shape::{OrNone, Spanned};
use crate::{Bind, Listen, ListenerTls, SOCKET_MODE, Serves, TrustedProxies, raw};

/// Most tickets of one handshake: more than any client uses at once.
const MOST_TICKETS: usize = 8;

/// Why no connection at an address could begin with a PROXY header.
const NO_ADDRESS: &str =
    "no address is in that list: every connection would be closed; name the addresses of the load balancer there";

impl Resolver<'_> {
    pub(super) fn listen(&mut self) -> Vec<Listen> {
        let file = self.file;
        if file.listen.is_empty() && !self.is_managed() {
            let message = "`listen` is an empty list; name at least one address, such as `127.0.0.1:8080`";
            self.problem(file.listen.origin, message);
        }
        let mut seen = HashSet::new();
        for listener in file.listen.iter() {
            let bind = &listener.bind.0;
            // Any number of free ports may be configured.
            if !bind.takes_free_port() && !seen.insert(bind) {
                self.problem(listener.origin, format!("`{bind}` is listened on twice"));
            }
            self.of_its_kind(listener);
        }
        let mut names = HashSet::new();
        for name in file.listen.iter().filter_map(|listener| listener.name.as_ref()) {
            if !names.insert(name.as_str()) {
                self.problem(name.origin, format!("another listener is named `{}` too", name.value));
            }
        }
        // Clients of a Unix socket are proxies of this machine: no URL leads there.
        let has_tls =
            file.listen.iter().any(|listener| listener.tls.is_some() && !matches!(listener.bind.0, Bind::Unix(_)));
        let mut resolve = |listener: &Spanned<raw::Listen>| {
            let serves = match (&listener.tls, &listener.redirect) {
                (Some(tls), None) => self.listener_tls(tls).map_or(Serves::Http, |tls| Serves::Https(Arc::new(tls))),
                (Some(_), Some(redirect)) => {
                    let message = "a listener with `tls` serves requests itself; `redirect` is for one without";
                    self.problem(redirect.origin, message);
                    Serves::Http
                }
                (None, Some(redirect)) => {
                    if !has_tls {
                        self.problem(
                            redirect.origin,
                            "no listener with an address has `tls`, so there is nothing to redirect to",
                        );
                    }
                    Serves::RedirectToHttps
                }
                (None, None) => Serves::Http,
            };
            let requests = listener.http2 == raw::ClearTextHttp2::PriorKnowledge;
            if requests && listener.tls.is_some() {
                self.problem(
                    listener.bind.origin,
                    "`http2: prior_knowledge` is for clear text; over TLS the handshake decides",
                );
            }
            Listen {
                name: listener.name.as_ref().map(|name| name.as_str().into()),
                bind: listener.bind.0.clone(),
                mode: listener.mode.as_ref().map_or(SOCKET_MODE, |mode| mode.0),
                takes_prior_knowledge: requests && listener.tls.is_none(),
                proxy_protocol: self.received_proxy_protocol(listener),
                tcp: self.tcp(&listener.tcp),
                serves,
            }
        };
        file.listen.iter().map(&mut resolve).collect()
    }

    /// Keys that some listeners only have.
    fn of_its_kind(&mut self, listener: &raw::Listen) {
        match (&listener.bind.0, &listener.mode) {
            (Bind::Tcp(_), Some(mode)) => {
                let message =
                    "`mode` is for a listener with the path of a Unix socket: an IP address has no permissions";
                self.problem(mode.origin, message);
            }
            (Bind::Unix(path), _) => {
                let is_takeover = |other: &Spanned<String>| **path == *Path::new(&other.value);
                if self.file.takeover.as_option().is_some_and(is_takeover) {
                    self.problem(listener.bind.origin, "`takeover` has this path; a listener needs one of its own");
                }
                if listener.tcp != raw::Tcp::default() {
                    let message = "`tcp` is for a listener with an IP address: a Unix socket has no such options";
                    self.problem(listener.bind.origin, message);
                }
            }
            (Bind::Inherited(_), Some(mode)) => {
                let message = "`mode` is for a listener with the path of a Unix socket; `SocketMode=` of the socket unit says it here";
                self.problem(mode.origin, message);
            }
            (Bind::Tcp(_) | Bind::Inherited(_), None) => {}
        }
    }

    pub(super) fn trusted_proxies(&self) -> TrustedProxies {
        let list = &self.file.trusted_proxies;
        TrustedProxies {
            networks: list
                .iter()
                .filter_map(|one| if let TrustedProxy::Network(it) = one { Some(it.0) } else { None })
                .collect(),
            unix: list.contains(&TrustedProxy::Unix),
        }
    }

    fn received_proxy_protocol(&mut self, listener: &raw::Listen) -> Option<Accepts> {
        let accepts = match listener.proxy_protocol.value {
            raw::ReceivedProxyProtocol::None => return None,
            raw::ReceivedProxyProtocol::V1 => Accepts::V1,
            raw::ReceivedProxyProtocol::V2 => Accepts::V2,
            raw::ReceivedProxyProtocol::Any => Accepts::Any,
        };
        let trusted = self.trusted_proxies();
        let missing = match listener.bind.0 {
            Bind::Tcp(_) if trusted.networks.is_empty() => Some(NO_ADDRESS),
            Bind::Inherited(_) if trusted.is_empty() => Some(NO_ADDRESS),
            Bind::Unix(_) if !trusted.unix => Some(
                "that list has no `unix:`, so every connection would be closed; add `unix:` to trust every peer that may connect to the Unix socket",
            ),
            Bind::Tcp(_) | Bind::Unix(_) | Bind::Inherited(_) => None,
        };
        if let Some(missing) = missing {
            let message = format!("`proxy_protocol` takes headers from `trusted_proxies` only, and {missing}");
            self.problem(listener.proxy_protocol.origin, message);
        }
        Some(accepts)
    }

    fn listener_tls(&mut self, tls: &Spanned<raw::ListenerTls>) -> Option<ListenerTls> {
        if tls.certificates.is_empty() {
            let message = "`certificates` is an empty list; name at least one, with `cert` and `key`";
            self.problem(tls.certificates.origin, message);
            return None;
        }
        let problems = self.problems.len();
        let mut policies: Vec<(&OrNone<Spanned<raw::ClientAuth>>, raw::TlsVersion)> = Vec::new();
        let mut entries = Vec::new();
        for one in tls.certificates.iter() {
            let policy =
                (one.client_auth.as_ref().unwrap_or(&tls.client_auth), one.min_version.unwrap_or(tls.min_version));
            let position = policies.iter().position(|known| *known == policy).unwrap_or_else(|| {
                policies.push(policy);
                policies.len() - 1
            });
            let files = raw::CertificateFiles { cert: one.cert.clone(), key: one.key.clone() };
            if let Some(certificate) = self.certificate(&Spanned::new(files, one.origin)) {
                let names = one.hosts.iter().map(|host| host.value.clone()).collect();
                entries.push(Entry { certificate, names, is_default: one.default, policy: position });
            }
        }
        let policies = policies
            .into_iter()
            .map(|(client_auth, min_version)| Policy {
                client_auth: client_auth.as_option().and_then(|auth| self.client_auth(auth)),
                min_version: version(min_version),
            })
            .collect();
        let tickets = tls.tickets.as_option();
        if let Some(tickets) = tickets {
            if tickets.rotate.0.is_zero() || tickets.rotate.0 > MAX_ROTATE {
                self.problem(tickets.rotate.origin, "`rotate` is from `1s` to `6h`");
            }
            if tickets.count.value == 0 || tickets.count.value > MOST_TICKETS {
                let message = format!("`count` is from 1 to {MOST_TICKETS}; `tickets: none` sends none");
                self.problem(tickets.count.origin, message);
            }
        }
        let names =
            Names::new(entries).map_err(|error| self.problem(tls.certificates.origin, error.to_string())).ok()?;
        if self.problems.len() > problems {
            return None;
        }
        let options = server::Options {
            policies,
            alpn: vec![Alpn::Http2, Alpn::Http11],
            tickets: tickets.map_or(0, |tickets| tickets.count.value),
            rotate: tickets.map_or(MAX_ROTATE, |tickets| tickets.rotate.0),
            ..server::Options::new(Arc::new(names))
        };
        if let Err(error) = server::Listener::new(&options, &server::Tickets::default()) {
            self.problem(tls.origin, error.to_string());
            return None;
        }
        Some(ListenerTls::new(options))
    }

    fn client_auth(&mut self, auth: &Spanned<raw::ClientAuth>) -> Option<server::ClientAuth> {
        let authorities = self.authorities(&auth.ca, auth.ca.origin);
        let revocations = match &auth.crl {
            None => Vec::new(),
            Some(crl) => {
                let path = Path::new(&crl.value);
                let read: Result<_, CertificateError> =
                    self.read(path).and_then(|pem| tls::certificate::revocations_from_pem(&pem, path));
                read.unwrap_or_else(|error| {
                    self.problem(crl.origin, error.to_string());
                    Vec::new()
                })
            }
        };
        let is_required = auth.mode == raw::ClientAuthMode::Required;
        let name = auth.ca.as_str().into();
        (!authorities.is_empty()).then_some(server::ClientAuth { name, authorities, revocations, is_required })
    }
}
