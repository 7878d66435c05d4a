use serde_json::{Value, json};

use super::*;

fn service(port: &str) -> KubernetesService {
    let port = port.parse().map_or_else(|_| EndpointPort::Name(port.into()), EndpointPort::Number);
    KubernetesService { namespace: "shop".into(), name: "orders".into(), port }
}

fn slice(ports: Value, endpoints: Value) -> EndpointSlice {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "orders-1", "namespace": "shop", "labels": {LABEL: "orders"}, "resourceVersion": "7", "managedFields": []},
        "ports": ports, "endpoints": endpoints,
    });
    serde_json::from_value(slice).unwrap()
}

fn found(port: &str, slices: &[EndpointSlice]) -> Result<Vec<String>, String> {
    endpoints(&service(port), slices.iter()).map(|endpoints| {
        let text = |endpoint: &Endpoint| match &endpoint.host {
            Host::Ip(ip) => std::net::SocketAddr::new(*ip, endpoint.port).to_string(),
            Host::Name(name) => panic!("{name}"),
        };
        endpoints.iter().map(text).collect()
    })
}

fn web() -> Value {
    json!([{"name": "web", "port": 8080, "protocol": "TCP"}, {"name": "metrics", "port": 9090}])
}

#[test]
fn endpoints_that_are_ready_are_targets() {
    let endpoints = json!([
        {"addresses": ["10.0.0.4"], "conditions": {"ready": true, "serving": true, "terminating": false}},
        {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": false, "terminating": false}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
        // Unknown counts as ready, and of several addresses the first one does.
        {"addresses": ["10.0.0.1", "10.0.0.9"], "conditions": {}, "targetRef": {"kind": "Pod", "name": "orders-1"}},
        {"addresses": [], "conditions": {"ready": true}},
        {"addresses": ["orders.example.com"], "conditions": {"ready": true}},
    ]);
    let slice = slice(web(), endpoints);
    assert_eq!(found("web", std::slice::from_ref(&slice)).unwrap(), ["10.0.0.1:8080", "10.0.0.4:8080"]);
    assert_eq!(found("9090", &[slice]).unwrap(), ["10.0.0.1:9090", "10.0.0.4:9090"]);
}

#[test]
fn slices_are_merged_and_what_is_named_twice_is_one_target() {
    let ready = |address: &str| json!({"addresses": [address], "conditions": {"ready": true}});
    let slices = [
        slice(web(), json!([ready("10.0.0.2"), ready("10.0.0.1")])),
        slice(web(), json!([ready("10.0.0.2")])),
        slice(web(), json!([ready("fd00::1")])),
        // A name may be another number for other pods, and a slice without the port has nothing to give.
        slice(json!([{"name": "web", "port": 8081}]), json!([ready("10.0.0.2")])),
        slice(json!([{"name": "admin", "port": 1}]), json!([ready("10.0.0.3")])),
    ];
    let all = ["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.2:8081", "[fd00::1]:8080"];
    assert_eq!(found("web", &slices).unwrap(), all);
    assert_eq!(found("8081", &slices).unwrap(), ["10.0.0.2:8081"]);
}

#[test]
fn nothing_that_is_ready_is_an_empty_list_and_no_such_port_is_a_mistake() {
    assert_eq!(found("web", &[]).unwrap(), [""; 0]);
    assert_eq!(found("web", &[slice(Value::Null, Value::Null)]).unwrap(), [""; 0]);
    let failing = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]);
    assert_eq!(found("http", &[slice(web(), failing)]).unwrap(), [""; 0]);
    let ready = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]);
    let error = found("http", &[slice(web(), ready.clone())]).unwrap_err();
    assert_eq!(
        error,
        "no endpoint of the Service shop/orders has the port http; their ports are metrics (9090), web (8080)"
    );
    let unnamed = found("80", &[slice(json!([{"name": "", "port": 8080}]), ready)]).unwrap_err();
    assert!(unnamed.ends_with("their ports are 8080"), "{unnamed}");
    let ready = json!([{"addresses": ["10.1.0.1"]}]);
    for ports in [json!(null), json!([]), json!([{"name": "web", "port": 0}]), json!([{"name": "web"}])] {
        let error = found("web", &[slice(ports.clone(), ready.clone())]).unwrap_err();
        assert!(error.contains("has the port web; "), "{ports}: {error}");
    }
    let named = found("web", &[slice(web(), json!([{"addresses": ["orders.example.com"]}]))]).unwrap_err();
    assert_eq!(named, "no endpoint of the Service shop/orders has an IP address");
    // Nothing is ready: the Service has none.
    let unready = json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": false}}]);
    assert_eq!(found("web", &[slice(json!([]), unready)]), Ok(Vec::new()));
}

#[test]
fn as_many_endpoints_as_are_allowed_are_taken_and_no_more() {
    let slices = |count: usize| -> Vec<EndpointSlice> {
        let addresses: Vec<String> = (0..count).map(|n| format!("10.1.{}.{}", n / 250, n % 250)).collect();
        let of = |part: &[String]| {
            let endpoints: Vec<Value> = part.iter().map(|address| json!({"addresses": [address]})).collect();
            slice(web(), endpoints.into())
        };
        addresses.chunks(100).map(of).collect()
    };
    assert_eq!(found("web", &slices(MAX_TARGETS)).unwrap().len(), MAX_TARGETS);
    let error = found("web", &slices(MAX_TARGETS + 1)).unwrap_err();
    assert_eq!(error, "the service has 10001 endpoints; at most 10000 are taken");
}
