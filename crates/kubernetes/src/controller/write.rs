//! Writes Services and statuses, while this process leads.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::lease::Leader;
use super::reflect::Change;
use super::services::ServiceWriter;
use crate::client::{ApiError, Client};
use crate::objects::{Key, Status};
use crate::translate::{ServiceWrite, StatusPatch};

type Id = (&'static str, Key);

/// What is to be written.
#[derive(Default)]
struct Wanted {
    statuses: Vec<StatusPatch>,
    services: Vec<ServiceWrite>,
}

/// Writes beside everything else: the newest of each object.
pub(super) struct Writer {
    wanted: watch::Sender<Arc<Wanted>>,
}

impl Writer {
    pub(super) fn start(client: Client, leader: Leader, changes: UnboundedSender<Change>) -> Self {
        let (wanted, receiver) = watch::channel(Arc::default());
        tokio::spawn(run(client, leader, receiver, ServiceWriter::new(changes)));
        Writer { wanted }
    }

    /// These are the statuses, and the Services that are not what they should be, from now on.
    pub(super) fn write(&self, statuses: Vec<StatusPatch>, services: Vec<ServiceWrite>) {
        self.wanted.send_replace(Arc::new(Wanted { statuses, services }));
    }

    /// Tries again what could not be written.
    pub(super) fn look_again(&self) {
        self.wanted.send_modify(|_| {});
    }
}

async fn run(
    client: Client,
    mut leader: Leader,
    mut wanted: watch::Receiver<Arc<Wanted>>,
    mut services: ServiceWriter,
) {
    // What was written last, and what was there before: the object as it is seen may lag behind. One that is seen in a third state was written by
    // others meanwhile.
    let mut written: BTreeMap<Id, (Value, Status)> = BTreeMap::new();
    loop {
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = leader.changed() => {}
        }
        if !leader.leads() {
            written.clear();
            services.forget();
            continue;
        }
        let now_wanted = wanted.borrow_and_update().clone();
        // Before the statuses: what they say of addresses comes from the Services, and there may be thousands of them.
        services.write(&client, &leader, &now_wanted.services).await;
        for patch in &now_wanted.statuses {
            let now = OffsetDateTime::now_utc();
            let now = now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default();
            let id = (patch.kind, patch.key.clone());
            let Some(status) = patch.at(&now) else {
                written.remove(&id);
                continue;
            };
            if written.get(&id).is_some_and(|(status, seen)| (status, seen) == (&patch.status, &patch.seen)) {
                continue;
            }
            match put(&client, patch, status, &now).await {
                Ok(()) => drop(written.insert(id, (patch.status.clone(), patch.seen.clone()))),
                // It was deleted, or was changed meanwhile and will be seen so.
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => tracing::warn!(kind = patch.kind, object = %patch.key, %error, "cannot write a status"),
            }
            // Objects have changed meanwhile: what is written from here on would be old.
            if wanted.has_changed().unwrap_or(true) {
                break;
            }
        }
    }
}

/// Writes a status over the one that was seen. If another controller wrote meanwhile, over its one.
async fn put(client: &Client, patch: &StatusPatch, status: Value, now: &str) -> Result<(), ApiError> {
    let media = "application/merge-patch+json";
    let body = |version: &str, status: Value| json!({"metadata": {"resourceVersion": version}, "status": status});
    let first = client.call(Method::PATCH, &path(patch), media, Some(&body(&patch.version, status))).await;
    if !first.as_ref().is_err_and(ApiError::is_conflict) {
        return first.map(drop);
    }
    let newest = client.call(Method::GET, &path(patch), "", None).await?;
    let text = |name: &str| newest.pointer(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let patch = StatusPatch {
        seen: newest.get("status").cloned().unwrap_or_default().into(),
        version: text("/metadata/resourceVersion"),
        ..patch.clone()
    };
    let Some(status) = patch.at(now) else { return Ok(()) };
    client.call(Method::PATCH, &path(&patch), media, Some(&body(&patch.version, status))).await.map(drop)
}

fn path(patch: &StatusPatch) -> String {
    let StatusPatch { path, key, .. } = patch;
    match (path.rsplit_once('/'), key.namespace.is_empty()) {
        (Some((group, plural)), false) => {
            format!("{group}/namespaces/{}/{plural}/{}/status", key.namespace, key.name)
        }
        _ => format!("{path}/{}/status", key.name),
    }
}
