use std::path::Path;

use super::*;

fn hosts(yaml: &str) -> Vec<Host> {
    serde_saphyr::from_str(yaml).expect("hosts")
}

fn wrong(yaml: &str) -> String {
    problems(&hosts(yaml)).join("\n")
}

#[test]
fn nothing_in_an_output_can_be_an_option_of_ssh() {
    for address in ["-oProxyCommand=touch", "a b", "", "$(touch x)", "a;b", "a\nb", "[::1]", "a'b"] {
        let host = Host { address: address.to_owned(), ..hosts("[{role: gateway, address: a}]").remove(0) };
        assert!(problems(&[host]).iter().any(|text| text.contains("address")), "{address:?}");
        let host = Host { user: Some(address.to_owned()), ..hosts("[{role: gateway, address: a}]").remove(0) };
        assert!(problems(&[host]).iter().any(|text| text.contains("user")), "{address:?}");
    }
    for address in ["bench1", "bench-1.example.com", "10.0.0.5", "fe80::1"] {
        let host = Host { address: address.to_owned(), ..hosts("[{role: gateway, address: a}]").remove(0) };
        assert!(problems(&[host]).is_empty(), "{address}");
    }
}

#[test]
fn roles_are_checked() {
    assert!(wrong("[{role: generator, address: 10.0.0.1}]").contains("no host has the role `gateway`"));
    let gateway = "{role: gateway, address: 10.0.0.1}";
    assert!(wrong(&format!("[{gateway}, {gateway}]")).contains("2 hosts have the role `gateway`"));
    let upstream = "{role: upstream, address: 10.0.0.2}";
    assert!(wrong(&format!("[{gateway}, {upstream}, {upstream}]")).contains("several hosts"));
    assert!(wrong("[{role: gateway, address: g, via: generator}]").contains("`via: generator` needs"));
    assert!(wrong("[{role: gateway, address: g, via: gateway}]").contains("its own role"));
    assert!(wrong(&format!("[{{role: gateway, address: name}}, {upstream}]")).contains("write it into `private`"));
    assert_eq!(wrong(&format!("[{gateway}, {upstream}]")), "");
}

#[test]
fn private_machines_are_reached_through_the_generator_with_its_key() {
    let hosts = hosts(
        "[{role: generator, address: 203.0.113.7, user: gauge, key: '/k/it''s 100%', port: 2222}, \
          {role: gateway, address: 10.0.0.5, user: gauge, key: /k/id, via: generator}]",
    );
    let fleet = Fleet::new(&hosts, Some(Path::new("/run/known"))).expect("a fleet");
    assert!(fleet.gateway.tunnel, "it is not reached from here");
    assert_eq!(fleet.gateway.address, "10.0.0.5".parse().ok());
    assert_eq!(
        fleet.gateway.options,
        [
            "StrictHostKeyChecking=accept-new",
            "UserKnownHostsFile=\"/run/known\"",
            "ProxyCommand=ssh -o BatchMode=yes -S none -p 2222 -l gauge -i '/k/it'\\''s 100%%%%' -o StrictHostKeyChecking=accept-new \
             -o 'UserKnownHostsFile=\"/run/known\"' -W '[%h]:%p' -- 203.0.113.7",
        ]
    );
    assert_eq!(fleet.generators.len(), 1);
    assert!(fleet.upstream.is_none());
}

#[test]
fn a_gateway_alone_is_reached_as_a_named_host() {
    let fleet = Fleet::new(&hosts("[{role: gateway, address: 10.0.0.5}]"), None).expect("a fleet");
    assert!(!fleet.gateway.tunnel && fleet.gateway.options.is_empty());
    let fleet = Fleet::new(&hosts("[{role: gateway, address: bench1}]"), None).expect("a fleet");
    assert_eq!(fleet.gateway.address, None, "through a tunnel");
}

/// A key that Gauge does not know would be found only when the machines run.
#[test]
fn the_modules_for_clouds_have_the_output_that_is_read() {
    for cloud in ["aws", "azure", "gcp"] {
        let file = format!("{}/../../deploy/terraform/{cloud}/gauge/outputs.tf", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).expect("the outputs");
        let object = text.split_once(" : {\n").expect("an object for each machine").1;
        let keys = object.lines().take_while(|line| line.trim() != "}]").filter_map(|line| line.split_once('='));
        let mut host = serde_json::json!({});
        for key in keys.map(|(key, _)| key.trim()) {
            host[key] = match key {
                "role" => "gateway".into(),
                "via" => serde_json::Value::Null,
                _ => "10.0.0.5".into(),
            };
        }
        let host: Host = serde_json::from_value(host).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(host.user.is_some() && host.key.is_some(), "{file}");
        assert!(problems(&[host]).is_empty(), "{file}");
    }
}

#[test]
fn a_load_that_generators_cannot_share_is_refused() {
    let load = |yaml: &str| serde_saphyr::from_str::<Load>(yaml).expect("a load");
    for (yaml, why) in [
        ("{closed: {users: 1, duration: 1s}}", "1 users"),
        ("{closed: {users: 4, iterations: 3}}", "3 requests of 4 users"),
        ("{open: {rate: 9/s, duration: 1s, connections: 1}}", "1 connections"),
        (
            "{phases: [{name: a, closed: {users: 9, duration: 1s}}, {name: b, closed: {users: 1, duration: 1s}}]}",
            "1 users",
        ),
    ] {
        assert!(fits(&load(yaml), 2).is_err_and(|text| text.contains(why)), "{yaml}");
        assert_eq!(fits(&load(yaml), 1), Ok(()), "{yaml}");
    }
    for yaml in [
        "{closed: {users: {from: 1, to: 2}, duration: 1s}}",
        "{phases: [{name: warm-up, warmup: true, closed: {users: 1, duration: 1s}}, {name: b, closed: {users: 2, duration: 1s}}]}",
    ] {
        assert_eq!(fits(&load(yaml), 2), Ok(()), "{yaml}");
    }
}
