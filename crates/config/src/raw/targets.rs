//! The targets of an upstream: a list, a file with one, or a service in a registry.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::Spanned;
use super::target::TargetUrl;
use super::text::{FieldValue, text_type};
use super::word::{WordOr, word_or};
use crate::{EndpointPort, KubernetesService};

/// Where targets are named.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets {
    /// Here.
    List(Vec<Spanned<Target>>),
    /// Elsewhere; that is followed.
    Source(Box<TargetSource>),
}

/// A file, or a service in a registry, that names targets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `file`, `kubernetes` or `consul`")]
pub struct TargetSource {
    /// YAML or JSON file with a list of targets, relative to the configuration file. Changes take effect without a reload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Spanned<String>>,
    /// `NAMESPACE/SERVICE:PORT`: the ready endpoints of a Service of Kubernetes, which are followed. PORT is a name, or the number that endpoints listen on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Spanned<Service>>,
    /// Name of a service in Consul, whose healthy instances are followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consul: Option<Spanned<String>>,
    /// With `kubernetes` or `consul`: `https` connects to targets over TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Spanned<TargetScheme>>,
    /// With `kubernetes` or `consul`: path that is put before every forwarded path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Spanned<String>>,
    /// With `consul`: URL of the agent; `http://127.0.0.1:8500` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Spanned<String>>,
    /// With `consul`: only instances with this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<Spanned<String>>,
    /// With `consul`: datacenter, if not that of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacenter: Option<Spanned<String>>,
    /// With `consul`: token of the access control list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Spanned<FieldValue>>,
}

/// What targets of a registry are connected to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetScheme {
    /// Clear text.
    #[default]
    Http,
    /// TLS.
    Https,
}

impl Targets {
    /// Those that are named here.
    pub fn listed(&self) -> &[Spanned<Target>] {
        match self {
            Targets::List(list) => list,
            Targets::Source(_) => &[],
        }
    }

    /// What names them, if not this list.
    pub fn source(&self) -> Option<&TargetSource> {
        match self {
            Targets::List(_) => None,
            Targets::Source(source) => Some(source),
        }
    }

    /// The file that names them.
    pub fn file(&self) -> Option<&Spanned<String>> {
        self.source()?.file.as_ref()
    }
}

impl Default for Targets {
    fn default() -> Self {
        Targets::List(Vec::new())
    }
}

impl Serialize for Targets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Targets::List(list) => list.serialize(serializer),
            Targets::Source(source) => source.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = Targets;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of targets, or a mapping with `file`, `kubernetes` or `consul`")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Targets, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Targets::List)
            }
            fn visit_map<A: MapAccess<'de>>(self, mapping: A) -> Result<Targets, A::Error> {
                Box::deserialize(MapAccessDeserializer::new(mapping)).map(Targets::Source)
            }
        }
        d.deserialize_any(Forms)
    }
}

impl JsonSchema for Targets {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Targets".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let target = generator.subschema_for::<Target>();
        let source = generator.subschema_for::<TargetSource>();
        json_schema!({"description": "Where targets are named.", "anyOf": [{"type": "array", "items": target}, source]})
    }
}

/// `NAMESPACE/SERVICE:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service(pub KubernetesService);

text_type!(
    Service,
    "KubernetesService",
    r"^[a-z0-9-]{1,63}/[a-z0-9-]{1,63}:[a-z0-9-]{1,63}$",
    "a Service of Kubernetes with a port: `NAMESPACE/SERVICE:PORT`"
);

impl FromStr for Service {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| format!("`{text}`: {what}; write `NAMESPACE/SERVICE:PORT`, such as `shop/orders:http`");
        let (namespace, rest) = text.split_once('/').ok_or_else(|| wrong("the namespace is missing"))?;
        let (name, port) = rest.split_once(':').ok_or_else(|| wrong("the port is missing"))?;
        for (what, part) in [("namespace", namespace), ("Service", name)] {
            if !is_label(part) {
                return Err(wrong(&format!("`{part}` is not the name of a {what}")));
            }
        }
        let port = if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = port.parse().ok().filter(|&number: &u16| number != 0);
            EndpointPort::Number(number.ok_or_else(|| wrong(&format!("`{port}` is not a port")))?)
        } else if is_label(port) {
            EndpointPort::Name(port.into())
        } else {
            return Err(wrong(&format!("`{port}` is neither a number nor the name of a port")));
        };
        Ok(Service(KubernetesService { namespace: namespace.into(), name: name.into(), port }))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A label of DNS (RFC 1123), as names in Kubernetes are.
fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// One target.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Where to connect.
    pub url: TargetUrl,
    /// Share of requests relative to the other targets.
    pub weight: NonZeroU32,
}

impl From<TargetUrl> for Target {
    fn from(url: TargetUrl) -> Self {
        Target { url, weight: NonZeroU32::MIN }
    }
}

/// A target with its weight.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping of `url` and `weight`")]
struct WeightedTarget {
    /// Where to connect.
    url: TargetUrl,
    /// Share of requests relative to the other targets.
    #[serde(default = "one")]
    weight: NonZeroU32,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.weight == one() {
            return self.url.serialize(serializer);
        }
        WeightedTarget { url: self.url.clone(), weight: self.weight }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(match word_or::<_, TargetUrl, WeightedTarget>(d, "a URL or a mapping with `url`")? {
            WordOr::Word(url) => url.into(),
            WordOr::More(WeightedTarget { url, weight }) => Target { url, weight },
        })
    }
}

impl JsonSchema for Target {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Target".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let url = generator.subschema_for::<TargetUrl>();
        let weighted = generator.subschema_for::<WeightedTarget>();
        json_schema!({"description": "One target.", "anyOf": [url, weighted]})
    }
}
