use serde_json::{Value, json};

use super::*;
use crate::config::MAX_TARGETS;

fn instance(node: &str, service: &str, port: u64, weights: Value) -> Value {
    json!({
        "Node": {"ID": "1", "Node": "node-1", "Address": node, "Datacenter": "dc1", "Meta": {}},
        "Service": {"ID": "a", "Service": "orders", "Address": service, "Port": port, "Weights": weights, "Tags": ["v2"], "Meta": null},
        "Checks": [{"Status": "passing"}],
    })
}

fn found(instances: &[Value]) -> Result<Vec<(String, u16, u32)>, String> {
    let parsed = endpoints(Value::from(instances).to_string().as_bytes())?;
    let text = |endpoint: &Endpoint| match &endpoint.host {
        Host::Ip(ip) => (ip.to_string(), endpoint.port, endpoint.weight.get()),
        Host::Name(name) => (name.to_string(), endpoint.port, endpoint.weight.get()),
    };
    Ok(parsed.iter().map(text).collect())
}

#[test]
fn an_instance_has_the_address_of_its_service_or_else_of_its_node() {
    let all = [
        instance("10.0.0.1", "", 8001, json!({"Passing": 3, "Warning": 1})),
        instance("10.0.0.1", "fd00::1", 8002, json!({"Passing": 0, "Warning": 0})),
        instance("10.0.0.1", "Orders.Internal", 8003, Value::Null),
        instance("10.0.0.2", "", 8001, json!({"Warning": 1})),
        instance("10.0.0.2", "", 8001, json!({"Passing": 7})),
    ];
    let expected = [
        ("10.0.0.1".to_owned(), 8001, 3),
        ("10.0.0.2".to_owned(), 8001, 1),
        ("fd00::1".to_owned(), 8002, 1),
        ("orders.internal".to_owned(), 8003, 1),
    ];
    assert_eq!(found(&all).unwrap(), expected);
}

#[test]
fn an_empty_list_is_a_response_and_nothing_usable_is_none() {
    assert_eq!(found(&[]).unwrap(), []);
    let unusable = [
        instance("10.0.0.1", "", 0, Value::Null),
        instance("10.0.0.1", "", 65536, Value::Null),
        instance("", "", 80, Value::Null),
        instance("10.0.0.1", "no host", 80, Value::Null),
    ];
    for one in &unusable {
        let error = found(std::slice::from_ref(one)).unwrap_err();
        assert!(error.starts_with("no instance of the service can be used: "), "{error}");
    }
    let mut some = unusable.to_vec();
    some.push(instance("10.0.0.1", "", 80, Value::Null));
    assert_eq!(found(&some).unwrap().len(), 1);
}

#[test]
fn what_is_no_list_of_instances_is_refused() {
    for text in ["", "[", "{}", "null", "[{}]", r#"[{"Node": {}, "Service": {"Port": "80"}}]"#, "<html>"] {
        let error = endpoints(text.as_bytes()).expect_err(text);
        assert!(error.starts_with("the response of Consul is not a list of instances"), "{text}: {error}");
    }
    let many: Vec<Value> = (0..=MAX_TARGETS as u64).map(|n| instance("10.0.0.1", "", n + 1, Value::Null)).collect();
    assert_eq!(found(&many[1..]).unwrap().len(), MAX_TARGETS);
    assert!(found(&many).is_err_and(|why| why.contains("10001 endpoints; at most 10000")));
}

#[test]
fn an_index_that_went_backwards_or_is_zero_is_not_waited_with() {
    assert_eq!(next_index(None, Some(7)), Some(7));
    assert_eq!(next_index(Some(7), Some(7)), Some(7));
    assert_eq!(next_index(Some(7), Some(9)), Some(9));
    assert_eq!(next_index(Some(7), Some(6)), None);
    assert_eq!(next_index(None, Some(0)), None);
    assert_eq!(next_index(Some(7), None), None);
}

#[test]
fn requests_name_the_service_and_what_narrows_it() {
    let mut service = ConsulService {
        name: "orders".into(),
        address: "http://127.0.0.1:8500".into(),
        tag: None,
        datacenter: None,
        token: Some("hidden".into()),
    };
    assert_eq!(url(&service, None), "http://127.0.0.1:8500/v1/health/service/orders?passing=1");
    service.tag = Some("v2 & more".into());
    service.datacenter = Some("dc2".into());
    assert_eq!(
        url(&service, Some(42)),
        "http://127.0.0.1:8500/v1/health/service/orders?passing=1&dc=dc2&tag=v2%20%26%20more&index=42&wait=300s"
    );
}
