//! Which certificate a client gets: by the name that it asks for (SNI, RFC 6066 section 3).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};

use crate::certificate::Certificate;

/// One certificate of a listener and the names that it is used for.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The certificate.
    pub certificate: Certificate,
    /// Names that it is used for, `*.example.com` for one label in front; empty: those of the certificate.
    pub names: Vec<String>,
    /// Whether clients that ask for no name, or for an unknown one, get it.
    pub is_default: bool,
    /// Index of the policy that its hosts have, in [`Options::policies`](crate::server::Options::policies).
    pub policy: usize,
}

/// The certificates of a listener by name.
#[derive(Debug, Clone, Default)]
pub struct Names {
    certificates: Vec<Certificate>,
    /// By certificate.
    policies: Vec<usize>,
    exact: HashMap<String, Vec<usize>>,
    /// By what follows `*.`.
    wildcard: HashMap<String, Vec<usize>>,
    default: Vec<usize>,
}

/// Why a table of names cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NameError {
    /// A name is not a DNS name.
    #[error("`{0}` is not a DNS name (a wildcard is `*.` before a whole name)")]
    Invalid(String),
    /// A certificate does not hold a name that it is to be used for: every client would refuse it.
    #[error("the certificate for {subject} does not cover `{name}`; it covers {covered}")]
    NotCovered {
        /// The name that was asked for.
        name: String,
        /// The certificate's subject.
        subject: String,
        /// Its names.
        covered: String,
    },
    /// A certificate has no name and is not the default: it could never be chosen.
    #[error("the certificate for {0} has no DNS name and is not the default, so no client would get it")]
    Unreachable(String),
    /// Certificates of one name have different policies: which of them a client gets must not decide what it has to show.
    #[error(
        "the certificates for `{0}` have different policies; write the same `client_auth` and `min_version` for both"
    )]
    Policies(String),
}

impl Names {
    /// The table for these certificates. Several may share a name, one with an RSA key and one with an elliptic key say: the client's
    /// signature schemes decide, and elliptic keys are preferred.
    ///
    /// # Errors
    /// A name that no client could be served under.
    pub fn new(entries: Vec<Entry>) -> Result<Self, NameError> {
        let mut table = Names::default();
        for entry in entries {
            let position = table.certificates.len();
            let facts = &entry.certificate.facts;
            // A certificate may hold names that no client asks for, such as `*`.
            let own = facts.dns_names.iter().filter(|name| is_dns_name(name.strip_prefix("*.").unwrap_or(name)));
            let names = if entry.names.is_empty() { own.cloned().collect() } else { entry.names };
            if names.is_empty() && !entry.is_default {
                return Err(NameError::Unreachable(facts.subject.clone()));
            }
            for name in names {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                if !is_dns_name(name.strip_prefix("*.").unwrap_or(&name)) {
                    return Err(NameError::Invalid(name));
                }
                if !covers(&facts.dns_names, &name) {
                    let covered =
                        if facts.dns_names.is_empty() { "none".to_owned() } else { facts.dns_names.join(", ") };
                    return Err(NameError::NotCovered { name, subject: facts.subject.clone(), covered });
                }
                match name.strip_prefix("*.") {
                    Some(suffix) => table.wildcard.entry(suffix.to_owned()).or_default().push(position),
                    None => table.exact.entry(name).or_default().push(position),
                }
            }
            if entry.is_default {
                table.default.push(position);
            }
            table.certificates.push(entry.certificate);
            table.policies.push(entry.policy);
        }
        table.check_policies()?;
        let Names { certificates, exact, wildcard, default, .. } = &mut table;
        for positions in exact.values_mut().chain(wildcard.values_mut()).chain([default]) {
            // Stable: among equals the order of the file decides.
            positions.sort_by_key(|&position| !certificates[position].facts.has_elliptic_key);
            positions.dedup();
        }
        Ok(table)
    }

    fn check_policies(&self) -> Result<(), NameError> {
        let differ =
            |positions: &[usize]| positions.windows(2).any(|two| self.policies[two[0]] != self.policies[two[1]]);
        let exact = self.exact.iter().map(|(name, positions)| (name.clone(), positions));
        let wildcard = self.wildcard.iter().map(|(suffix, positions)| (format!("*.{suffix}"), positions));
        let default = [("the default".to_owned(), &self.default)];
        let mut all = exact.chain(wildcard).chain(default);
        all.find(|(_, positions)| differ(positions)).map_or(Ok(()), |(name, _)| Err(NameError::Policies(name)))
    }

    /// All certificates, in the order of the configuration.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }

