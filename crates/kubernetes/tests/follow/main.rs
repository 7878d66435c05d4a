//! The loop of the controller against an API server that tests control: what is followed, when it is listed again, who writes.

#![allow(missing_docs)]

mod server;
mod services;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubernetes::client::{Access, Client};
use kubernetes::controller::{self, Follow, LeaseSettings, Refused, Shutdown};
use kubernetes::objects::Key;
use kubernetes::translate::{Addresses, Settings, Translation};
use serde_json::{Value, json};
use server::Server;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

const GATEWAY_API: &str = "/apis/gateway.networking.k8s.io/v1";
/// Rung whenever something changed that a test waits for.
static CHANGED: Notify = Notify::const_new();

const DEADLINE: Duration = Duration::from_secs(40);

/// What a gateway was told.
#[derive(Default, Clone)]
struct Received(Arc<Mutex<Says>>);

#[derive(Default)]
struct Says {
    applied: usize,
    document: Value,
    endpoints: BTreeMap<String, Vec<SocketAddr>>,
    endpoint_changes: usize,
    /// So many configurations are refused.
    refuses: usize,
}

impl Follow for Received {
    async fn apply(&self, translation: &Translation) -> Result<(), Refused> {
        let mut says = self.0.lock().unwrap();
        if says.refuses > 0 {
            says.refuses -= 1;
            return Err(Refused { message: "for no reason among the objects".to_owned(), ..Refused::default() });
        }
        says.applied += 1;
        says.document = Value::clone(&translation.document);
        says.endpoints = translation.endpoints.clone();
        CHANGED.notify_waiters();
        Ok(())
    }

    fn set_endpoints(&self, endpoints: BTreeMap<String, Vec<SocketAddr>>) {
        let mut says = self.0.lock().unwrap();
        says.endpoint_changes += 1;
        says.endpoints.extend(endpoints);
        CHANGED.notify_waiters();
    }
}

impl Received {
    fn applied(&self) -> usize {
        self.0.lock().unwrap().applied
    }

