//! The lease: of several processes one writes statuses.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::client::{ApiError, Client};
use crate::objects::Key;

/// How long a lease holds that is not renewed, and how often it is renewed.
const HOLDS: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(5);

/// The lease that processes share, and who this one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Namespace and name.
    pub key: Key,
    /// Name of this process, unique among them.
    pub identity: String,
}

impl LeaseSettings {
    fn folder(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.key.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.folder(), self.key.name)
    }
}

/// Comes when the process ends; what it holds is dropped once the lease is given back.
pub type Shutdown = oneshot::Receiver<oneshot::Sender<()>>;

/// Whether this process leads.
#[derive(Debug, Clone)]
pub(super) struct Leader(watch::Receiver<bool>);

impl Leader {
    /// Runs for the lease; without one this process leads.
    pub(super) fn start(client: Client, settings: Option<LeaseSettings>, shutdown: Shutdown) -> Self {
        let (leads, receiver) = watch::channel(settings.is_none());
        match settings {
            Some(settings) => drop(tokio::spawn(campaign(client, settings, leads, shutdown))),
            // The value stays what it is.
            None => drop(leads),
        }
        Leader(receiver)
    }

    pub(super) fn leads(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until this process begins or ceases to lead.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn campaign(client: Client, settings: LeaseSettings, leads: watch::Sender<bool>, mut shutdown: Shutdown) {
    let mut is_endless = false;
    // Clocks of machines differ: how old a lease is, is measured from when it was seen to change.
    let mut seen: Option<(String, Instant)> = None;
    let mut renewed = Instant::now();
    loop {
        let held = match attempt(&client, &settings, &mut seen).await {
            Ok(held) => held,
            Err(error) => {
                tracing::warn!(%error, lease = %settings.key, "cannot renew the lease");
                // It is still this process's as long as nobody else can think that it ended.
                *leads.borrow() && renewed.elapsed() < HOLDS - RENEW
            }
        };
        if held {
            renewed = Instant::now();
        }
        if *leads.borrow() != held {
            tracing::info!(lease = %settings.key, identity = settings.identity, leads = held, "leadership changed");
            leads.send_replace(held);
        }
        tokio::select! {
            () = tokio::time::sleep(RENEW) => {}
            () = leads.closed() => return,
            done = &mut shutdown, if !is_endless => {
                let Ok(_done) = done else {
                    // Nobody will say when the process ends.
                    is_endless = true;
                    continue;
                };
                if leads.send_replace(false) {
                    give_back(&client, &settings).await;
                }
                return;
            }
        }
    }
}

/// Leaves the lease to the next process that looks, which need not wait until it has run out.
async fn give_back(client: &Client, settings: &LeaseSettings) {
    let path = settings.path();
    let result = async {
        let mut lease = client.call(Method::GET, &path, "", None).await?;
        if lease.pointer("/spec/holderIdentity").and_then(Value::as_str) != Some(&settings.identity) {
            return Ok(());
        }
        let transitions = lease.pointer("/spec/leaseTransitions").cloned().unwrap_or_else(|| 0.into());
        let now = micro_time(OffsetDateTime::now_utc());
        lease["spec"] = json!({"leaseDurationSeconds": 1, "renewTime": now, "leaseTransitions": transitions});
        client.call(Method::PUT, &path, "application/json", Some(&lease)).await.map(drop)
    };
    match result.await {
        Ok(()) => tracing::info!(lease = %settings.key, "gave the lease back"),
        Err(error) => {
            let error: ApiError = error;
            tracing::warn!(%error, lease = %settings.key, "cannot give the lease back: it runs out by itself");
        }
    }
}

/// Takes or renews the lease; says whether this process has it.
async fn attempt(
    client: &Client,
    settings: &LeaseSettings,
    seen: &mut Option<(String, Instant)>,
) -> Result<bool, ApiError> {
    let path = settings.path();
    let now = micro_time(OffsetDateTime::now_utc());
    let spec = |transitions: i64, acquired: &str| {
        json!({
            "holderIdentity": settings.identity,
            "leaseDurationSeconds": HOLDS.as_secs(),
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": transitions,
        })
    };
    let kind = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"});
    let found = match client.call(Method::GET, &path, "", None).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => {
            let mut lease = kind;
            lease["metadata"] = json!({"name": settings.key.name, "namespace": settings.key.namespace});
            lease["spec"] = spec(0, &now);
            return won(client.call(Method::POST, &settings.folder(), "application/json", Some(&lease)).await);
        }
        Err(error) => return Err(error),
    };
    let text = |name: &str| found.pointer(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (holder, version) = (text("/spec/holderIdentity"), text("/metadata/resourceVersion"));
    let transitions = found.pointer("/spec/leaseTransitions").and_then(Value::as_i64).unwrap_or(0);
    let is_own = holder == settings.identity;
    if seen.as_ref().is_none_or(|(known, _)| *known != version) {
        *seen = Some((version, Instant::now()));
    }
    let is_old = seen.as_ref().is_some_and(|(_, since)| since.elapsed() >= HOLDS);
    if !is_own && !holder.is_empty() && !is_old {
        return Ok(false);
    }
    let mut lease = found.clone();
    lease["spec"] = if is_own { spec(transitions, &text("/spec/acquireTime")) } else { spec(transitions + 1, &now) };
    won(client.call(Method::PUT, &path, "application/json", Some(&lease)).await)
}

/// Of several that write at once, one succeeds.
fn won(result: Result<Value, ApiError>) -> Result<bool, ApiError> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() => Ok(false),
        Err(error) => Err(error),
    }
}

fn micro_time(time: OffsetDateTime) -> String {
    let text = time.replace_nanosecond(0).unwrap_or(time).format(&Rfc3339).unwrap_or_default();
    text.replace('Z', &format!(".{:06}Z", time.microsecond()))
}
