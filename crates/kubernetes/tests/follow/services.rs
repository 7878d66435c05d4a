//! Services of gateways: the leader writes them, every process has the ports that they say.

use std::collections::BTreeMap;

use kubernetes::translate::{Addresses, ServiceType, Services};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::server::Server;
use super::{Received, cluster, follow_at, gateway_api, object, until};

const SERVICES: &str = "/api/v1/services";

fn with_services(server: &Server, lease: Option<&str>) -> (Received, JoinHandle<()>) {
    let pods = BTreeMap::from([("app".to_owned(), "weir".to_owned())]);
    let services = Some(Services { namespace: "edge".to_owned(), pods, kind: ServiceType::LoadBalancer });
    let bind = "0.0.0.0".parse().unwrap();
    follow_at(server, lease, Addresses::Shared { bind, first_port: 20000, services })
}

fn gateway(name: &str) -> Value {
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    object(name, "shop", json!({"spec": {"gatewayClassName": "weir", "listeners": listeners}}))
}

/// The Services of gateways, by the names of these.
fn services(server: &Server) -> BTreeMap<String, Value> {
    let names = server.names(SERVICES).into_iter().filter(|name| name.starts_with("edge/"));
    let all = names.map(|name| server.get(SERVICES, &name));
    let name = |service: &Value| service["metadata"]["annotations"]["weir.dev/gateway"].as_str().unwrap().to_owned();
    all.map(|service| (name(&service), service)).collect()
}

fn status(server: &Server, name: &str) -> (String, String) {
    let status = server.get(&gateway_api("gateways"), &format!("shop/{name}"))["status"].clone();
    let reason = status["conditions"][1]["reason"].as_str().unwrap_or_default().to_owned();
    (reason, status["addresses"][0]["value"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_gateway_has_a_service_until_it_is_deleted() {
    let server = cluster().await;
    let (told, _task) = with_services(&server, None);
    until("the listener", || told.binds() == ["shop/web/80 0.0.0.0:20000"]).await;
    until("no address", || status(&server, "web").0 == "AddressNotAssigned").await;
    let mut service = services(&server).remove("shop/web").unwrap();
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}});
    server.put(SERVICES, service);
    until("the address", || status(&server, "web") == ("Programmed".to_owned(), "203.0.113.7".to_owned())).await;
    let patches = "PATCH /api/v1/namespaces/edge/services/";
    assert_eq!(server.count(patches), 1, "what did not change is not written again");
    server.delete(&gateway_api("gateways"), "shop/web");
    until("no Service", || services(&server).is_empty()).await;
    until("no listener", || told.binds().is_empty()).await;
}

#[tokio::test]
async fn a_gateway_says_why_its_service_cannot_be_written() {
    let server = cluster().await;
    server.refuse_applies(true);
    let (told, _task) = with_services(&server, None);
    let says = || server.get(&gateway_api("gateways"), "shop/web")["status"]["conditions"][1]["message"].to_string();
    until("the reason", || says().contains("exceeded quota")).await;
    assert!(told.binds().is_empty());
    server.refuse_applies(false);
    until("the listener", || told.binds() == ["shop/web/80 0.0.0.0:20000"]).await;
    until("another reason", || says().contains("no address of a load balancer yet")).await;
}

#[tokio::test]
async fn what_happened_while_no_process_ran_is_made_up_for() {
    let server = cluster().await;
    server.put(&gateway_api("gateways"), gateway("second"));
    let (told, task) = with_services(&server, None);
    until("two listeners", || told.binds().len() == 2).await;
    let before = told.binds();
    task.abort();
    server.delete(&gateway_api("gateways"), "shop/second");
    server.put(&gateway_api("gateways"), gateway("z"));
    let (told, _task) = with_services(&server, None);
    until("one Service less, one more", || services(&server).keys().eq(["shop/web", "shop/z"])).await;
    until("two listeners", || told.binds().len() == 2).await;
    assert!(told.binds().contains(&before[1]), "{:?} {before:?}", told.binds());
}

#[tokio::test]
async fn two_processes_have_the_same_ports_whoever_leads() {
    let server = cluster().await;
    let leases = "/apis/coordination.k8s.io/v1/leases";
    let holder = || server.get(leases, "weir/weir")["spec"]["holderIdentity"].as_str().map(str::to_owned);
    let (first, task) = with_services(&server, Some("first"));
    until("a leader", || holder().as_deref() == Some("first")).await;
    let (second, _task) = with_services(&server, Some("second"));
    for name in ["b", "a", "d", "c"] {
        server.put(&gateway_api("gateways"), gateway(name));
    }
    until("five listeners", || first.binds().len() == 5 && first.binds() == second.binds()).await;
    let before = first.binds();
    task.abort();
    server.delete(&gateway_api("gateways"), "shop/b");
    server.put(&gateway_api("gateways"), gateway("e"));
    until("another leader", || holder().as_deref() == Some("second")).await;
    until("its Services", || services(&server).keys().eq(["shop/a", "shop/c", "shop/d", "shop/e", "shop/web"])).await;
    until("its listeners", || second.binds().iter().any(|bind| bind.starts_with("shop/e/"))).await;
    // A third process, which has seen nothing, agrees too.
    let (third, _task) = with_services(&server, Some("third"));
    until("the same", || third.binds() == second.binds()).await;
    let kept = before.iter().filter(|bind| !bind.starts_with("shop/b/"));
    assert!(kept.clone().all(|bind| second.binds().contains(bind)), "{before:?} {:?}", second.binds());
    assert_eq!(kept.count(), 4);
}