    /// Every name with the end of validity of the certificate that ends first of those it has.
    pub fn hosts(&self) -> Vec<(String, SystemTime)> {
        let exact = self.exact.iter().map(|(name, positions)| (name.clone(), positions));
        let wildcard = self.wildcard.iter().map(|(suffix, positions)| (format!("*.{suffix}"), positions));
        let ends = |position: &usize| self.certificates[*position].facts.not_after;
        let all = exact.chain(wildcard).filter_map(|(name, of)| Some((name, of.iter().map(ends).min()?)));
        let mut all: Vec<_> = all.collect();
        all.sort();
        all
    }

    /// Candidates for a name: those of the exact name, else of the wildcard over it, else the default. None: the handshake is refused with
    /// `unrecognized_name`.
    fn candidates(&self, name: Option<&str>) -> &[usize] {
        let Some(name) = name else { return &self.default };
        self.of_name(name).unwrap_or(&self.default)
    }

    fn of_name(&self, name: &str) -> Option<&[usize]> {
        let name = normalised(name);
        let name = name.as_str();
        let of_wildcard = || self.wildcard.get(name.split_once('.')?.1);
        self.exact.get(name).or_else(of_wildcard).map(Vec::as_slice)
    }

    /// The policy of a handshake for this name, or for none. `None`: there is no certificate for it.
    pub fn policy_for(&self, name: Option<&str>) -> Option<usize> {
        self.candidates(name).first().map(|&position| self.policies[position])
    }

    /// Whether a host name is one of the table's names; the default certificate does not count.
    pub fn serves(&self, name: &str) -> bool {
        self.of_name(name).is_some()
    }

    /// Whether a request for `authority` (a host without port) may come over a connection whose handshake asked for `sni`: it must be a
    /// host of the same policy, and the certificate that the client saw must cover it (RFC 9110 section 7.4), else 421. Without SNI, or with
    /// an unknown name, the client saw a default certificate.
    pub fn may_carry(&self, sni: Option<&str>, authority: &str) -> bool {
        let authority = normalised(authority);
        let bare = authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&authority);
        let ip = bare.parse::<std::net::IpAddr>();
        let seen = self.candidates(sni);
        !seen.is_empty()
            && self.policy_for(sni) == self.policy_for(Some(&authority))
            && seen.iter().all(|&position| {
                let facts = &self.certificates[position].facts;
                match ip {
                    Ok(ip) => facts.ip_addresses.contains(&ip),
                    Err(_) => covers(&facts.dns_names, &authority),
                }
            })
    }
}

impl Names {
    /// Adds all that decides about handshakes. A certificate stands for its key too.
    pub(crate) fn hash(&self, hash: &mut Sha256) {
        for (certificate, policy) in self.certificates.iter().zip(&self.policies) {
            hash.update((*policy as u64).to_be_bytes());
            hash.update((certificate.key.cert.len() as u64).to_be_bytes());
            for der in &certificate.key.cert {
                hash.update((der.len() as u64).to_be_bytes());
                hash.update(der);
            }
        }
        let exact = self.exact.iter().map(|(name, positions)| (name.clone(), positions));
        let wildcard = self.wildcard.iter().map(|(suffix, positions)| (format!("*.{suffix}"), positions));
        let mut all: Vec<_> = exact.chain(wildcard).chain([(String::new(), &self.default)]).collect();
        all.sort();
        hash.update(format!("{all:?}"));
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.exact.keys().cloned().collect();
        names.extend(self.wildcard.keys().map(|suffix| format!("*.{suffix}")));
        names.sort();
        f.write_str(&names.join(", "))
    }
}

/// What rustls asks for a certificate.
#[derive(Debug)]
pub(crate) struct Resolver(pub(crate) Arc<Names>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let candidates = self.0.candidates(hello.server_name());
        let key = |position: &usize| &self.0.certificates[*position].key;
        let fits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        // Where none fits, rustls goes on to say what is missing (`handshake_failure`); without a certificate it would say `access_denied`.
        candidates.iter().map(key).find(fits).or_else(|| candidates.first().map(key)).cloned()
    }
}

fn normalised(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether names of a certificate cover a name, or cover all that a wildcard does. A wildcard stands for one label (RFC 9525 section 6.3).
fn covers(names: &[String], wanted: &str) -> bool {
    let parent = wanted.split_once('.').map(|(_, parent)| parent);
    names.iter().any(|name| name == wanted || (name.strip_prefix("*.").is_some() && name.strip_prefix("*.") == parent))
}

fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split('.').all(is_label) && name.parse::<std::net::IpAddr>().is_err()
}

#[cfg(test)]
mod tests;
