//! What is known of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::{
    EndpointSlice, GRPCRoute, Gateway, GatewayClass, HTTPRoute, Key, Namespace, Object, ReferenceGrant, Secret, Service,
};

/// Objects of one kind.
pub type Store<T> = BTreeMap<Key, Arc<T>>;

/// The objects that the controller reads, as they were last seen.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// Classes of gateways.
    pub classes: Store<GatewayClass>,
    /// Gateways.
    pub gateways: Store<Gateway>,
    /// Routes over HTTP.
    pub http_routes: Store<HTTPRoute>,
    /// Routes over gRPC.
    pub grpc_routes: Store<GRPCRoute>,
    /// Grants.
    pub grants: Store<ReferenceGrant>,
    /// Services.
    pub services: Store<Service>,
    /// Endpoints.
    pub slices: Store<EndpointSlice>,
    /// Secrets of TLS.
    pub secrets: Store<Secret>,
    /// Namespaces.
    pub namespaces: Store<Namespace>,
    /// Services of gateways that the API server refuses, with what it says.
    pub refused_services: BTreeMap<Key, String>,
    /// Release of the custom resources, such as `v1.6.3`, where it could be read.
    pub release: Option<String>,
}

impl Cluster {
    /// Puts an object in.
    pub fn insert<T: Object>(store: &mut Store<T>, object: T) {
        store.insert(object.key(), Arc::new(object));
    }

    /// Whether a grant lets objects of `from` (group, kind, namespace) refer to `to` (group, kind, namespace, name).
    pub fn is_granted(&self, from: (&str, &str, &str), to: (&str, &str, &str, &str)) -> bool {
        if from.2 == to.2 {
            return true;
        }
        self.grants.values().filter(|grant| grant.metadata.namespace == to.2).any(|grant| {
            let may = grant
                .spec
                .from
                .iter()
                .any(|one| (&*one.group, &*one.kind, &*one.namespace) == (from.0, from.1, from.2));
            let is_named = |name: &Option<String>| name.as_deref().is_none_or(|name| name.is_empty() || name == to.3);
            may && grant.spec.to.iter().any(|one| (&*one.group, &*one.kind) == (to.0, to.1) && is_named(&one.name))
        })
    }
}
