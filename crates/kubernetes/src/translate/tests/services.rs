//! A Service for each gateway.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{BASE, Cluster, cluster, condition};
use crate::objects::{Key, Service};
use crate::translate::{Addresses, Allocations, ServiceType, ServiceWrite, Services, Settings, Translation, translate};

fn settings(kind: ServiceType) -> Settings {
    let pods = BTreeMap::from([("app".to_owned(), "weir".to_owned())]);
    let services = Some(Services { namespace: "edge".to_owned(), pods, kind });
    let addresses = Addresses::Shared { bind: "0.0.0.0".parse().unwrap(), first_port: 20000, services };
    Settings { controller: "weir.dev/gateway".to_owned(), addresses }
}

fn balanced() -> Settings {
    settings(ServiceType::LoadBalancer)
}

fn gateway(name: &str, spec: &str) -> String {
    format!(
        "---\nkind: Gateway\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{gatewayClassName: weir, {spec}}}\n"
    )
}

fn ports(ports: &[u16]) -> String {
    let one = |port: &u16| format!("{{name: p{port}, port: {port}, protocol: HTTP}}");
    format!("listeners: [{}]", ports.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Does to the cluster what a translation wants of Services; they are made at this second.
fn write(cluster: &mut Cluster, translation: &Translation, second: u32) {
    for write in &translation.services {
        match write {
            ServiceWrite::Apply { key, object, .. } => {
                let mut object = object.clone();
                object["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:{second:02}Z").into();
                object["metadata"]["uid"] = key.name.as_str().into();
                let mut service: Service = serde_json::from_value(object).unwrap();
                if let Some(before) = cluster.services.get(key) {
                    service.metadata.creation_timestamp = before.metadata.creation_timestamp.clone();
                    service.status = before.status.clone();
                }
                Cluster::insert(&mut cluster.services, service);
            }
            ServiceWrite::Delete { key, .. } => drop(cluster.services.remove(key)),
        }
    }
}

fn translate_and_write(cluster: &mut Cluster, allocations: &mut Allocations, second: u32) {
    let translation = translate(cluster, &balanced(), allocations);
    write(cluster, &translation, second);
}

/// Changes the only Service of the namespace of Weir.
fn change(cluster: &mut Cluster, change: impl Fn(&mut Service)) {
    let key = cluster.services.keys().find(|key| key.namespace == "edge").unwrap().clone();
    let mut service = (*cluster.services[&key]).clone();
    change(&mut service);
    Cluster::insert(&mut cluster.services, service);
}

fn ingress(list: Value) -> impl Fn(&mut Service) {
    move |service| service.status = serde_json::from_value(json!({"loadBalancer": {"ingress": list}})).unwrap()
}

fn binds(translation: &Translation) -> Vec<String> {
    let listen = translation.document["listen"].as_array().unwrap();
    let one = |item: &Value| format!("{} {}", item["name"].as_str().unwrap(), item["bind"].as_str().unwrap());
    listen.iter().map(one).collect()
}

fn applied(translation: &Translation) -> Vec<&Value> {
    let one = |write: &'_ ServiceWrite| matches!(write, ServiceWrite::Apply { .. });
    let all = translation.services.iter().filter(|write| one(write));
    all.map(|write| match write {
        ServiceWrite::Apply { object, .. } => object,
        ServiceWrite::Delete { .. } => unreachable!(),
    })
    .collect()
}

/// Reason of `Programmed`, and addresses, of the gateway `web`.
fn programmed(translation: &Translation) -> (String, Vec<String>) {
    let (holds, reason) = condition(translation, "Gateway", "web", "Programmed");
    let patch = translation.statuses.iter().find(|patch| patch.kind == "Gateway" && patch.key.name == "web").unwrap();
    let addresses = patch.status.get("addresses").and_then(Value::as_array).cloned().unwrap_or_default();
    let one = |address: &Value| format!("{} {}", address["type"].as_str().unwrap(), address["value"].as_str().unwrap());
    (format!("{holds} {reason}"), addresses.iter().map(one).collect())
}

#[test]
fn a_gateway_gets_a_service_then_its_port_then_an_address() {
    let (mut cluster, mut allocations) = (cluster(&[BASE]), Allocations::default());
    let first = translate(&cluster, &balanced(), &mut allocations);
    assert!(binds(&first).is_empty(), "nothing is bound that no Service says");
    assert_eq!(programmed(&first), ("False AddressNotAssigned".to_owned(), Vec::new()));
    let service = applied(&first)[0].clone();
    assert_eq!(
        service["spec"],
        json!({
            "type": "LoadBalancer",
            "selector": {"app": "weir"},
            "ports": [{"name": "http-80", "port": 80, "targetPort": 20000, "protocol": "TCP"}],
        })
    );
    assert_eq!(service["metadata"]["namespace"], "edge");
    let labels = &service["metadata"]["labels"];
    assert_eq!(labels["gateway.networking.k8s.io/gateway-name"], "web");
    assert_eq!(labels["weir.dev/gateway-namespace"], "shop");

    write(&mut cluster, &first, 1);
    let second = translate(&cluster, &balanced(), &mut allocations);
    assert_eq!(binds(&second), ["shop/web/80 0.0.0.0:20000"]);
    assert_eq!(second.services, [], "it is what it should be");
    assert_eq!(programmed(&second), ("False AddressNotAssigned".to_owned(), Vec::new()));

    change(&mut cluster, ingress(json!([{"ip": "203.0.113.7"}, {"hostname": "lb.example.com"}])));
    let third = translate(&cluster, &balanced(), &mut allocations);
    let addresses = ["IPAddress 203.0.113.7", "Hostname lb.example.com"].map(str::to_owned);
    assert_eq!(programmed(&third), ("True Programmed".to_owned(), addresses.to_vec()));
    assert_eq!(third.services, []);
}

#[test]
fn inside_of_the_cluster_the_address_is_that_of_the_service() {
    let mut cluster = cluster(&[BASE]);
    let settings = settings(ServiceType::ClusterIp);
    let first = translate(&cluster, &settings, &mut Allocations::default());
    write(&mut cluster, &first, 1);
    change(&mut cluster, |service| service.spec.cluster_ips = vec!["10.96.0.7".to_owned(), "fd00::7".to_owned()]);
    let second = translate(&cluster, &settings, &mut Allocations::default());
    let addresses = ["IPAddress 10.96.0.7", "IPAddress fd00::7"].map(str::to_owned);
    assert_eq!(programmed(&second), ("True Programmed".to_owned(), addresses.to_vec()));
}

/// A restart, and another leader, know nothing but the objects.
#[test]
fn ports_are_those_of_the_services_whoever_reads_them() {
    let mut cluster = cluster(&[BASE, &gateway("second", &ports(&[80, 8080]))]);
    let mut allocations = Allocations::default();
    let first = translate(&cluster, &balanced(), &mut allocations);
    write(&mut cluster, &first, 1);
    let before = binds(&translate(&cluster, &balanced(), &mut allocations));
    assert_eq!(before.len(), 3);
    // The first gateway is removed: in a new process its port would be the first free one.
    cluster.gateways.remove(&Key::new("shop", "web"));
    let without = translate(&cluster, &balanced(), &mut Allocations::default());
    write(&mut cluster, &without, 2);
    cluster.gateways.extend(super::cluster(&[BASE, &gateway("third", &ports(&[80]))]).gateways);
    let third = translate(&cluster, &balanced(), &mut Allocations::default());
    write(&mut cluster, &third, 3);
    let (mut one, mut other) = (Allocations::default(), allocations);
    let [one, other] = [&mut one, &mut other].map(|known| binds(&translate(&cluster, &balanced(), known)));
    assert_eq!(one, other);
    assert_eq!(one.len(), 4);
    let second = |binds: &[String]| binds.iter().filter(|bind| bind.contains("second")).cloned().collect::<Vec<_>>();
    assert_eq!(second(&one), second(&before));
}

#[test]
fn a_port_that_two_services_say_belongs_to_the_older_one() {
    let mut cluster = cluster(&[BASE]);
    translate_and_write(&mut cluster, &mut Allocations::default(), 2);
    // Another process that believed to lead had not seen the first Service.
    let alone = super::cluster(&[BASE, &gateway("second", &ports(&[80]))]);
    let mut alone = Cluster { gateways: alone.gateways, classes: alone.classes, ..Cluster::default() };
    alone.gateways.remove(&Key::new("shop", "web"));
    write(&mut cluster, &translate(&alone, &balanced(), &mut Allocations::default()), 1);
    cluster.gateways.extend(alone.gateways);
    let mut allocations = Allocations::default();
    let both = translate(&cluster, &balanced(), &mut allocations);
    assert_eq!(binds(&both), ["shop/second/80 0.0.0.0:20000"]);
    assert_eq!(applied(&both)[0]["spec"]["ports"][0]["targetPort"], 20001);
    write(&mut cluster, &both, 3);
    let settled = translate(&cluster, &balanced(), &mut allocations);
    assert_eq!(binds(&settled), ["shop/second/80 0.0.0.0:20000", "shop/web/80 0.0.0.0:20001"]);
    assert_eq!(settled.services, []);
}

#[test]
fn a_port_that_became_free_is_the_last_to_be_used_again() {
    let mut cluster = cluster(&[BASE]);
    let mut allocations = Allocations::default();
    translate_and_write(&mut cluster, &mut allocations, 1);
    cluster.gateways.remove(&Key::new("shop", "web"));
    let gone = translate(&cluster, &balanced(), &mut allocations);
    write(&mut cluster, &gone, 2);
    cluster.gateways.extend(super::cluster(&[&gateway("next", &ports(&[80]))[4..]]).gateways);
    let next = translate(&cluster, &balanced(), &mut allocations);
    assert_eq!(applied(&next)[0]["spec"]["ports"][0]["targetPort"], 20001);
}

#[test]
fn ports_of_connections_are_used_when_there_are_no_others() {
    let gateways: Vec<u16> = (1..=4).collect();
    let cluster = cluster(&[&BASE.replace("# status of web", ""), &gateway("many", &ports(&gateways))]);
    let mut settings = balanced();
    let Addresses::Shared { first_port, .. } = &mut settings.addresses else { unreachable!() };
    *first_port = 32765;
    let mut allocations = Allocations { last_port: 32766, ..Allocations::default() };
    let translation = translate(&cluster, &settings, &mut allocations);
    let targets = applied(&translation).into_iter().flat_map(|one| one["spec"]["ports"].as_array().unwrap());
    let mut targets: Vec<u64> = targets.map(|port| port["targetPort"].as_u64().unwrap()).collect();
    targets.sort_unstable();
    assert_eq!(targets, [32765, 32766, 32767, 32768, 32769]);
}

#[test]
fn a_service_that_somebody_deleted_or_changed_is_written_as_it_was() {
    let mut cluster = cluster(&[BASE, &gateway("older", &ports(&[80]))]);
    cluster.gateways.remove(&Key::new("shop", "older"));
    let mut allocations = Allocations { last_port: 20041, ..Allocations::default() };
    let first = translate(&cluster, &balanced(), &mut allocations);
    write(&mut cluster, &first, 1);
    translate(&cluster, &balanced(), &mut allocations);
    for change_it in [
        (|service: &mut Service| service.spec.selector.clear()) as fn(&mut Service),
        |service| service.spec.ports[0].port = 81,
        |service| service.spec.kind = "ClusterIP".to_owned(),
        |service| drop(service.metadata.labels.remove("gateway.networking.k8s.io/gateway-name")),
    ] {
        let mut cluster = cluster.clone();
        change(&mut cluster, change_it);
        let changed = translate(&cluster, &balanced(), &mut allocations.clone());
        assert_eq!(applied(&changed)[0]["spec"]["ports"][0]["port"], 80);
    }
    cluster.services.retain(|key, _| key.namespace != "edge");
    let again = translate(&cluster, &balanced(), &mut allocations);
    assert_eq!(applied(&again), applied(&first));
}

#[test]
fn the_service_of_a_gateway_that_was_deleted_is_deleted_and_no_other() {
    let mut cluster = cluster(&[BASE]);
    translate_and_write(&mut cluster, &mut Allocations::default(), 1);
    let deleted = |cluster: &Cluster| {
        let translation = translate(cluster, &balanced(), &mut Allocations::default());
        let one = |write: &ServiceWrite| match write {
            ServiceWrite::Delete { gateway, class, .. } => Some((gateway.to_string(), class.clone())),
            ServiceWrite::Apply { .. } => None,
        };
        translation.services.iter().filter_map(one).collect::<Vec<_>>()
    };
    assert_eq!(deleted(&cluster), []);
    let mut classless = cluster.clone();
    classless.classes.clear();
    assert_eq!(deleted(&classless), [], "a class may be replaced");
    let mut elsewhere = cluster.clone();
    elsewhere
        .gateways
        .extend(super::cluster(&[&BASE.replace("gatewayClassName: weir", "gatewayClassName: others")]).gateways);
    assert_eq!(deleted(&elsewhere), [("shop/web".to_owned(), Some("others".to_owned()))]);
    cluster.gateways.remove(&Key::new("shop", "web"));
    assert_eq!(deleted(&cluster), [("shop/web".to_owned(), None)]);
    change(&mut cluster, |service| {
        service.metadata.annotations.insert("weir.dev/controller".to_owned(), "a/b".to_owned());
    });
    assert_eq!(deleted(&cluster), [], "it is of another controller");
}

#[test]
fn a_service_of_this_name_that_another_made_is_left_alone() {
    let mut cluster = cluster(&[BASE]);
    translate_and_write(&mut cluster, &mut Allocations::default(), 1);
    change(&mut cluster, |service| service.metadata.annotations.clear());
    let translation = translate(&cluster, &balanced(), &mut Allocations::default());
    assert_eq!(translation.services, []);
    assert_eq!(programmed(&translation).0, "False AddressNotAssigned");
    assert!(binds(&translation).is_empty());
}

#[test]
fn a_listener_that_cannot_be_served_keeps_its_port_and_the_service_its_address() {
    let tls = "{name: s, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}";
    let web = |listeners: &str| {
        BASE.replace(
            "listeners: [{name: http, port: 80, protocol: HTTP}]}\n# status",
            &format!("listeners: [{listeners}]}}\n# status"),
        )
    };
    let mut cluster = cluster(&[&web(tls)]);
    let mut allocations = Allocations::default();
    let first = translate(&cluster, &balanced(), &mut allocations);
    assert_eq!(applied(&first)[0]["spec"]["ports"][0]["name"], "https-443");
    assert_eq!(programmed(&first).0, "False Invalid");
    write(&mut cluster, &first, 1);
    cluster.gateways.extend(super::cluster(&[&web("{name: t, port: 443, protocol: TCP}")]).gateways);
    assert_eq!(translate(&cluster, &balanced(), &mut allocations).services, [], "a Service needs a port");
}

#[test]
fn what_a_gateway_wants_of_its_service_is_in_it() {
    let spec = "addresses: [{value: 203.0.113.9}], infrastructure: {labels: {team: shop}, annotations: {example.com/internal: 'true'}}, ";
    let web = |spec: &str| {
        BASE.replace("gatewayClassName: weir, listeners", &format!("gatewayClassName: weir, {spec}listeners"))
    };
    let mut cluster = cluster(&[&web(spec)]);
    let first = translate(&cluster, &balanced(), &mut Allocations::default());
    let service = applied(&first)[0];
    assert_eq!(service["spec"]["loadBalancerIP"], "203.0.113.9");
    assert_eq!(service["metadata"]["labels"]["team"], "shop");
    assert_eq!(service["metadata"]["annotations"]["example.com/internal"], "true");
    write(&mut cluster, &first, 1);
    for (given, expected) in [("203.0.113.8", "False AddressNotUsable"), ("203.0.113.9", "True Programmed")] {
        change(&mut cluster, ingress(json!([{"ip": given}])));
        assert_eq!(programmed(&translate(&cluster, &balanced(), &mut Allocations::default())).0, expected);
    }
    // What was applied is not what is wanted any more.
    cluster.gateways.extend(super::cluster(&[BASE]).gateways);
    let less = translate(&cluster, &balanced(), &mut Allocations::default());
    assert!(applied(&less)[0]["metadata"]["annotations"].get("example.com/internal").is_none());
    for (kind, spec) in [
        (ServiceType::LoadBalancer, "addresses: [{type: Hostname, value: a.example.com}], "),
        (ServiceType::LoadBalancer, "addresses: [{value: 203.0.113.8}, {value: 203.0.113.9}], "),
        (ServiceType::ClusterIp, "addresses: [{value: 10.96.0.7}], "),
    ] {
        let translation = translate(&super::cluster(&[&web(spec)]), &settings(kind), &mut Allocations::default());
        assert_eq!(condition(&translation, "Gateway", "web", "Accepted"), ("False", "UnsupportedAddress"), "{spec}");
        assert_eq!(translation.services, []);
    }
}
