//! Certificates of clients as a way to authenticate.

use std::sync::Arc;

use super::Resolver;
use crate::raw;
use crate::raw::shape::Spanned;
use crate::{CertificateField, Mtls};

impl Resolver<'_> {
    pub(super) fn mtls(&mut self, name: &Spanned<String>, raw: &Spanned<raw::Mtls>) -> Mtls {
        if raw.identity.is_empty() {
            self.problem(raw.origin, "`identity` needs a name, such as `uri`");
        }
        for (index, one) in raw.identity.iter().enumerate() {
            if raw.identity[..index].iter().any(|earlier| earlier.value == one.value) {
                self.problem(one.origin, format!("`{}` is named twice", one.value));
            }
        }
        Mtls {
            names: raw.identity.iter().map(|one| one.0).collect(),
            authorities: self.accepted_authorities(name, raw),
            forwarded_as: match raw.forward {
                raw::ForwardCertificate::None => None,
                raw::ForwardCertificate::Rfc9440 => Some(CertificateField::ClientCert),
                raw::ForwardCertificate::Xfcc => Some(CertificateField::Xfcc),
            },
        }
    }

    /// Listeners may trust several authorities, each for hosts of its own. One of them must not make names for the other's hosts.
    fn accepted_authorities(&mut self, name: &Spanned<String>, raw: &Spanned<raw::Mtls>) -> Vec<Arc<str>> {
        let known = self.client_authorities();
        let listed = known.iter().map(|ca| format!("`{ca}`")).collect::<Vec<_>>().join(" and ");
        match (&raw.ca, &known[..]) {
            (_, []) => {
                let message = "`mtls` needs a listener with `tls: {client_auth: {ca: FILE}}`, and there is none";
                self.problem(raw.origin, message);
            }
            (None, [_]) => return known,
            (None, _) => {
                let message = format!(
                    "listeners have several `client_auth.ca`, {listed}: name those whose certificates are `{}`, as `ca`",
                    name.value
                );
                self.problem(raw.origin, message);
            }
            (Some(accepted), _) if accepted.is_empty() => {
                let message = "`ca` is empty, so no certificate would count: name at least one file, or leave it out";
                self.problem(raw.origin, message);
            }
            (Some(accepted), _) => {
                for ca in accepted.iter().filter(|ca| !known.iter().any(|known| **known == *ca.value)) {
                    let message =
                        format!("no listener verifies certificates by `{}`; `client_auth.ca` is {listed}", ca.value);
                    self.problem(ca.origin, message);
                }
                return accepted.iter().map(|ca| ca.as_str().into()).collect();
            }
        }
        Vec::new()
    }

    fn client_authorities(&self) -> Vec<Arc<str>> {
        let listeners = self.file.listen.iter().filter_map(|listener| listener.tls.as_ref());
        let mut all: Vec<Arc<str>> = listeners
            .flat_map(|tls| tls.certificates.iter().map(|one| one.client_auth.as_ref().unwrap_or(&tls.client_auth)))
            .filter_map(|client_auth| client_auth.as_option())
            .map(|client_auth| client_auth.ca.as_str().into())
            .collect();
        all.sort();
        all.dedup();
        all
    }
}
