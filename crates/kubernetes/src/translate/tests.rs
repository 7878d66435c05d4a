//! Objects as they are written, and what is made of them.

mod services;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Addresses, Allocations, Refusal, Refusals, Settings, Translation, translate, translate_without};
use crate::cluster::Cluster;
use crate::objects::{EndpointPort, Object};

const BASE: &str = include_str!("tests/base.yaml");

/// A gateway with listeners of one port for these hosts; their names are those before the colon.
fn hosts(listeners: &[(&str, &str)]) -> String {
    let one = |(name, host): &(&str, &str)| format!("{{name: {name}, port: 80, protocol: HTTP, hostname: '{host}'}}");
    let listeners: Vec<String> = listeners.iter().map(one).collect();
    format!(
        "kind: Gateway\nmetadata: {{name: hosts, namespace: shop}}\nspec: {{gatewayClassName: weir, listeners: [{}]}}\n",
        listeners.join(", ")
    )
}

fn parse<T: Object>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

/// A cluster with the objects of these documents.
fn cluster(texts: &[&str]) -> Cluster {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let mut cluster = Cluster::default();
    for text in texts.iter().flat_map(|text| text.split("---\n")).filter(|text| !text.trim().is_empty()) {
        match serde_saphyr::from_str::<Kind>(text).unwrap().kind.as_str() {
            "GatewayClass" => Cluster::insert(&mut cluster.classes, parse(text)),
            "Gateway" => Cluster::insert(&mut cluster.gateways, parse(text)),
            "HTTPRoute" => Cluster::insert(&mut cluster.http_routes, parse(text)),
            "GRPCRoute" => Cluster::insert(&mut cluster.grpc_routes, parse(text)),
            "ReferenceGrant" => Cluster::insert(&mut cluster.grants, parse(text)),
            "Service" => Cluster::insert(&mut cluster.services, parse(text)),
            "EndpointSlice" => Cluster::insert(&mut cluster.slices, parse(text)),
            "Secret" => Cluster::insert(&mut cluster.secrets, parse(text)),
            "Namespace" => Cluster::insert(&mut cluster.namespaces, parse(text)),
            other => panic!("{other}"),
        }
    }
    cluster
}

fn settings() -> Settings {
    Settings { controller: "weir.dev/gateway".to_owned(), addresses: Addresses::Bare("10.88.1.0/24".parse().unwrap()) }
}

fn translated(texts: &[&str]) -> Translation {
    translate(&cluster(texts), &settings(), &mut Allocations::default())
}

/// A route with these keys of its specification; its parent is the gateway `shop/web`.
fn route(name: &str, spec: &str) -> String {
    format!(
        "kind: HTTPRoute\nmetadata: {{name: {name}, namespace: shop, generation: 3, creationTimestamp: '2026-01-0{}T00:00:00Z'}}\nspec: {{parentRefs: [{{name: web}}], {spec}}}\n",
        name.len() % 9 + 1
    )
}

