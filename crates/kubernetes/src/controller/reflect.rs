//! Reflectors: a list, then a watch that goes on from it; when it cannot, a list again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::Services;
use crate::client::{ApiError, Client, Event};
use crate::cluster::{Cluster, Store};
use crate::objects::{
    EndpointSlice, GRPCRoute, Gateway, GatewayClass, HTTPRoute, Key, Namespace, Object, ReferenceGrant, Secret, Service,
};

/// First and longest pause after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Longest pause between watches that break off: a connection costs little, and the server may be back.
const LONGEST_BETWEEN: Duration = Duration::from_secs(1);
/// How often it is looked whether the server knows a kind by now.
const UNKNOWN_KIND: Duration = Duration::from_secs(30);

/// What a change of an object concerns.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Nothing.
    None,
    /// Statuses of routes, which this or another process wrote.
    Statuses,
    /// Endpoints of these services only.
    Endpoints(Services),
    /// Everything.
    All,
}

impl Scope {
    /// Both together.
    pub(super) fn and(self, other: Scope) -> Scope {
        match (self, other) {
            (Scope::All, _) | (_, Scope::All) => Scope::All,
            (Scope::None, one) | (one, Scope::None) => one,
            (Scope::Statuses, one) | (one, Scope::Statuses) => one,
            (Scope::Endpoints(mut some), Scope::Endpoints(more)) => {
                some.extend(more);
                Scope::Endpoints(some)
            }
        }
    }
}

/// A change of what is known of the cluster.
pub(super) struct Change {
    pub(super) kind: &'static str,
    /// It is the outcome of a list.
    pub(super) is_list: bool,
    pub(super) apply: Box<dyn FnOnce(&mut Cluster) -> Scope + Send>,
}

/// A kind of objects that is followed.
trait Followed: Object {
    fn store(cluster: &mut Cluster) -> &mut Store<Self>;
    /// What a change concerns.
    fn scope(before: Option<&Self>, after: Option<&Self>) -> Scope {
        if before == after { Scope::None } else { Scope::All }
    }
}

macro_rules! followed {
    ($($type:ident $store:ident),* $(,)?) => {
        $(impl Followed for $type {
            fn store(cluster: &mut Cluster) -> &mut Store<Self> { &mut cluster.$store }
        })*
    };
}
followed!(
    GatewayClass classes,
    Gateway gateways,
    ReferenceGrant grants,
    Service services,
    Secret secrets,
    Namespace namespaces,
);

/// Routes, of which there may be thousands, each with a status that the leader writes: a status alone makes no configuration.
macro_rules! followed_routes {
    ($($type:ident $store:ident),* $(,)?) => {
        $(impl Followed for $type {
            fn store(cluster: &mut Cluster) -> &mut Store<Self> { &mut cluster.$store }

            fn scope(before: Option<&Self>, after: Option<&Self>) -> Scope {
                match (before, after) {
                    (Some(before), Some(after))
                        if before.spec == after.spec && before.metadata.is_same_but_for_version(&after.metadata) =>
                    {
                        if before.status == after.status { Scope::None } else { Scope::Statuses }
                    }
                    _ => Scope::All,
                }
            }
        })*
    };
}
followed_routes!(HTTPRoute http_routes, GRPCRoute grpc_routes);

impl Followed for EndpointSlice {
    fn store(cluster: &mut Cluster) -> &mut Store<Self> {
        &mut cluster.slices
    }

    fn scope(before: Option<&Self>, after: Option<&Self>) -> Scope {
        let of = |slice: &Self| Some(Key::new(&slice.metadata.namespace, slice.service()?));
        Scope::Endpoints(before.into_iter().chain(after).filter_map(of).collect())
    }
}

/// Follows every kind; returns how many there are.
pub(super) fn start(client: &Client, changes: &UnboundedSender<Change>) -> usize {
    fn one<T: Followed>(client: &Client, changes: &UnboundedSender<Change>) {
        tokio::spawn(follow::<T>(client.clone(), changes.clone()));
    }
    let all: [fn(&Client, &UnboundedSender<Change>); 9] = [
        one::<GatewayClass>,
        one::<Gateway>,
        one::<HTTPRoute>,
        one::<GRPCRoute>,
        one::<ReferenceGrant>,
        one::<Service>,
        one::<EndpointSlice>,
        one::<Secret>,
        one::<Namespace>,
    ];
    all.iter().for_each(|start| start(client, changes));
    all.len()
}

