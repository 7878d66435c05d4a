//! Writes the Services of gateways.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::lease::Leader;
use super::reflect::{Change, Scope};
use crate::client::{ApiError, Client};
use crate::cluster::Cluster;
use crate::objects::{Gateway, Key, Object, Service};
use crate::translate::ServiceWrite;

/// Who has the fields that are applied: the same for all processes, so that another leader can remove what this one applied.
const FIELD_MANAGER: &str = "weir";

/// How long it may take until what was applied is seen. After that, somebody deleted it before it was.
const LAG: Duration = Duration::from_secs(10);

/// Writes each change of a Service once; the object as it is seen may lag behind.
pub(super) struct ServiceWriter {
    changes: UnboundedSender<Change>,
    /// What was applied last and when, and the version that was seen then.
    applied: BTreeMap<Key, (Value, String, Instant)>,
}

impl ServiceWriter {
    pub(super) fn new(changes: UnboundedSender<Change>) -> Self {
        ServiceWriter { changes, applied: BTreeMap::new() }
    }

    /// Another process may write from now on.
    pub(super) fn forget(&mut self) {
        self.applied.clear();
    }

    /// Lets the status of the gateway say why its Service cannot be written, or no longer.
    fn say(&self, key: &Key, why: Option<String>) {
        let key = key.clone();
        let apply = move |cluster: &mut Cluster| match why {
            None => cluster.refused_services.remove(&key).map_or(Scope::None, |_| Scope::All),
            // The first text stays: one that has a time in it would be a change each time.
            Some(_) if cluster.refused_services.contains_key(&key) => Scope::None,
            Some(why) => {
                cluster.refused_services.insert(key, why);
                Scope::All
            }
        };
        // Nobody listens any more when the process ends.
        let _ = self.changes.send(Change { kind: Service::KIND, is_list: false, apply: Box::new(apply) });
    }

    pub(super) async fn write(&mut self, client: &Client, leader: &Leader, writes: &[ServiceWrite]) {
        self.applied.retain(|key, _| writes.iter().any(|write| write.key() == key));
        for write in writes {
            if !leader.leads() {
                return;
            }
            let key = write.key();
            match write {
                ServiceWrite::Apply { object, version, .. } => {
                    let is_done = |(last, seen, at): &(Value, String, Instant)| {
                        (last, seen) == (object, version) && at.elapsed() < LAG
                    };
                    if self.applied.get(key).is_some_and(is_done) {
                        continue;
                    }
                    let path = format!("{}?fieldManager={FIELD_MANAGER}&force=true", path(key));
                    match client.call(Method::PATCH, &path, "application/apply-patch+yaml", Some(object)).await {
                        Ok(_) => {
                            tracing::info!(service = %key, "the Service of a Gateway was written");
                            self.applied.insert(key.clone(), (object.clone(), version.clone(), Instant::now()));
                            self.say(key, None);
                        }
                        Err(error) => {
                            tracing::warn!(service = %key, %error, "cannot write the Service of a Gateway");
                            if error.is_response() {
                                self.say(key, Some(error.to_string()));
                            }
                        }
                    }
                }
                ServiceWrite::Delete { gateway, class, uid, version, .. } => {
                    match delete(client, key, gateway, class.as_deref(), (uid, version)).await {
                        Ok(true) => {
                            tracing::info!(service = %key, %gateway, "the Service of a former Gateway was deleted");
                        }
                        // It was seen late, or will be seen in another state.
                        Ok(false) => {}
                        Err(error) if error.is_not_found() || error.is_conflict() => {}
                        Err(error) => tracing::warn!(service = %key, %error, "cannot delete the Service of a Gateway"),
                    }
                }
            }
        }
    }
}

/// Deletes a Service, if it and its gateway are still what was seen. A load balancer and its address cannot be had back: the API server is
/// read again, so that a list that was wrong for a moment, as while kinds are installed anew, deletes nothing.
async fn delete(
    client: &Client,
    key: &Key,
    gateway: &Key,
    class: Option<&str>,
    seen: (&str, &str),
) -> Result<bool, ApiError> {
    let listed = client.list::<Gateway>().await?;
    let found = listed.items.iter().find(|found| found.key() == *gateway);
    if found.map(|found| &*found.spec.gateway_class_name) != class {
        return Ok(false);
    }
    let (uid, version) = seen;
    let options =
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid, "resourceVersion": version}});
    client.call(Method::DELETE, &path(key), "application/json", Some(&options)).await?;
    Ok(true)
}

fn path(key: &Key) -> String {
    format!("/api/v1/namespaces/{}/services/{}", key.namespace, key.name)
}
