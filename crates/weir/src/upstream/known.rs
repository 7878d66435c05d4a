//! From a specification and what is known of names to targets with addresses.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::target::{Address, TlsIdentity};
use super::{Common, lock};
use crate::config::{self, TargetAddress};

/// The targets of a specification, as far as their addresses are known.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Known {
    /// In the order of the specification.
    pub(super) members: Vec<Member>,
    /// Some target waits for its first address.
    pub(super) is_incomplete: bool,
}

/// One target with an address.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) address: Address,
    /// See [`config::Target::authority`].
    pub(super) authority: Option<Arc<str>>,
    pub(super) base_path: Arc<str>,
    pub(super) weight: NonZeroU32,
}

impl Known {
    fn add(&mut self, target: &config::Target, address: Address) {
        self.members.push(Member {
            address,
            authority: target.authority.clone(),
            base_path: target.base_path.clone(),
            weight: target.weight,
        });
    }
}

impl Common {
    /// What is known of the targets of `spec`; each target's addresses in order, each once.
    pub(super) fn known(&self, spec: &config::Upstream) -> Known {
        let names = lock(&self.names);
        let demo = lock(&self.demo);
        let endpoints = lock(&self.endpoints);
        let tcp = |target: &config::Target, address: SocketAddr| match (&target.tls_name, &spec.tls) {
            (Some(name), Some(policy)) => {
                Address::Tls(address, TlsIdentity { name: name.clone(), policy: policy.clone() })
            }
            _ => Address::Tcp(address),
        };
        let mut known = Known::default();
        for target in &spec.targets {
            match &target.address {
                TargetAddress::Ip(address) => known.add(target, tcp(target, *address)),
                TargetAddress::Unix(path) => known.add(target, Address::Unix(path.as_path().into())),
                TargetAddress::Demo(service) => match demo.iter().find(|(of, _)| of == service) {
                    Some((_, address)) => known.add(target, Address::Tcp(*address)),
                    None => known.is_incomplete = true,
                },
                TargetAddress::Endpoints(name) => {
                    for address in endpoints.get(name).into_iter().flatten() {
                        known.add(target, tcp(target, *address));
                    }
                }
                TargetAddress::Name { host, port } => {
                    let addresses = names.get(host).map_or(&[][..], |name| &name.addresses);
                    known.is_incomplete |= addresses.is_empty();
                    for ip in addresses {
                        known.add(target, tcp(target, (*ip, *port).into()));
                    }
                }
            }
        }
        known
    }
}
