//! The objects that the controller reads, with the fields that it uses; others are ignored, so that newer releases can be read too.

mod core;
mod gateway;
mod route;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use core::*;
pub use gateway::*;
pub use route::*;

/// Group of the Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

/// `metadata`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    /// Name.
    pub name: String,
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Counts changes of `spec`.
    pub generation: i64,
    /// Version of the object in the store.
    pub resource_version: String,
    /// When it was made, RFC 3339 in UTC: the order of the texts is the order of the times.
    pub creation_timestamp: String,
    /// Set while the object waits for its finalizers.
    pub deletion_timestamp: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Those annotations that Weir writes; others may be large, and change without any effect on what is served.
    #[serde(deserialize_with = "of_weir")]
    pub annotations: BTreeMap<String, String>,
    /// Never given twice.
    pub uid: String,
}

/// What the names of annotations of Weir begin with.
pub const WEIR_PREFIX: &str = "weir.dev/";

fn of_weir<'de, D: serde::Deserializer<'de>>(d: D) -> Result<BTreeMap<String, String>, D::Error> {
    let mut all: BTreeMap<String, String> = Option::deserialize(d)?.unwrap_or_default();
    all.retain(|name, _| name.starts_with(WEIR_PREFIX));
    Ok(all)
}

impl Meta {
    /// Whether the other differs in nothing but the version in the store, which every write changes, that of a status too.
    pub fn is_same_but_for_version(&self, other: &Meta) -> bool {
        *self == Meta { resource_version: self.resource_version.clone(), ..other.clone() }
    }
}

/// `status` of an object, as it is. What is made of it refers to it: there may be thousands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status(Arc<Value>);

impl Deref for Status {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl From<Value> for Status {
    fn from(value: Value) -> Self {
        Status(value.into())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Status::from)
    }
}

/// Namespace and name of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// A key of these parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An object of the API server.
pub trait Object: for<'de> Deserialize<'de> + Clone + PartialEq + Send + Sync + 'static {
    /// Kind, as in `kind`.
    const KIND: &'static str;
    /// Where objects of this kind are listed, below the address of the server.
    const PATH: &'static str;

    /// `metadata`.
    fn meta(&self) -> &Meta;

    /// Namespace and name.
    fn key(&self) -> Key {
        Key::new(&self.meta().namespace, &self.meta().name)
    }
}

macro_rules! object {
    ($type:ident, $path:literal) => {
        impl crate::objects::Object for $type {
            const KIND: &'static str = stringify!($type);
            const PATH: &'static str = $path;

            fn meta(&self) -> &crate::objects::Meta {
                &self.metadata
            }
        }
    };
}
use object;
