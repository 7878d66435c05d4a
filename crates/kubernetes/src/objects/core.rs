//! Objects of Kubernetes itself.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::{Meta, object};

/// A namespace; its labels select routes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// `metadata`.
    pub metadata: Meta,
}

/// A service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Service {
    /// `metadata`.
    pub metadata: Meta,
    /// `spec`.
    pub spec: ServiceSpec,
    /// `status`.
    pub status: ServiceStatus,
}

/// `spec` of a service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ExternalName` has no endpoints.
    #[serde(rename = "type")]
    pub kind: String,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// Labels of its pods.
    pub selector: BTreeMap<String, String>,
    /// Its addresses inside of the cluster.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
}

/// `status` of a service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus {
    /// What a load balancer gave it.
    pub load_balancer: LoadBalancer,
}

/// What a load balancer gave a service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LoadBalancer {
    /// Where it is reached from outside.
    pub ingress: Vec<Ingress>,
}

/// An address or a host of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Ingress {
    /// Address.
    pub ip: Option<String>,
    /// Host.
    pub hostname: Option<String>,
}

/// A port of a service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// Name; endpoint slices have it too.
    pub name: String,
    /// Number.
    pub port: u16,
    /// Port of its pods: a number, or the name that pods give it.
    pub target_port: Value,
    /// What is spoken there, such as `kubernetes.io/h2c`.
    pub app_protocol: Option<String>,
}

/// Endpoints of a service, or a part of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSlice {
    /// `metadata`.
    pub metadata: Meta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Endpoints.
    #[serde(deserialize_with = "null_is_empty")]
    pub endpoints: Vec<Endpoint>,
    /// Ports of every endpoint.
    #[serde(deserialize_with = "null_is_empty")]
    pub ports: Vec<EndpointPort>,
}

/// Lists that the API server writes as `null` when they are empty.
fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

impl EndpointSlice {
    /// Name of the service that it belongs to.
    pub fn service(&self) -> Option<&str> {
        self.metadata.labels.get("kubernetes.io/service-name").map(String::as_str)
    }
}

/// An endpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    /// The first of its addresses, which is the one that counts, if it is an IP address.
    #[serde(rename = "addresses", deserialize_with = "first_ip")]
    pub ip: Option<IpAddr>,
    /// Its state.
    pub conditions: EndpointConditions,
}

/// State of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Takes requests; unknown counts as yes.
    pub ready: Option<bool>,
}

/// A port of an endpoint slice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    /// Name of the service's port.
    pub name: Option<String>,
    /// Number. The API server takes any number here: one that no port has is none.
    #[serde(deserialize_with = "port")]
    pub port: Option<u16>,
}

/// Read once: there may be ten thousand, and each change of one makes a set of all.
fn first_ip<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<IpAddr>, D::Error> {
    let addresses: Vec<String> = Option::deserialize(d)?.unwrap_or_default();
    Ok(addresses.first().and_then(|address| address.parse().ok()))
}

fn port<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<u16>, D::Error> {
    let number: Option<i64> = Option::deserialize(d)?;
    Ok(number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port != 0))
}

/// A secret; only those of TLS are read.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// `metadata`.
    pub metadata: Meta,
    /// Type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Values in base64.
    pub data: BTreeMap<String, String>,
}

impl std::fmt::Debug for Secret {
    /// Leaves the values out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

object!(Namespace, "/api/v1/namespaces");
object!(Service, "/api/v1/services");
object!(EndpointSlice, "/apis/discovery.k8s.io/v1/endpointslices");
object!(Secret, "/api/v1/secrets");
