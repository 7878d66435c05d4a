//! Objects to a configuration. No clock, no socket: the same objects give the same values.

mod action;
mod backend;
mod duration;
mod filter;
mod gateway;
mod hosts;
mod listener;
mod names;
mod route;
mod service;
mod status;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::objects::Key;
pub use service::{ServiceType, ServiceWrite, Services};
pub use status::{Condition, StatusPatch};

/// What the controller is told beside the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Classes with this `controllerName` are served.
    pub controller: String,
    /// Where gateways listen.
    pub addresses: Addresses,
}

/// Where gateways listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// Each gateway has an address of this network, which the process binds itself.
    Bare(IpNet),
    /// All share this address; each port of each gateway has a port of its own, from this one on.
    Shared {
        /// Address that is bound.
        bind: IpAddr,
        /// First port.
        first_port: u16,
        /// The Services that lead to the ports; without it others write them.
        services: Option<Services>,
    },
}

/// What gateways have been given: kept from one translation to the next, so that nothing moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocations {
    /// Addresses of bare mode.
    pub addresses: BTreeMap<Key, IpAddr>,
    /// Ports of the shared address, by gateway and port of its listeners. With Services: those that they say.
    pub ports: BTreeMap<(Key, u16), u16>,
    /// Ports that the leader is to write into Services.
    pub proposed: BTreeMap<(Key, u16), u16>,
    /// The last port that was proposed: one that became free is the last to be used again.
    pub last_port: u16,
}

/// What the objects mean.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Translation {
    /// The configuration, as it would be written in a file: `listen`, `upstreams` and `routes`.
    pub document: Arc<Value>,
    /// Certificates and keys, by the names that the document has for them.
    pub files: Arc<BTreeMap<String, Vec<u8>>>,
    /// Endpoints of each upstream, by its name.
    pub endpoints: BTreeMap<String, Vec<SocketAddr>>,
    /// What is to be written.
    pub statuses: Vec<StatusPatch>,
    /// Services that are not what they should be.
    pub services: Vec<ServiceWrite>,
}

/// The objects of `cluster` as a configuration.
pub fn translate(cluster: &Cluster, settings: &Settings, allocations: &mut Allocations) -> Translation {
    translate_without(cluster, settings, allocations, &Refusals::default())
}

/// What of a configuration was refused, with what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Routes and what listeners refer to, by name.
    pub routes: BTreeMap<String, Refusal>,
    /// Listeners that cannot be opened, by name.
    pub binds: BTreeMap<String, String>,
}

/// A part that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub why: String,
    /// Its match cannot be either, so that it is left out. Otherwise requests for it get 500: another route must not get them.
    pub is_left_out: bool,
}

/// The same, where parts were refused; their objects say why.
pub fn translate_without(
    cluster: &Cluster,
    settings: &Settings,
    allocations: &mut Allocations,
    refusals: &Refusals,
) -> Translation {
    let mut world =
        World { cluster, settings, refusals, upstreams: BTreeMap::new(), files: BTreeMap::new(), has_invalid: false };
    let mut statuses = gateway::classes(&world);
    let mut gateways = gateway::gateways(&mut world, allocations);
    let (entries, route_statuses) = route::routes(&mut world, &mut gateways);
    let services = service::writes(&world, allocations, &gateways);
    statuses.extend(gateway::statuses(&world, &gateways));
    statuses.extend(route_statuses);
    let listen = listener::listen(&gateways);
    let isolation = listener::isolation(&gateways);
    let routes: Vec<Value> = entries.into_iter().chain(isolation).collect();
    let endpoints = backend::endpoints(cluster, world.upstreams.keys());
    let mut upstreams: Map<String, Value> =
        world.upstreams.iter().map(|(backend, name)| (name.clone(), backend.upstream())).collect();
    if world.has_invalid {
        upstreams.insert(INVALID.to_owned(), json!({"targets": []}));
    }
    let endpoints =
        endpoints.into_iter().map(|(backend, addresses)| (world.upstreams[&backend].clone(), addresses)).collect();
    let document = Arc::new(json!({"listen": listen, "upstreams": upstreams, "routes": routes}));
    Translation { document, files: Arc::new(world.files), endpoints, statuses, services }
}

/// Endpoints of the upstreams that a translation has, when only endpoints changed.
pub fn endpoints(cluster: &Cluster, services: &BTreeSet<Key>) -> BTreeMap<String, Vec<SocketAddr>> {
    backend::of_services(cluster, services)
}

/// The upstream that has the share of backends that cannot be used: 500.
const INVALID: &str = "invalid-backend";

/// What a translation collects.
struct World<'c> {
    cluster: &'c Cluster,
    settings: &'c Settings,
    refusals: &'c Refusals,
    /// Upstreams that routes use, with their names.
    upstreams: BTreeMap<backend::Backend, String>,
    files: BTreeMap<String, Vec<u8>>,
    /// Whether [`INVALID`] has a share of some route.
    has_invalid: bool,
}