async fn follow<T: Followed>(client: Client, changes: UnboundedSender<Change>) {
    let mut pause = RETRY.0;
    loop {
        match list_and_watch::<T>(&client, &changes, &mut pause).await {
            Ok(()) => return,
            Err(error) if error.is_not_found() => {
                tracing::warn!(kind = T::KIND, "the API server does not know this kind of objects");
                if send::<T>(&changes, true, |cluster| replace::<T>(cluster, Vec::new())).is_err() {
                    return;
                }
                tokio::time::sleep(UNKNOWN_KIND).await;
            }
            Err(error) if error.is_expired() => {
                tracing::info!(kind = T::KIND, "the watch fell behind: listing again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
            }
            Err(error) => {
                tracing::warn!(kind = T::KIND, %error, "cannot follow objects, trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
            }
        }
    }
}

/// Ends well only when nobody listens any more.
async fn list_and_watch<T: Followed>(
    client: &Client,
    changes: &UnboundedSender<Change>,
    pause: &mut Duration,
) -> Result<(), ApiError> {
    let listed = client.list::<T>().await?;
    let mut version = listed.version;
    if send::<T>(changes, true, move |cluster| replace(cluster, listed.items)).is_err() {
        return Ok(());
    }
    // Between watches that break off.
    let mut between = RETRY.0;
    loop {
        let mut is_heard = true;
        let mut newest = version.clone();
        let started = Instant::now();
        let mut has_news = false;
        let result = client
            .watch::<T>(&version, |event, at| {
                if !at.is_empty() {
                    newest = at;
                }
                has_news |= !matches!(event, Event::Begun);
                let sent = match event {
                    Event::Begun | Event::Bookmark(_) => Ok(()),
                    Event::Applied(object) => send::<T>(changes, false, move |cluster| put(cluster, object)),
                    Event::Deleted(object) => {
                        send::<T>(changes, false, move |cluster| take::<T>(cluster, &object.key()))
                    }
                    Event::Unreadable(key) => send::<T>(changes, false, move |cluster| take::<T>(cluster, &key)),
                };
                is_heard &= sent.is_ok();
            })
            .await;
        version = newest;
        if !is_heard {
            return Ok(());
        }
        // A list alone is no success: a server may give lists and refuse each watch.
        if has_news || started.elapsed() > RETRY.1 {
            (*pause, between) = (RETRY.0, RETRY.0);
        }
        match result {
            Ok(()) if has_news || started.elapsed() > RETRY.1 => {}
            // The server was restarted, or the connection broke: from where it was.
            Ok(()) | Err(ApiError::Io(_) | ApiError::Http(_) | ApiError::Timeout) => {
                tokio::time::sleep(between).await;
                between = (between * 2).min(LONGEST_BETWEEN);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Fails when nobody listens any more.
fn send<T: Followed>(
    changes: &UnboundedSender<Change>,
    is_list: bool,
    apply: impl FnOnce(&mut Cluster) -> Scope + Send + 'static,
) -> Result<(), ()> {
    changes.send(Change { kind: T::KIND, is_list, apply: Box::new(apply) }).map_err(drop)
}

fn replace<T: Followed>(cluster: &mut Cluster, items: Vec<T>) -> Scope {
    let store = T::store(cluster);
    let new: BTreeMap<Key, Arc<T>> = items.into_iter().map(|item| (item.key(), Arc::new(item))).collect();
    let mut scope = Scope::None;
    for key in store.keys().filter(|key| !new.contains_key(key)) {
        scope = scope.and(T::scope(store.get(key).map(|one| &**one), None));
    }
    for (key, object) in &new {
        let before = store.get(key);
        if before != Some(object) {
            scope = scope.and(T::scope(before.map(|one| &**one), Some(object)));
        }
    }
    *store = new;
    scope
}

fn put<T: Followed>(cluster: &mut Cluster, object: T) -> Scope {
    let before = T::store(cluster).insert(object.key(), Arc::new(object.clone()));
    T::scope(before.as_deref(), Some(&object))
}

fn take<T: Followed>(cluster: &mut Cluster, key: &Key) -> Scope {
    let before = T::store(cluster).remove(key);
    T::scope(before.as_deref(), None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Followed, Scope};
    use crate::objects::{Gateway, HTTPRoute};

    fn route(version: &str, host: &str, status: Value) -> HTTPRoute {
        let metadata = json!({"name": "a", "namespace": "shop", "resourceVersion": version});
        let route = json!({"metadata": metadata, "spec": {"hostnames": [host]}, "status": status});
        serde_json::from_value(route).unwrap()
    }

    #[test]
    fn a_status_of_a_route_makes_no_configuration() {
        let before = route("1", "a.test", Value::Null);
        let scope = |after: &HTTPRoute| HTTPRoute::scope(Some(&before), Some(after));
        assert_eq!(scope(&route("2", "a.test", json!({"parents": []}))), Scope::Statuses);
        assert_eq!(scope(&route("2", "a.test", Value::Null)), Scope::None);
        assert_eq!(scope(&route("2", "b.test", Value::Null)), Scope::All);
        assert_eq!(HTTPRoute::scope(Some(&before), None), Scope::All);
        assert_eq!(Scope::Statuses.and(Scope::All), Scope::All);
        assert_eq!(Scope::Statuses.and(Scope::None), Scope::Statuses);
    }

    /// Another process reads the addresses that the leader gave from it.
    #[test]
    fn a_status_of_a_gateway_does() {
        let after = Gateway { status: json!({"addresses": []}).into(), ..Gateway::default() };
        assert_eq!(Gateway::scope(Some(&Gateway::default()), Some(&after)), Scope::All);
    }
}
