use super::*;
use crate::yaml;

const FILE: &str = "
listen: 127.0.0.1:0
telemetry: {traces: {endpoint: 'http://127.0.0.1:1/v1/traces?team=shown&token=unseen5'}, metrics: {endpoint: 'http://127.0.0.1:1/v1/metrics?key=unseen8', headers: {X-Any: unseen9}}}
auth: {sso: {forward: {url: 'http://127.0.0.1:1/check?api_key=unseen6&a=1'}}, env: {ext_authz: {url: 'http://127.0.0.1:1/?key=unseen7'}}, own: {forward: {upstream: app, path: '/check?token=unseen10'}}}
apis: {orders: {spec: orders.yaml, upstream: app, headers: {request: {set: {Authorization: Bearer hidden8}}}}}
redis: {url: 'redis://user:p@ss@127.0.0.1:6379/0'}
upstreams: {app: {targets: [http://127.0.0.1:1]}, found: {targets: {consul: orders, tag: shown-tag, token: hidden-consul}}}
routes:
  - {match: {path: /ai}, ai: {models: [], guard: {upstream: app, path: '/judge?token=unseen11'}}}
  - match: {path: /a, headers: {X-API-Key: hidden1, X-Tier: gold}}
    upstream: app
    headers:
      request: {set: {Authorization: Bearer hidden2, X-A: shown}, add: {X-Token: hidden3, X-Functions-Key: hidden9, X-Origin-Auth: hidden0}}
      response: {set: {Set-Cookie: hidden4}}
";

#[test]
fn credentials_are_blanked_and_the_rest_is_shown() {
    let file: File = yaml::parse(FILE, &|_| None).unwrap();
    let text = file.to_yaml_without_secrets();
    for blank in ["hidden", "unseen", "p@ss", "ss@"] {
        assert!(!text.contains(blank), "{blank} in {text}");
    }
    for shown in ["redis://user:***@127.0.0.1:6379/0", "X-Tier: gold", "X-A: shown", "team=shown", "shown-tag"] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(file.to_yaml().contains("hidden4") && file.to_yaml().contains("p@ss"));
    assert!(yaml::parse::<File>(&text, &|_| None).is_ok(), "{text}");
}

#[test]
fn names_of_the_file_are_blanked_too() {
    let text = "
listen: 127.0.0.1:0
redact: [X-Tenant, coupon]
telemetry: {resource: {coupon: hidden1, team: edge}, traces: {endpoint: 'http://127.0.0.1:1/v1/traces?coupon=hidden2&team=shown1'}}
upstreams: {app: {targets: [http://127.0.0.1:1], health: {path: '/healthz?Coupon=hidden3'}}}
routes:
  - match: {path: /a, headers: {x-tenant: hidden4}, query: {coupon: hidden5, page: shown2}}
    upstream: app
    headers: {request: {set: {X-TENANT: hidden6, X-A: shown3}}, response: {add: {x-tenant: hidden7}}}
";
    let file: File = yaml::parse(text, &|_| None).unwrap();
    let shown = file.to_yaml_without_secrets();
    assert!(!shown.contains("hidden"), "{shown}");
    assert!((1..=3).all(|number| shown.contains(&format!("shown{number}"))), "{shown}");
}

#[test]
fn debug_output_holds_no_credentials() {
    let file: File = yaml::parse(FILE, &|_| None).unwrap();
    let text = format!("{file:?}");
    assert!(!text.contains("hidden") && !text.contains("p@ss"), "{text}");
}

#[test]
fn urls_without_a_password_stay() {
    assert_eq!(without_password("redis://127.0.0.1:6379/0"), "redis://127.0.0.1:6379/0");
    assert_eq!(without_password("rediss://:a@b@h/0"), "rediss://:***@h/0");
    assert_eq!(without_password("not a url"), "***");
}