/// The condition of an object's status: of its first parent, if it is a route.
fn condition<'t>(translation: &'t Translation, kind: &str, name: &str, condition: &str) -> (&'t str, &'t str) {
    let found = translation.statuses.iter().find(|patch| patch.kind == kind && patch.key.name == name);
    let status = &found.unwrap_or_else(|| panic!("{kind} {name} has no status")).status;
    let list = status.pointer("/parents/0/conditions").or_else(|| status.get("conditions")).unwrap();
    let found = list.as_array().unwrap().iter().find(|one| one["type"] == condition).unwrap();
    (found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
}

fn listener<'t>(translation: &'t Translation, gateway: &str, name: &str) -> &'t Value {
    let found = translation.statuses.iter().find(|patch| patch.kind == "Gateway" && patch.key.name == gateway).unwrap();
    found.status["listeners"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

/// Paths of the routes in their order, each with where it leads.
fn routes(translation: &Translation) -> Vec<String> {
    let one = |route: &Value| {
        let to = ["upstream", "split", "redirect", "respond"].iter().find_map(|key| route.get(*key)).unwrap();
        let host = route["match"].get("host").map_or("", |host| host.as_str().unwrap());
        format!("{host}{} {to}", route["match"]["path"].as_str().unwrap())
    };
    translation.document["routes"].as_array().unwrap().iter().map(one).collect()
}

const TO_ORDERS: &str = "backendRefs: [{name: orders, port: 80}]";

#[test]
fn a_gateway_with_a_route_is_a_listener_with_an_upstream() {
    let web =
        route("web", &format!("rules: [{{matches: [{{path: {{type: PathPrefix, value: /orders/}}}}], {TO_ORDERS}}}]"));
    let translation = translated(&[BASE, &web]);
    assert_eq!(translation.document["listen"][0]["bind"], "10.88.1.1:80");
    assert_eq!(routes(&translation), ["/orders/** \"shop.orders.80\""]);
    let endpoints: [SocketAddr; 2] = ["10.0.0.1:8080".parse().unwrap(), "10.0.0.2:8080".parse().unwrap()];
    assert_eq!(translation.endpoints, BTreeMap::from([("shop.orders.80".to_owned(), endpoints.to_vec())]));
    for (kind, name, of) in
        [("GatewayClass", "weir", "Accepted"), ("Gateway", "web", "Programmed"), ("HTTPRoute", "web", "ResolvedRefs")]
    {
        assert_eq!(condition(&translation, kind, name, of).0, "True", "{kind}");
    }
    assert_eq!(listener(&translation, "web", "http")["attachedRoutes"], 1);
    let gateway = translation.statuses.iter().find(|patch| patch.kind == "Gateway").unwrap();
    assert_eq!(gateway.status["addresses"][0]["value"], "10.88.1.1");
}

#[test]
fn routes_of_one_place_are_in_the_order_of_the_gateway_api() {
    let rule = |conditions: &str| format!("{{matches: [{{{conditions}}}], {TO_ORDERS}}}");
    let rules = [
        rule("queryParams: [{name: v, value: '1'}]"),
        rule("headers: [{name: X-A, value: a}]"),
        rule("headers: [{name: X-A, value: a}, {name: X-B, value: b}]"),
        rule("method: GET"),
        rule(""),
    ];
    let translation = translated(&[BASE, &route("web", &format!("rules: [{}]", rules.join(", ")))]);
    let all = translation.document["routes"].as_array().unwrap();
    let conditions = |route: &Value| {
        let count = |key: &str| route["match"].get(key).map_or(0, |map| map.as_object().unwrap().len());
        (route["match"].get("methods").is_some(), count("headers"), count("query"))
    };
    let found: Vec<_> = all.iter().map(conditions).collect();
    assert_eq!(found, [(true, 0, 0), (false, 2, 0), (false, 1, 0), (false, 0, 1), (false, 0, 0)]);
}

#[test]
fn a_backend_that_cannot_be_used_costs_its_share() {
    for (backends, expected, resolved) in [
        ("", "{\"status\":500}", ("True", "ResolvedRefs")),
        ("backendRefs: [{name: missing, port: 80}]", "{\"status\":500}", ("False", "BackendNotFound")),
        ("backendRefs: [{name: orders, port: 81}]", "{\"status\":500}", ("False", "BackendNotFound")),
        ("backendRefs: [{name: orders, kind: Bucket, port: 80}]", "{\"status\":500}", ("False", "InvalidKind")),
        ("backendRefs: [{name: users, namespace: other, port: 80}]", "{\"status\":500}", ("False", "RefNotPermitted")),
        (
            "backendRefs: [{name: orders, port: 80, weight: 3}, {name: missing, port: 80, weight: 2}]",
            "{\"upstreams\":{\"invalid-backend\":2,\"shop.orders.80\":3}}",
            ("False", "BackendNotFound"),
        ),
        ("backendRefs: [{name: orders, port: 80, weight: 0}]", "{\"status\":500}", ("True", "ResolvedRefs")),
    ] {
        let translation = translated(&[BASE, &route("web", &format!("rules: [{{{backends}}}]"))]);
        assert_eq!(routes(&translation), [format!("/** {expected}")], "{backends}");
        assert_eq!(condition(&translation, "HTTPRoute", "web", "ResolvedRefs"), resolved, "{backends}");
        assert_eq!(condition(&translation, "HTTPRoute", "web", "Accepted").0, "True", "{backends}");
    }
    let grant = "kind: ReferenceGrant\nmetadata: {name: shop, namespace: other}\nspec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}], to: [{group: '', kind: Service, name: users}]}\n";
    let web = route("web", "rules: [{backendRefs: [{name: users, namespace: other, port: 80}]}]");
    assert_eq!(routes(&translated(&[BASE, &web, grant])), ["/** \"other.users.80\""]);
}

#[test]
fn a_route_attaches_where_it_may() {
    let gateway = hosts(&[("wide", "*.example.com")]);
    for (spec, expected) in [
        ("hostnames: [a.example.org]", ("False", "NoMatchingListenerHostname")),
        ("parentRefs: [{name: hosts, sectionName: none}]", ("False", "NoMatchingParent")),
        ("parentRefs: [{name: hosts, port: 81}]", ("False", "NoMatchingParent")),
        ("hostnames: [a.example.com]", ("True", "Accepted")),
    ] {
        let spec = if spec.contains("parentRefs") {
            spec.to_owned()
        } else {
            format!("parentRefs: [{{name: hosts}}], {spec}")
        };
        let web = route("web", &format!("rules: [{{{TO_ORDERS}}}]")).replace("parentRefs: [{name: web}]", &spec);
        assert_eq!(condition(&translated(&[BASE, &gateway, &web]), "HTTPRoute", "web", "Accepted"), expected, "{spec}");
    }
    let stranger = route("web", &format!("rules: [{{{TO_ORDERS}}}]"))
        .replace("namespace: shop", "namespace: other")
        .replace("{name: web}]", "{name: web, namespace: shop}]");
    let translation = translated(&[BASE, &stranger]);
    assert_eq!(condition(&translation, "HTTPRoute", "web", "Accepted"), ("False", "NotAllowedByListeners"));
    assert!(routes(&translation).is_empty());
    assert_eq!(listener(&translation, "web", "http")["attachedRoutes"], 0);
}

#[test]
fn requests_of_a_host_belong_to_the_listener_that_names_it_best() {
    let gateway = hosts(&[("any", ""), ("wide", "*.example.com"), ("narrow", "a.example.com")]);
    let text = route(
        "web",
        &format!("hostnames: ['a.example.com', 'b.example.com', 'c.example.org'], rules: [{{{TO_ORDERS}}}]"),
    )
    .replace("{name: web}]", "{name: hosts, sectionName: any}]");
    let translation = translated(&[BASE, &gateway, &text]);
    assert_eq!(
        routes(&translation),
        [
            "c.example.org/** \"shop.orders.80\"",
            "*.example.com/** {\"status\":404}",
            "a.example.com/** {\"status\":404}"
        ]
    );
}

#[test]
fn listeners_that_cannot_be_served_say_why() {
    let listener_of = |spec: &str| {
        let gateway = format!(
            "kind: Gateway\nmetadata: {{name: one, namespace: shop, generation: 5}}\nspec: {{gatewayClassName: weir, listeners: [{spec}]}}\n"
        );
        let translation = translated(&[BASE, &gateway]);
        let status = listener(&translation, "one", "l").clone();
        let find = |kind: &str| {
            let list = status["conditions"].as_array().unwrap();
            let found = list.iter().find(|one| one["type"] == kind).unwrap();
            assert_eq!(found["observedGeneration"], 5);
            format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
        };
        let kinds = status["supportedKinds"].as_array().unwrap().len();
        (find("Accepted"), find("ResolvedRefs"), find("Programmed"), find("Conflicted"), kinds)
    };
    let expected = |a: &str, b: &str, c: &str, d: &str, kinds| (a.into(), b.into(), c.into(), d.into(), kinds);
    let good = ("True Accepted", "True ResolvedRefs", "True Programmed", "False NoConflicts");
    assert_eq!(listener_of("{name: l, port: 80, protocol: HTTP}"), expected(good.0, good.1, good.2, good.3, 2));
    assert_eq!(
        listener_of("{name: l, port: 80, protocol: TCP}"),
        expected("False UnsupportedProtocol", good.1, "False Invalid", good.3, 0)
    );
    assert_eq!(
        listener_of(
            "{name: l, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: TCPRoute}, {kind: HTTPRoute}]}}"
        ),
        expected(good.0, "False InvalidRouteKinds", good.2, good.3, 1)
    );
    for (reference, reason) in [
        ("{name: missing}", "False InvalidCertificateRef"),
        ("{name: broken}", "False InvalidCertificateRef"),
        ("{name: any, kind: ConfigMap}", "False InvalidCertificateRef"),
        ("{name: any, namespace: other}", "False RefNotPermitted"),
    ] {
        let spec = format!("{{name: l, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{reference}]}}}}");
        assert_eq!(listener_of(&spec), expected(good.0, reason, "False Invalid", good.3, 2), "{reference}");
    }
    assert_eq!(
        listener_of("{name: l, port: 80, protocol: HTTP}, {name: m, port: 80, protocol: HTTP}"),
        expected("False HostnameConflict", good.1, "False Invalid", "True HostnameConflict", 2)
    );
}

#[test]
fn filters_become_keys_of_the_route() {
    let web = route(
        "web",
        &format!(
            "rules: [{{matches: [{{path: {{value: /old}}}}], filters: [
              {{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: X-A, value: '{{host}} ${{B}}'}}], remove: [X-C]}}}},
              {{type: URLRewrite, urlRewrite: {{hostname: one.internal, path: {{type: ReplacePrefixMatch, replacePrefixMatch: /new}}}}}}],
              timeouts: {{request: 1s500ms, backendRequest: 0s}}, {TO_ORDERS}}}]"
        ),
    );
    let translation = translated(&[BASE, &web]);
    let found = &translation.document["routes"][0];
    assert_eq!(found["headers"]["request"]["set"]["X-A"], "{{host} ${B}");
    assert_eq!(found["headers"]["request"]["remove"][0], "X-C");
    assert_eq!(found["rewrite"].to_string(), r#"{"host":"one.internal","prefix":"/new"}"#);
    assert_eq!(found["timeouts"].to_string(), r#"{"first_byte":"none","total":"1500ms"}"#);
    for (redirect, expected) in [
        ("hostname: example.org", r#"{"host":"example.org","scheme":"http","status":302}"#),
        ("scheme: https, statusCode: 301", r#"{"scheme":"https","status":301}"#),
        ("port: 8080", r#"{"port":8080,"scheme":"http","status":302}"#),
        ("path: {type: ReplaceFullPath, replaceFullPath: /gone}", r#"{"path":"/gone","scheme":"http","status":302}"#),
    ] {
        let rule = format!("rules: [{{filters: [{{type: RequestRedirect, requestRedirect: {{{redirect}}}}}]}}]");
        let translation = translated(&[BASE, &route("web", &rule)]);
        assert_eq!(translation.document["routes"][0]["redirect"].to_string(), expected);
    }
}

#[test]
fn copies_go_to_another_backend() {
    let copies = "kind: Service\nmetadata: {name: copies, namespace: shop}\nspec: {ports: [{port: 80}]}\n";
    let mirrored = |filter: &str| {
        let rule = format!(
            "rules: [{{filters: [{{type: RequestMirror, requestMirror: {{backendRef: {{name: copies, port: 80}}{filter}}}}}], {TO_ORDERS}}}]"
        );
        translated(&[BASE, copies, &route("web", &rule)])
    };
    for (filter, share) in [
        ("", Some("100%")),
        (", percent: 5", Some("5%")),
        (", percent: 0", None),
        (", fraction: {numerator: 1, denominator: 1000}", Some("0.1%")),
        (", fraction: {numerator: 0}", None),
    ] {
        let translation = mirrored(filter);
        let mirror = &translation.document["routes"][0]["mirror"];
        assert_eq!(mirror.get("share").and_then(Value::as_str), share, "{filter}");
        assert_eq!(routes(&translation), ["/** \"shop.orders.80\""]);
        assert!(translation.endpoints.contains_key("shop.copies.80"));
    }
    // A backend that does not exist costs the copies only.
    let rule = format!(
        "rules: [{{filters: [{{type: RequestMirror, requestMirror: {{backendRef: {{name: missing, port: 80}}}}}}], {TO_ORDERS}}}]"
    );
    let translation = translated(&[BASE, &route("web", &rule)]);
    assert_eq!(condition(&translation, "HTTPRoute", "web", "ResolvedRefs"), ("False", "BackendNotFound"));
    assert_eq!(condition(&translation, "HTTPRoute", "web", "Accepted").0, "True");
    assert!(translation.document["routes"][0].get("mirror").is_none());
    assert_eq!(routes(&translation), ["/** \"shop.orders.80\""]);
}

#[test]
fn cross_origin_rules_are_those_of_the_route() {
    let cors = |text: &str| {
        let rule = format!("rules: [{{filters: [{{type: CORS, cors: {{{text}}}}}], {TO_ORDERS}}}]");
        translated(&[BASE, &route("web", &rule)]).document["routes"][0].clone()
    };
    let route = cors(
        "allowOrigins: ['https://a.example.com'], allowMethods: [PUT], allowHeaders: [X-A], exposeHeaders: [X-B, X-C], allowCredentials: true, maxAge: 60",
    );
    assert_eq!(
        route["cors"].to_string(),
        r#"{"credentials":true,"headers":["X-A"],"max_age":"60s","methods":["PUT"],"origins":["https://a.example.com"]}"#
    );
    assert_eq!(route["headers"]["response"]["set"]["Access-Control-Expose-Headers"], "X-B, X-C");
    let route = cors("allowOrigins: ['*'], allowMethods: ['*']");
    assert_eq!(route["cors"]["methods"].as_array().unwrap().len(), 7);
    assert_eq!(route["cors"]["max_age"], "5s");
}

#[test]
fn what_is_not_supported_is_said_and_not_served() {
    for rule in [
        "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: copies, port: 80}}}, {type: RequestMirror, requestMirror: {backendRef: {name: copies, port: 80}}}]",
        "filters: [{type: CORS, cors: {allowOrigins: ['https://*.example.com']}}]",
        "filters: [{type: CORS, cors: {allowOrigins: ['*'], allowCredentials: true}}]",
        "filters: [{type: ExtensionRef}]",
        "matches: [{path: {type: Exact, value: /a}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}]",
        "matches: [{path: {type: Exact, value: /b}}, {path: {type: Glob, value: /a}}], filters: [{type: Unheard}]",
    ] {
        let translation = translated(&[BASE, &route("web", &format!("rules: [{{{rule}, {TO_ORDERS}}}]"))]);
        assert_eq!(condition(&translation, "HTTPRoute", "web", "Accepted"), ("False", "UnsupportedValue"), "{rule}");
        let routes = translation.document["routes"].as_array().unwrap();
        assert!(routes.iter().all(|route| route["respond"]["status"] == 500), "{rule}");
        assert_eq!(routes.len(), 1, "{rule}");
    }
    // What cannot be written as a match has no route.
    let translation = translated(&[
        BASE,
        &route("web", &format!("rules: [{{matches: [{{path: {{type: Glob, value: /a}}}}], {TO_ORDERS}}}]")),
    ]);
    assert!(routes(&translation).is_empty());
}

#[test]
fn a_route_that_the_gateway_refuses_is_left_out_and_says_so() {
    let good = route("good", &format!("rules: [{{{TO_ORDERS}}}]"));
    let bad = route(
        "bad",
        &format!("rules: [{{matches: [{{path: {{type: RegularExpression, value: '('}}}}], {TO_ORDERS}}}]"),
    );
    let cluster = cluster(&[BASE, &good, &bad]);
    let first = translate(&cluster, &settings(), &mut Allocations::default());
    let all = first.document["routes"].as_array().unwrap();
    let name = all.iter().find(|route| route["match"]["path"] == "~(").unwrap()["name"].as_str().unwrap();
    // What it does may be wrong, or its match, which then is refused again.
    for is_left_out in [false, true] {
        let refusal = Refusal { why: "unclosed group".to_owned(), is_left_out };
        let refusals = Refusals { routes: [(name.to_owned(), refusal)].into(), ..Refusals::default() };
        let second = translate_without(&cluster, &settings(), &mut Allocations::default(), &refusals);
        let mut all = routes(&second);
        all.sort();
        let with_error = if is_left_out { &[][..] } else { &["~( {\"status\":500}"] };
        assert_eq!(all, [&["/** \"shop.orders.80\""], with_error].concat());
        assert_eq!(condition(&second, "HTTPRoute", "bad", "Accepted"), ("False", "UnsupportedValue"));
        assert_eq!(condition(&second, "HTTPRoute", "good", "Accepted"), ("True", "Accepted"));
    }
}

/// Requests that another route with a wider path would get.
#[test]
fn requests_for_a_rule_that_is_not_supported_get_500() {
    let filter = "filters: [{type: Unheard}]";
    let bad = format!("matches: [{{path: {{value: /admin}}}}], {filter}, {TO_ORDERS}");
    let whole = route("bad", &format!("rules: [{{{bad}}}]"));
    let part = route("part", &format!("rules: [{{{bad}}}, {{matches: [{{path: {{value: /a}}}}], {TO_ORDERS}}}]"));
    let all = translated(&[BASE, &whole]);
    assert_eq!(routes(&all), ["/admin/** {\"status\":500}"]);
    assert_eq!(condition(&all, "HTTPRoute", "bad", "Accepted"), ("False", "UnsupportedValue"));
    let all = translated(&[BASE, &part]);
    assert_eq!(routes(&all), ["/admin/** {\"status\":500}", "/a/** \"shop.orders.80\""]);
    assert_eq!(condition(&all, "HTTPRoute", "part", "Accepted"), ("True", "Accepted"));
    assert_eq!(condition(&all, "HTTPRoute", "part", "PartiallyInvalid"), ("True", "UnsupportedValue"));
}

#[test]
fn a_port_that_cannot_be_opened_concerns_its_listener_only() {
    let other = "kind: Gateway\nmetadata: {name: other, namespace: shop}\nspec: {gatewayClassName: weir, listeners: [{name: l, port: 5555, protocol: HTTP}]}\n";
    let cluster = cluster(&[BASE, other]);
    let mut allocations = Allocations::default();
    let first = translate(&cluster, &settings(), &mut allocations);
    let refusals =
        Refusals { binds: [("shop/other/5555".to_owned(), "in use".to_owned())].into(), ..Refusals::default() };
    let second = translate_without(&cluster, &settings(), &mut allocations, &refusals);
    let count = |one: &Translation| one.document["listen"].as_array().unwrap().len();
    assert_eq!(count(&second), count(&first) - 1);
    let status =
        |name: &str| &second.statuses.iter().find(|one| one.kind == "Gateway" && one.key.name == name).unwrap().status;
    let accepted = &status("other")["listeners"][0]["conditions"][0];
    assert_eq!((&accepted["status"], &accepted["reason"]), (&json!("False"), &json!("PortUnavailable")));
    assert_eq!(condition(&second, "Gateway", "web", "Programmed"), ("True", "Programmed"));
}

/// The API server does not look at the numbers of ports of slices.
#[test]
fn a_port_that_no_port_has_is_none() {
    for number in [-1, 0, 65536, i64::MAX] {
        let port: EndpointPort = serde_json::from_value(json!({"name": "web", "port": number})).unwrap();
        assert_eq!(port.port, None, "{number}");
    }
}

#[test]
fn an_address_stays_with_its_gateway() {
    let mut allocations = Allocations::default();
    let other = "kind: Gateway\nmetadata: {name: older, namespace: shop, creationTimestamp: '2020-01-01T00:00:00Z'}\nspec: {gatewayClassName: weir, listeners: [{name: l, port: 80, protocol: HTTP}]}\n";
    translate(&cluster(&[BASE]), &settings(), &mut allocations);
    let before = allocations.addresses.clone();
    translate(&cluster(&[BASE, other]), &settings(), &mut allocations);
    assert!(before.iter().all(|(key, address)| allocations.addresses[key] == *address));
    assert_eq!(allocations.addresses.len(), before.len() + 1);
    // Another process finds it in the status.
    let seen = BASE.replace("# status of web", "status: {addresses: [{type: IPAddress, value: 10.88.1.77}]}");
    let mut allocations = Allocations::default();
    translate(&cluster(&[&seen, other]), &settings(), &mut allocations);
    assert!(allocations.addresses.values().any(|address| address.to_string() == "10.88.1.77"));
}

#[test]
fn a_class_says_whether_the_release_of_its_kind_is_supported() {
    let mut cluster = cluster(&[BASE]);
    let conditions = |cluster: &Cluster| {
        let translation = translate(cluster, &settings(), &mut Allocations::default());
        let class = translation.statuses.iter().find(|patch| patch.kind == "GatewayClass").unwrap();
        let list = class.status["conditions"].as_array().unwrap();
        list.iter().map(|one| format!("{} {}", one["type"], one["status"]).replace('"', "")).collect::<Vec<_>>()
    };
    assert_eq!(conditions(&cluster), ["Accepted True"], "it could not be read");
    for (release, expected) in [("v1.6.3", "SupportedVersion True"), ("v1.60.0", "SupportedVersion False")] {
        cluster.release = Some(release.to_owned());
        assert_eq!(conditions(&cluster), ["Accepted True", expected]);
    }
}

#[test]
fn calls_of_grpc_are_paths() {
    let calls = |method: &str| {
        let text = format!(
            "kind: GRPCRoute\nmetadata: {{name: calls, namespace: shop}}\nspec: {{parentRefs: [{{name: web}}], rules: [{{matches: [{{method: {method}}}], {TO_ORDERS}}}]}}\n"
        );
        routes(&translated(&[BASE, &text])).remove(0)
    };
    assert_eq!(calls("{service: a.B, method: C}"), "/a.B/C \"shop.orders.80-h2c\"");
    assert_eq!(calls("{service: a.B}"), "/a.B/** \"shop.orders.80-h2c\"");
    assert_eq!(calls("{method: C}"), "~/[^/]+/C \"shop.orders.80-h2c\"");
}
