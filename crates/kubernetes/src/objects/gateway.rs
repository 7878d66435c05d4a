//! Gateways and what belongs to them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Meta, Status, object};

/// A class of gateways.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GatewayClass {
    /// `metadata`.
    pub metadata: Meta,
    /// `spec`.
    pub spec: GatewayClassSpec,
    /// `status`, as it is.
    pub status: Status,
}

/// `spec` of a class.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// Who looks after its gateways.
    pub controller_name: String,
    /// Parameters, which Weir has none of.
    pub parameters_ref: Option<Value>,
}

/// A gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// `metadata`.
    pub metadata: Meta,
    /// `spec`.
    pub spec: GatewaySpec,
    /// `status`, as it is.
    pub status: Status,
}

/// `spec` of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Its class.
    pub gateway_class_name: String,
    /// Listeners.
    pub listeners: Vec<Listener>,
    /// Addresses that it wants.
    pub addresses: Vec<GatewayAddress>,
    /// What belongs to what is made for it.
    pub infrastructure: Infrastructure,
}

/// `spec.infrastructure` of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Infrastructure {
    /// Labels of what is made.
    pub labels: BTreeMap<String, String>,
    /// Annotations of what is made.
    pub annotations: BTreeMap<String, String>,
    /// Parameters, which Weir has none of.
    pub parameters_ref: Option<Value>,
}

/// An address that a gateway wants.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GatewayAddress {
    /// `IPAddress` where nothing is said.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The address; any of the kind without it.
    pub value: Option<String>,
}

/// A listener of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Listener {
    /// Name.
    pub name: String,
    /// Host of its requests; any without it.
    pub hostname: Option<String>,
    /// Port.
    pub port: u16,
    /// `HTTP` or `HTTPS`; others are not supported.
    pub protocol: String,
    /// Certificates.
    pub tls: Option<ListenerTls>,
    /// Which routes may attach.
    pub allowed_routes: AllowedRoutes,
}

/// TLS of a listener.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerTls {
    /// `Terminate` or `Passthrough`.
    pub mode: Option<String>,
    /// Certificates.
    pub certificate_refs: Vec<ObjectRef>,
}

/// A reference to an object.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ObjectRef {
    /// Group; that of Kubernetes itself is empty.
    pub group: Option<String>,
    /// Kind.
    pub kind: Option<String>,
    /// Name.
    pub name: String,
    /// Namespace, if another one.
    pub namespace: Option<String>,
}

/// Which routes may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AllowedRoutes {
    /// Of which namespaces.
    pub namespaces: RouteNamespaces,
    /// Of which kinds.
    pub kinds: Vec<RouteKind>,
}

/// Namespaces whose routes may attach.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RouteNamespaces {
    /// `Same`, `All` or `Selector`.
    pub from: Option<String>,
    /// Which namespaces, by their labels.
    pub selector: Option<Selector>,
}

/// Selects objects by labels.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// Labels that have to be there.
    pub match_labels: BTreeMap<String, String>,
    /// Further conditions.
    pub match_expressions: Vec<Requirement>,
}

/// A condition on a label.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// Name of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values of `In` and `NotIn`.
    pub values: Vec<String>,
}

impl Selector {
    /// Whether it selects an object with these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |key: &str, values: &[String]| labels.get(key).is_some_and(|value| values.contains(value));
        self.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.match_expressions.iter().all(|one| match one.operator.as_str() {
                "In" => has(&one.key, &one.values),
                "NotIn" => !has(&one.key, &one.values),
                "Exists" => labels.contains_key(&one.key),
                "DoesNotExist" => !labels.contains_key(&one.key),
                _ => false,
            })
    }
}

/// A kind of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default)]
pub struct RouteKind {
    /// Group; that of the Gateway API where nothing is said.
    pub group: Option<String>,
    /// Kind.
    pub kind: String,
}

/// Lets objects of other namespaces refer to those of its own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReferenceGrant {
    /// `metadata`.
    pub metadata: Meta,
    /// `spec`.
    pub spec: ReferenceGrantSpec,
}

/// `spec` of a grant.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReferenceGrantSpec {
    /// Who may refer.
    pub from: Vec<GrantFrom>,
    /// To what.
    pub to: Vec<GrantTo>,
}

/// Who may refer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrantFrom {
    /// Group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
}

/// What may be referred to.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrantTo {
    /// Group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name; all of the kind without it.
    pub name: Option<String>,
}

object!(GatewayClass, "/apis/gateway.networking.k8s.io/v1/gatewayclasses");
object!(Gateway, "/apis/gateway.networking.k8s.io/v1/gateways");
object!(ReferenceGrant, "/apis/gateway.networking.k8s.io/v1/referencegrants");
