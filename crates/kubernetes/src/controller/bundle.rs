//! The release of the custom resources: a class says whether it is supported.

use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::reflect::{Change, Scope};
use crate::client::Client;

/// One object of those that are installed together.
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gatewayclasses.gateway.networking.k8s.io";
const RELEASE: &str = "/metadata/annotations/gateway.networking.k8s.io~1bundle-version";
/// How often it is read: it changes when somebody installs another one.
const EVERY: Duration = Duration::from_secs(60);

/// Reads the release again and again. Nothing waits for it: without the right to read it a class does not say whether it is supported.
pub(super) fn start(client: &Client, changes: &UnboundedSender<Change>) {
    tokio::spawn(follow(client.clone(), changes.clone()));
}

async fn follow(client: Client, changes: UnboundedSender<Change>) {
    let mut was_said = false;
    loop {
        match client.call(Method::GET, PATH, "", None).await {
            Ok(found) => {
                let release = found.pointer(RELEASE).and_then(Value::as_str).map(str::to_owned);
                let change = Change {
                    kind: "CustomResourceDefinition",
                    is_list: false,
                    apply: Box::new(move |cluster| {
                        let before = std::mem::replace(&mut cluster.release, release);
                        if before == cluster.release { Scope::None } else { Scope::All }
                    }),
                };
                if changes.send(change).is_err() {
                    return;
                }
            }
            Err(error) if !was_said => {
                tracing::info!(%error, "cannot read the release of the custom resources of the Gateway API");
                was_said = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(EVERY).await;
    }
}
