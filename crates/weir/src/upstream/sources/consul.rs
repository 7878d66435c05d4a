//! Services in Consul: the instances whose checks pass, by the health API with blocking queries.
//!
//! A response has an index; the next request with it waits at the agent until something has changed, or five minutes. As the documentation of
//! Consul wants it: an index that went backwards is not used, nor is one of 0, and requests have a least distance, as an index may change with
//! every write to a busy cluster.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode};
use serde::Deserialize;
use tls::client::Options;
use tokio::time::Instant;

use super::registry::{Backoff, Endpoint, Host, MAX_BYTES, Response, Sink, in_order};
use crate::config::{self, ConsulService};
use crate::upstream::{Resolver, client};

/// How long the agent waits for a change; it adds up to a sixteenth of it.
const WAIT: Duration = Duration::from_secs(5 * 60);

/// How long a response may take beside that.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What of an instance is of use.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Instance {
    node: Node,
    service: Service,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    #[serde(default)]
    address: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: u32,
    #[serde(default)]
    weights: Option<Weights>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Weights {
    #[serde(default)]
    passing: u32,
}

/// A response.
#[derive(Debug)]
struct Instances {
    endpoints: Vec<Endpoint>,
    /// What the next request waits with.
    index: Option<u64>,
}

pub(super) async fn look_up(service: &ConsulService, resolver: &Resolver) -> Response {
    fetch(service, resolver, None).await.map(|found| found.endpoints)
}

pub(super) async fn follow(service: &ConsulService, sink: &Sink, resolver: &Resolver) {
    let pace = resolver.pace();
    let mut backoff = Backoff::new();
    let mut index = None;
    loop {
        let started = Instant::now();
        let pause = match fetch(service, resolver, index).await {
            Ok(found) => {
                backoff.reset();
                index = next_index(index, found.index);
                sink.take_in(Ok(found.endpoints));
                backoff.stray(pace.min).saturating_sub(started.elapsed())
            }
            Err(why) => {
                // The next response must not wait for a change: it says that the agent is back.
                index = None;
                sink.take_in(Err(why));
                backoff.fail(pace)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// The index that the next request waits with. One that went backwards is of another history, such as after a restored snapshot.
fn next_index(before: Option<u64>, found: Option<u64>) -> Option<u64> {
    found.filter(|&index| index > 0 && before.is_none_or(|before| index >= before))
}

async fn fetch(service: &ConsulService, resolver: &Resolver, index: Option<u64>) -> Result<Instances, String> {
    let mut request =
        Request::get(url(service, index)).header(ACCEPT, "application/json").header(USER_AGENT, "weir-discovery");
    if let Some(token) = &service.token {
        // It was read as the value of a field.
        let mut value =
            HeaderValue::try_from(&**token).map_err(|_| "the token is not the value of a field".to_owned())?;
        value.set_sensitive(true);
        request = request.header("x-consul-token", value);
    }
    let request = request.body(Full::<Bytes>::default()).map_err(|error| error.to_string())?;
    let within = if index.is_some() { WAIT + WAIT / 16 + TIMEOUT } else { TIMEOUT };
    let options = Options::default();
    let response = tokio::time::timeout(within, client::send(request, &options, resolver, MAX_BYTES)).await;
    let response =
        response.map_err(|_| format!("{}: no response within {} s", service.address, within.as_secs()))??;
    match response.head.status {
        StatusCode::OK => {}
        StatusCode::FORBIDDEN => {
            return Err(format!("{}: status 403: the token may not read the service", service.address));
        }
        status => return Err(format!("{}: status {}", service.address, status.as_u16())),
    }
    let index = response.head.headers.get("x-consul-index").and_then(|index| index.to_str().ok()?.parse().ok());
    Ok(Instances { endpoints: endpoints(&response.body)?, index })
}

fn url(service: &ConsulService, index: Option<u64>) -> String {
    let mut url = format!("{}/v1/health/service/{}?passing=1", service.address, service.name);
    for (key, value) in [("dc", &service.datacenter), ("tag", &service.tag)] {
        if let Some(value) = value {
            url.push_str(&format!("&{key}="));
            encode(&mut url, value);
        }
    }
    if let Some(index) = index {
        url.push_str(&format!("&index={index}&wait={}s", WAIT.as_secs()));
    }
    url
}

/// Appends a text as a value of a query.
fn encode(url: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(byte.into());
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// The endpoints of a response.
fn endpoints(body: &[u8]) -> Response {
    let instances: Vec<Instance> = serde_json::from_slice(body)
        .map_err(|error| format!("the response of Consul is not a list of instances: {error}"))?;
    let mut found = Vec::with_capacity(instances.len());
    let mut unusable = None;
    for Instance { node, service } in &instances {
        let address = if service.address.is_empty() { &node.address } else { &service.address };
        let port = u16::try_from(service.port).ok().filter(|port| *port != 0);
        match (host(address), port) {
            (Some(host), Some(port)) => {
                // Without weights, and below the least there is, 1.
                let weight = service.weights.as_ref().and_then(|weights| NonZeroU32::new(weights.passing));
                found.push(Endpoint { host, port, weight: weight.unwrap_or(NonZeroU32::MIN) });
            }
            _ => unusable = Some(format!("no target is at `{address}`, port {}", service.port)),
        }
    }
    match unusable {
        Some(why) if found.is_empty() => return Err(format!("no instance of the service can be used: {why}")),
        Some(why) => tracing::debug!(why, "instance left out"),
        None => {}
    }
    in_order(found)
}

fn host(text: &str) -> Option<Host> {
    if let Ok(ip) = text.parse() {
        return Some(Host::Ip(ip));
    }
    let name = text.to_ascii_lowercase();
    config::is_host_name(&name).then(|| Host::Name(Arc::from(name)))
}

#[cfg(test)]
mod tests;
