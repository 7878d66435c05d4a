//! From a specification and what is known of names and services to targets with addresses.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use super::sources::registry::Host;
use super::target::{Address, TlsIdentity};
use super::{Common, lock};
use crate::config::{self, MAX_TARGETS, TargetAddress};

/// The targets of a specification, as far as their addresses are known.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Known {
    /// In the order of the specification.
    pub(super) members: Vec<Member>,
    /// Some target waits for its first address.
    pub(super) is_incomplete: bool,
    /// A service that has more addresses than are taken.
    pub(super) cut: Option<Arc<str>>,
}

/// One target with an address.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) address: Address,
    /// See [`config::Target::authority`].
    pub(super) authority: Option<Arc<str>>,
    pub(super) base_path: Arc<str>,
    pub(super) weight: NonZeroU32,
    /// 0 is the first.
    pub(super) tier: u16,
    /// What named it, if not the configuration itself: `file:PATH`, `srv:NAME` or the label of a registry.
    pub(super) source: Option<Arc<str>>,
}

impl Member {
    /// A target of the first tier.
    fn of(target: &config::Target, address: Address, source: Option<&Arc<str>>) -> Member {
        Member {
            address,
            authority: target.authority.clone(),
            base_path: target.base_path.clone(),
            weight: target.weight,
            tier: 0,
            source: source.cloned(),
        }
    }
}

/// How a file is named as a source of targets.
pub(super) fn file_label(path: &Path) -> Arc<str> {
    format!("file:{}", path.display()).into()
}

impl Common {
    /// What is known of the targets of `spec`; each target's addresses in order, each once.
    pub(super) fn known(&self, spec: &config::Upstream) -> Known {
        let names = lock(&self.names);
        let demo = lock(&self.demo);
        let endpoints = lock(&self.endpoints);
        let services = lock(&self.services);
        let registries = lock(&self.registries);
        let addresses_of = |host: &Arc<str>| names.get(host).map_or(&[][..], |name| &name.addresses);
        let tcp = |target: &config::Target, address: SocketAddr| match (&target.tls_name, &spec.tls) {
            (Some(name), Some(policy)) => {
                Address::Tls(address, TlsIdentity { name: name.clone(), policy: policy.clone() })
            }
            _ => Address::Tcp(address),
        };
        let file: Option<Arc<str>> = spec.targets_file.as_ref().map(|path| file_label(path));
        let mut known = Known::default();
        for target in &spec.targets {
            let mut add = |address| known.members.push(Member::of(target, address, file.as_ref()));
            match &target.address {
                TargetAddress::Ip(address) => add(tcp(target, *address)),
                TargetAddress::Unix(path) => add(Address::Unix(path.as_path().into())),
                TargetAddress::Demo(service) => match demo.iter().find(|(of, _)| of == service) {
                    Some((_, address)) => add(Address::Tcp(*address)),
                    None => known.is_incomplete = true,
                },
                TargetAddress::Endpoints(name) => {
                    endpoints.get(name).into_iter().flatten().for_each(|address| add(tcp(target, *address)));
                }
                TargetAddress::Name { host, port } => {
                    let addresses = addresses_of(host);
                    addresses.iter().for_each(|ip| add(tcp(target, (*ip, *port).into())));
                    known.is_incomplete |= addresses.is_empty();
                }
                TargetAddress::Service(name) => {
                    let Some((service, records)) =
                        services.get(name).and_then(|service| Some((service, service.records.as_ref()?)))
                    else {
                        known.is_incomplete = true;
                        continue;
                    };
                    let most = known.members.len() + MAX_TARGETS;
                    for record in records {
                        let addresses = addresses_of(&record.host);
                        known.is_incomplete |= addresses.is_empty();
                        let of_record = addresses.iter().map(|ip| Member {
                            weight: record.weight,
                            tier: record.tier,
                            ..Member::of(target, tcp(target, (*ip, record.port).into()), Some(&service.label))
                        });
                        known.members.extend(of_record);
                    }
                    if known.members.len() > most {
                        known.members.truncate(most);
                        known.cut = Some(name.clone());
                    }
                }
                TargetAddress::Registry(registry) => {
                    let Some((label, endpoints)) =
                        registries.get(registry).and_then(|known| Some((&known.label, known.endpoints.as_ref()?)))
                    else {
                        known.is_incomplete = true;
                        continue;
                    };
                    let most = known.members.len() + MAX_TARGETS;
                    for endpoint in endpoints {
                        let ips = match &endpoint.host {
                            Host::Ip(ip) => std::slice::from_ref(ip),
                            Host::Name(host) => addresses_of(host),
                        };
                        known.is_incomplete |= ips.is_empty();
                        known.members.extend(ips.iter().map(|ip| Member {
                            weight: endpoint.weight,
                            ..Member::of(target, tcp(target, (*ip, endpoint.port).into()), Some(label))
                        }));
                    }
                    if known.members.len() > most {
                        known.members.truncate(most);
                        known.cut = Some(label.clone());
                    }
                }
            }
        }
        known
    }
}
