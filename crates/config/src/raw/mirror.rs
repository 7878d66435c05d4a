//! Copies of requests, and faults that are injected.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shape::Spanned;
use super::text::Method;
use super::units::{Share, Size, Time};

/// Copies of requests to another upstream, whose responses are thrown away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mapping with `upstream`, or `none`")]
pub struct Mirror {
    /// Upstream that gets the copies.
    pub upstream: Spanned<String>,
    /// Share of requests that are copied.
    #[serde(default = "everything")]
    pub share: Share,
    /// Methods that are copied. Others change something at the upstream, which would be done twice.
    #[serde(default = "safe_methods")]
    pub methods: Vec<Method>,
    /// Largest request body that is copied.
    #[serde(default = "default_body")]
    pub body: Size,
    /// How long a copy may take in all.
    #[serde(default = "default_timeout")]
    pub timeout: Time,
}

fn everything() -> Share {
    Share { percent: 100.0 }
}

fn safe_methods() -> Vec<Method> {
    ["GET", "HEAD", "OPTIONS"].map(|method| Method(method.to_owned())).into()
}

fn default_body() -> Size {
    Size(64 << 10)
}

fn default_timeout() -> Time {
    Time(Duration::from_secs(10))
}

/// A fault that is injected on purpose, to see what clients make of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a mapping with `delay` or `status`, or `none`")]
pub struct InjectedFault {
    /// How long requests are held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
    /// Status of the response, in place of the route's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Spanned<u16>>,
    /// Share of requests that are affected.
    pub share: Share,
}

impl Default for InjectedFault {
    fn default() -> Self {
        InjectedFault { delay: None, status: None, share: everything() }
    }
}