    fn paths(&self) -> Vec<String> {
        let says = self.0.lock().unwrap();
        let routes = says.document["routes"].as_array().cloned().unwrap_or_default();
        routes.iter().map(|route| route["match"]["path"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Listeners with the addresses that are bound.
    fn binds(&self) -> Vec<String> {
        let says = self.0.lock().unwrap();
        let listen = says.document["listen"].as_array().cloned().unwrap_or_default();
        let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
        listen.iter().map(|item| format!("{} {}", text(item, "name"), text(item, "bind"))).collect()
    }

    fn endpoints(&self) -> Vec<SocketAddr> {
        self.0.lock().unwrap().endpoints.get("shop.orders.80").cloned().unwrap_or_default()
    }
}

fn gateway_api(kind: &str) -> String {
    format!("{GATEWAY_API}/{kind}")
}

fn object(name: &str, namespace: &str, mut rest: Value) -> Value {
    let labels = rest.get("labels").cloned().unwrap_or_else(|| json!({}));
    rest["metadata"] = json!({"name": name, "namespace": namespace, "generation": 1, "labels": labels});
    rest
}

fn route(name: &str, path: &str) -> Value {
    let rule = json!({"matches": [{"path": {"value": path}}], "backendRefs": [{"name": "orders", "port": 80}]});
    object(name, "shop", json!({"spec": {"parentRefs": [{"name": "web"}], "rules": [rule]}}))
}

fn slice(address: &str) -> Value {
    let labels = json!({"kubernetes.io/service-name": "orders"});
    object(
        "orders-1",
        "shop",
        json!({"labels": labels, "ports": [{"name": "web", "port": 8080}], "endpoints": [{"addresses": [address]}]}),
    )
}

const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

async fn cluster() -> Server {
    let server = Server::start().await;
    let class = json!({"spec": {"controllerName": "weir.dev/gateway"}});
    server.put(&gateway_api("gatewayclasses"), object("weir", "", class));
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    server.put(
        &gateway_api("gateways"),
        object("web", "shop", json!({"spec": {"gatewayClassName": "weir", "listeners": listeners}})),
    );
    server.put("/api/v1/services", object("orders", "shop", json!({"spec": {"ports": [{"name": "web", "port": 80}]}})));
    server.put("/api/v1/namespaces", object("shop", "", json!({})));
    server.put(SLICES, slice("10.0.0.1"));
    for name in ["a", "b", "c", "d", "e"] {
        server.put(&gateway_api("httproutes"), route(name, &format!("/{name}")));
    }
    server
}

fn follow(server: &Server, lease: Option<&str>) -> (Received, JoinHandle<()>) {
    follow_at(server, lease, bare())
}

fn bare() -> Addresses {
    Addresses::Bare("10.88.1.0/24".parse().unwrap())
}

fn follow_at(server: &Server, lease: Option<&str>, addresses: Addresses) -> (Received, JoinHandle<()>) {
    let told = Received::default();
    (told.clone(), follow_with(server, &told, lease, addresses))
}

/// Ends without a word, as a process that is killed.
fn follow_with(server: &Server, told: &Received, lease: Option<&str>, addresses: Addresses) -> JoinHandle<()> {
    follow_until(server, told, lease, addresses, oneshot::channel().1)
}

fn follow_until(
    server: &Server,
    told: &Received,
    lease: Option<&str>,
    addresses: Addresses,
    shutdown: Shutdown,
) -> JoinHandle<()> {
    let access = Access::of_url(&format!("http://127.0.0.1:{}", server.port), None, None).unwrap();
    let settings = Settings { controller: "weir.dev/gateway".to_owned(), addresses };
    let lease = lease.map(|identity| LeaseSettings { key: Key::new("weir", "weir"), identity: identity.to_owned() });
    let client = Client::new(access).unwrap();
    tokio::spawn(controller::run(client, settings, lease, told.clone(), shutdown))
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        loop {
            let mut changed = pin!(CHANGED.notified());
            // Enabled before the look: a change between the look and the wait is not missed.
            changed.as_mut().enable();
            if holds() {
                break;
            }
            changed.await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("{what}: not within the deadline"));
}

fn accepted(server: &Server, name: &str) -> bool {
    let status = &server.get(&gateway_api("httproutes"), &format!("shop/{name}"))["status"];
    let is_own = |parent: &&Value| parent["controllerName"] == "weir.dev/gateway";
    let parents = status["parents"].as_array();
    parents.and_then(|all| all.iter().find(is_own)).is_some_and(|own| own["conditions"][0]["status"] == "True")
}

#[tokio::test]
async fn objects_are_in_force_and_their_statuses_written_once() {
    let server = cluster().await;
    let (told, _task) = follow(&server, None);
    until("five routes, of three pages", || told.paths().len() == 5).await;
    assert_eq!(told.applied(), 1, "nothing is made before every kind was listed");
    until("statuses", || ["a", "b", "c", "d", "e"].iter().all(|name| accepted(&server, name))).await;
    server.put(&gateway_api("httproutes"), route("f", "/f"));
    until("a sixth route", || told.paths().contains(&"/f/**".to_owned())).await;
    server.delete(&gateway_api("httproutes"), "shop/a");
    until("five again", || !told.paths().contains(&"/a/**".to_owned())).await;
    until("the status of the new one", || accepted(&server, "f")).await;
    let patches = format!("PATCH {GATEWAY_API}/namespaces/shop/httproutes/b/status");
    assert_eq!(server.count(&patches), 1, "a status that did not change is not written again");
}

#[tokio::test]
async fn a_status_that_another_replaced_is_written_again() {
    let server = cluster().await;
    let (_told, _task) = follow(&server, None);
    until("statuses", || ["a", "e"].iter().all(|name| accepted(&server, name))).await;
    let others = json!({"controllerName": "other.test/gateway", "parentRef": {"name": "elsewhere"}, "conditions": []});
    let mut replaced = route("a", "/a");
    replaced["status"] = json!({"parents": [others]});
    server.put(&gateway_api("httproutes"), replaced);
    until("the status", || accepted(&server, "a")).await;
    let status = &server.get(&gateway_api("httproutes"), "shop/a")["status"];
    assert_eq!(status["parents"][0], others, "what the other wrote stays where it is");
}

/// Between the look at an object and the writing of its status.
#[tokio::test]
async fn a_status_that_another_writes_meanwhile_stays() {
    let server = cluster().await;
    let others = json!({"controllerName": "other.test/gateway", "parentRef": {"name": "elsewhere"}, "conditions": []});
    server.intrude("shop/c", json!({"parents": [others]}));
    let (_told, _task) = follow(&server, None);
    until("statuses", || ["a", "b", "c", "d", "e"].iter().all(|name| accepted(&server, name))).await;
    let status = &server.get(&gateway_api("httproutes"), "shop/c")["status"];
    assert_eq!(status["parents"][0], others);
}

/// Such as the API server takes and this release cannot: in a list, and as news.
#[tokio::test]
async fn an_object_that_cannot_be_read_is_left_out() {
    let server = cluster().await;
    let unreadable = |name: &str| {
        let mut route = route(name, "/unreadable");
        route["spec"]["rules"] = json!("none");
        route
    };
    server.put(&gateway_api("httproutes"), unreadable("b"));
    let (told, _task) = follow(&server, None);
    let has = |told: &Received, expected: &[&str]| {
        let paths = told.paths();
        paths.len() == expected.len() && expected.iter().all(|path| paths.iter().any(|one| one.starts_with(path)))
    };
    until("the others", || has(&told, &["/a", "/c", "/d", "/e"])).await;
    server.put(&gateway_api("httproutes"), unreadable("c"));
    until("one less", || has(&told, &["/a", "/d", "/e"])).await;
    server.put(&gateway_api("httproutes"), route("c", "/c"));
    until("one more", || has(&told, &["/a", "/c", "/d", "/e"])).await;
}

/// A port that another process has, say: nothing among the objects changes when it is free again.
#[tokio::test]
async fn what_was_refused_is_tried_again() {
    let server = cluster().await;
    let told = Received::default();
    told.0.lock().unwrap().refuses = 1;
    let _task = follow_with(&server, &told, None, bare());
    until("the second attempt", || !told.paths().is_empty()).await;
}

#[tokio::test]
async fn the_class_says_which_release_of_the_kinds_is_there() {
    let server = cluster().await;
    let release = json!({"gateway.networking.k8s.io/bundle-version": "v1.5.0"});
    let mut definition = object("gatewayclasses.gateway.networking.k8s.io", "", json!({}));
    definition["metadata"]["annotations"] = release;
    server.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
    let (_told, _task) = follow(&server, None);
    until("the condition", || {
        server.get(&gateway_api("gatewayclasses"), "/weir")["status"]["conditions"][1]["reason"] == "UnsupportedVersion"
    })
    .await;
}

#[tokio::test]
async fn endpoints_change_targets_only() {
    let server = cluster().await;
    let (told, _task) = follow(&server, None);
    until("the first endpoint", || told.endpoints() == ["10.0.0.1:8080".parse().unwrap()]).await;
    let before = told.applied();
    server.put(SLICES, slice("10.0.0.2"));
    until("the second", || told.endpoints() == ["10.0.0.2:8080".parse().unwrap()]).await;
    server.delete(SLICES, "shop/orders-1");
    until("none", || told.endpoints().is_empty()).await;
    assert_eq!(told.applied(), before, "no configuration was made");
}

#[tokio::test]
async fn a_watch_that_broke_goes_on_from_where_it_was() {
    let server = cluster().await;
    let (told, _task) = follow(&server, None);
    until("five routes", || told.paths().len() == 5).await;
    let lists = format!("GET {GATEWAY_API}/httproutes?limit");
    let listed = server.count(&lists);
    server.cut(None);
    server.put(&gateway_api("httproutes"), route("f", "/f"));
    until("what happened meanwhile", || told.paths().len() == 6).await;
    assert_eq!(server.count(&lists), listed, "it was not listed again");
}

#[tokio::test]
async fn a_watch_that_fell_behind_lists_again() {
    let server = cluster().await;
    let (told, _task) = follow(&server, None);
    until("five routes", || told.paths().len() == 5).await;
    server.delete(&gateway_api("httproutes"), "shop/b");
    until("four", || told.paths().len() == 4).await;
    server.cut(Some(410));
    server.delete(&gateway_api("httproutes"), "shop/c");
    server.put(&gateway_api("httproutes"), route("g", "/g"));
    server.compact();
    until("what the list has", || {
        let paths = told.paths();
        paths.contains(&"/g/**".to_owned()) && !paths.contains(&"/c/**".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_kind_that_the_server_does_not_know_keeps_nobody_waiting() {
    let server = cluster().await;
    server.forget_kind(&gateway_api("grpcroutes"));
    let (told, _task) = follow(&server, None);
    until("routes over HTTP", || told.paths().len() == 5).await;
}

#[tokio::test]
async fn of_two_processes_one_writes_and_the_other_takes_over() {
    let server = cluster().await;
    let (first, task) = follow(&server, Some("first"));
    let leases = "/apis/coordination.k8s.io/v1/leases";
    let holder = || server.get(leases, "weir/weir")["spec"]["holderIdentity"].as_str().map(str::to_owned);
    until("a leader", || holder().as_deref() == Some("first")).await;
    let (second, _task) = follow(&server, Some("second"));
    until("both serve", || first.paths().len() == 5 && second.paths().len() == 5).await;
    until("statuses", || accepted(&server, "e")).await;
    task.abort();
    server.put(&gateway_api("httproutes"), route("f", "/f"));
    until("another leader", || holder().as_deref() == Some("second")).await;
    until("its statuses", || accepted(&server, "f")).await;
}

#[tokio::test]
async fn a_process_that_ends_gives_its_lease_back_and_still_follows() {
    let server = cluster().await;
    let leases = "/apis/coordination.k8s.io/v1/leases";
    let holder = || server.get(leases, "weir/weir")["spec"]["holderIdentity"].as_str().map(str::to_owned);
    let first = Received::default();
    let (tell, shutdown) = oneshot::channel();
    let _task = follow_until(&server, &first, Some("first"), bare(), shutdown);
    until("a leader", || holder().as_deref() == Some("first")).await;
    until("statuses", || accepted(&server, "e")).await;
    let (done, is_done) = oneshot::channel();
    tell.send(done).unwrap();
    // Dropped when it is done, not sent.
    assert!(is_done.await.is_err());
    assert_eq!(holder(), None);
    server.put(&gateway_api("httproutes"), route("f", "/f"));
    until("the new route", || first.paths().len() == 6).await;
    assert!(!accepted(&server, "f"), "it leads no more");
    let (_second, _other) = follow(&server, Some("second"));
    until("another leader", || holder().as_deref() == Some("second")).await;
    until("its statuses", || accepted(&server, "f")).await;
}

/// A lease that another process took meanwhile is not its own to give back.
#[tokio::test]
async fn who_does_not_lead_gives_nothing_back() {
    let server = cluster().await;
    let leases = "/apis/coordination.k8s.io/v1/leases";
    let holder = || server.get(leases, "weir/weir")["spec"]["holderIdentity"].as_str().map(str::to_owned);
    let (_first, _task) = follow(&server, Some("first"));
    until("a leader", || holder().as_deref() == Some("first")).await;
    let second = Received::default();
    let (tell, shutdown) = oneshot::channel();
    let _other = follow_until(&server, &second, Some("second"), bare(), shutdown);
    until("it serves", || second.paths().len() == 5).await;
    let (done, is_done) = oneshot::channel();
    tell.send(done).unwrap();
    assert!(is_done.await.is_err());
    assert_eq!(holder().as_deref(), Some("first"));
}
