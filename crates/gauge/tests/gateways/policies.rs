//! CORS, credentials, limits, retries and metrics of `gauge convert`, tried with requests through the real programs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use gauge::gateway::{self, Gateway, Guard, Model, Options, Policies, Program, Rate, Settings, Tokens};
use gauge::load::workload::{Operation, Source};
use gauge::profile::token::{AUDIENCE, ISSUER, Jwt};
use gauge::profile::{KeyAuth, Profile, RateLimit};
use testkit::ports::Port;
use testkit::{Message, Upstream, wait};

use crate::running::{Running, start_model};
use crate::{api, model};

/// A description with public operations, and others that need each kind of credentials.
pub(crate) const API: &str = "crates/gauge/tests/gateways/policies.openapi.yaml";

const KEY: &str = "3f1c9a7d2b8e4f60a5c1";
const OTHER_KEY: &str = "b7d2e8f04a6c1935d0e4";
const ORIGIN: &str = "https://app.example.com";
const RETRIES: usize = 2;

/// All of them.
pub(crate) fn all() -> Policies {
    Policies {
        cors: vec![ORIGIN.to_owned(), "http://localhost:3000".to_owned()],
        keys: Some(gateway::policies::keys(&format!("{KEY} shop\n{OTHER_KEY} stock\n")).expect("keys")),
        tokens: Some(Tokens::new(&Jwt::default().key_set(), ISSUER, AUDIENCE).expect("a key set")),
        limit: Some(Rate { requests: 1000, seconds: 1 }),
        retries: Some(RETRIES as u32),
        metrics: Some("127.0.0.1:9901".parse().expect("an address")),
    }
}

/// A token that the key set above accepts.
fn token() -> String {
    let mut operation = Operation::get("a", "/a");
    Profile::Jwt(Jwt { tokens: 1, ..Jwt::default() }).amend(&mut operation);
    match operation.params.into_values().next() {
        Some(Source::List { values, .. }) => format!("Bearer {}", values[0]),
        other => panic!("{other:?}"),
    }
}

/// Responds as the request says: `X-Fail: 503/2` is 503 to the first two attempts, `X-Fail: close/1` no response to the first.
fn upstream() -> Upstream {
    let seen: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    Upstream::builder().record_limit(1 << 10).start(move |conn, request| {
        let case = request.head.field("x-case").unwrap_or_default().to_owned();
        let attempt = {
            let mut seen = seen.lock().expect("no panic");
            let count = seen.entry(case).or_default();
            *count += 1;
            *count
        };
        let fail = request.head.field("x-fail").and_then(|fail| fail.split_once('/'));
        match fail.filter(|(_, times)| attempt <= times.parse().expect("a number")) {
            Some(("close", _)) => conn.close(),
            Some((status, _)) => conn.respond(status.parse().expect("a status"), &[], "failed"),
            // What an upstream says about origins is not what the gateway was told.
            None => conn.respond(200, &[("Access-Control-Allow-Origin", "https://upstream.example.com")], "fine"),
        }
    })
}

fn start(gateway: &'static dyn Gateway, program: &Program, policies: Policies) -> Running {
    let upstream = upstream();
    let settings = Settings { policies, ..Settings::default() };
    let upstreams = [("http://127.0.0.1:14100".to_owned(), upstream.url())].into();
    let model = model(&api(API), &Options { upstreams, settings });
    start_model(gateway, program, model, vec![upstream])
}

fn send(running: &Running, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Message {
    let mut client = running.client();
    client.request(method, target, fields, body);
    client.read_response_to(method)
}

/// Values of a field, of all lines.
fn values(response: &Message, name: &str) -> Vec<String> {
    let lines = response.head.all(name).into_iter();
    lines.flat_map(|line| line.split(',')).map(|value| value.trim().to_ascii_lowercase()).collect()
}

fn pages_of_other_origins(running: &Running, any: bool) {
    let name = running.gateway.name();
    let before = running.seen();
    let preflight = |target: &str, origin: &str, method: &str| {
        let fields = [
            ("Origin", origin),
            ("Access-Control-Request-Method", method),
            ("Access-Control-Request-Headers", "content-type,x-api-key"),
        ];
        send(running, "OPTIONS", target, &fields, "")
    };
    let allowed = |origin: &str, response: &Message| {
        let said = response.field("access-control-allow-origin");
        // With any origin `*` says the same as the origin itself, and what varies says so.
        assert!(said == Some(origin) || (any && said == Some("*")), "{name}: {response:?}");
        assert_eq!(response.head.all("access-control-allow-origin").len(), 1, "{name}: {response:?}");
        assert_eq!(response.field("access-control-allow-credentials"), None, "{name}: {response:?}");
        said == Some("*")
    };
    // The path has no OPTIONS in the description, and a key is needed for its POST.
    for (target, methods) in
        [("/items", ["get", "head", "post"].as_slice()), ("/items/7", &["get", "head", "put", "delete"])]
    {
        let method = methods.last().expect("a method").to_ascii_uppercase();
        let response = preflight(target, ORIGIN, &method);
        assert!([200, 204].contains(&response.status()), "{name}: {response:?}");
        allowed(ORIGIN, &response);
        let said = values(&response, "access-control-allow-methods");
        // Weir names the methods of the route, which are those of one upstream and one check.
        assert!(said.contains(&method.to_ascii_lowercase()), "{name}: {response:?}");
        assert!(said.iter().all(|method| methods.contains(&method.as_str())), "{name}: {response:?}");
        let headers = values(&response, "access-control-allow-headers");
        assert!(
            ["content-type", "x-api-key", "authorization", "x-page"]
                .iter()
                .all(|header| headers.iter().any(|said| said == header)),
            "{name}: {response:?}"
        );
        assert!(!headers.iter().any(|header| header == "cookie"), "{name}: {response:?}");
        assert_eq!(response.field("access-control-max-age"), Some("600"), "{name}: {response:?}");
    }
    let other = "https://evil.example.com";
    if !any {
        for origin in [other, "https://app.example.com.evil.example.com", "http://app.example.com"] {
            let response = preflight("/items", origin, "POST");
            assert_eq!(response.field("access-control-allow-origin"), None, "{name}: {origin} {response:?}");
        }
    }
    // A path that is described with OPTIONS: a preflight is the gateway's, other OPTIONS are the upstream's.
    allowed(ORIGIN, &preflight("/news", ORIGIN, "GET"));
    assert_eq!(running.seen(), before, "{name}: a preflight reached the upstream");
    assert_eq!(send(running, "OPTIONS", "/news", &[("Origin", ORIGIN)], "").status(), 200, "{name}");
    assert_eq!(running.seen(), before + 1, "{name}");
    for fields in [[("Origin", ORIGIN), ("X-Other", "1")], [("Access-Control-Request-Method", "GET"), ("X-Other", "1")]]
    {
        let refused = send(running, "OPTIONS", "/items", &fields, "");
        assert!([404, 405].contains(&refused.status()), "{name}: {refused:?}");
    }
    assert_eq!(preflight("/nowhere", ORIGIN, "GET").status(), 404, "{name}");
    assert_eq!(running.seen(), before + 1, "{name}: OPTIONS reached the upstream");
    // Ordinary requests.
    let response = send(running, "GET", "/items", &[("Origin", ORIGIN)], "");
    assert_eq!(response.status(), 200, "{name}");
    let star = allowed(ORIGIN, &response);
    let varies = |response: &Message| values(response, "vary").iter().any(|value| value == "origin");
    assert!(star || varies(&response), "{name}: {response:?}");
    if !any {
        let response = send(running, "GET", "/items", &[("Origin", other)], "");
        assert_eq!(
            (response.status(), response.field("access-control-allow-origin")),
            (200, None),
            "{name}: {response:?}"
        );
        assert!(varies(&response), "{name}: {response:?}");
        let response = send(running, "GET", "/items", &[], "");
        assert!(varies(&response), "{name}: {response:?}");
    }
}

/// What a gateway can check.
fn checks(gateway: &dyn Gateway) -> (bool, bool) {
    let keys = gateway.profile(&Profile::KeyAuth(KeyAuth::default())).is_ok();
    (keys, gateway.profile(&Profile::Jwt(Jwt::default())).is_ok())
}

fn credentials(running: &Running) {
    let name = running.gateway.name();
    let (keys, tokens) = checks(running.gateway);
    let token = token();
    let (broken, end) = token.split_at(token.len() - 20);
    let broken =
        format!("{broken}{}", if end.starts_with('A') { end.replacen('A', "B", 1) } else { format!("A{}", &end[1..]) });
    let (other_case, path) = (KEY.to_ascii_uppercase(), crate::running::path);
    for route in &running.model.routes {
        let guard = route.guard.within(keys, tokens);
        let (key, bearer) = (("X-API-Key", KEY), ("Authorization", token.as_str()));
        let none = ("X-Other", "1");
        // Which of the two a request has to have.
        let cases: &[([(&str, &str); 2], bool)] = &[
            ([none, none], guard == Guard::Open),
            ([("X-API-Key", "3f1c9a7d2b8e4f60a5c2"), none], guard == Guard::Open),
            ([("X-API-Key", &other_case), none], guard == Guard::Open),
            ([("X-API-Key", ""), none], guard == Guard::Open),
            ([none, ("Authorization", &broken)], guard == Guard::Open),
            ([none, ("Authorization", "Bearer x")], guard == Guard::Open),
            ([key, none], matches!(guard, Guard::Open | Guard::Key | Guard::Either)),
            ([none, bearer], matches!(guard, Guard::Open | Guard::Token | Guard::Either)),
            ([key, bearer], true),
        ];
        for (fields, passes) in cases {
            let before = running.seen();
            let method = route.method.as_str();
            // A client cannot say by itself who it is.
            let mut all = vec![("X-Consumer-Username", "forged")];
            all.extend(fields);
            let response = send(running, method, &path(route), &all, "");
            let what = format!("{name}: {method} {} {guard:?} {fields:?}: {response:?}", route.template());
            // Weir takes an empty key for a broken request.
            let broken = name == "weir" && fields[0].1.is_empty() && response.status() == 400;
            assert!(response.status() == if *passes { 200 } else { 401 } || broken, "{what}");
            assert_eq!(running.seen(), before + usize::from(*passes), "{what}");
            if !*passes || (guard == Guard::Open && !keys && !tokens) {
                continue;
            }
            let requests = running.upstreams[0].requests();
            let got = &requests.last().expect("a request").head;
            let consumer = got.field("x-consumer-username").unwrap_or_default();
            match guard {
                // nginx names the consumer of a key on public operations too.
                Guard::Open if name == "nginx" && fields[0] == key => assert_eq!(consumer, "shop", "{what}"),
                Guard::Open => assert_eq!(consumer, "", "{what}: {got:?}"),
                Guard::Key => assert_eq!(consumer, "shop", "{what}: {got:?}"),
                Guard::Token => assert_eq!(consumer, "consumer-1", "{what}: {got:?}"),
                Guard::Either | Guard::Both => assert!(["shop", "consumer-1"].contains(&consumer), "{what}: {got:?}"),
            }
            if matches!(guard, Guard::Key) {
                assert_eq!(got.field("x-api-key"), None, "{what}: the upstream sees the key");
            }
        }
    }
    // A method or path that is not described is refused as it was, with a key or without.
    for fields in [[("X-Other", "1")], [("X-API-Key", KEY)]] {
        assert_eq!(send(running, "GET", "/nowhere", &fields, "").status(), 404, "{name}");
        let refused = send(running, "PATCH", "/items/7", &fields, "").status();
        assert!([404, 405].contains(&refused), "{name}: {refused}");
    }
    // What is not checked is said, by operation.
    let notes = gateway::written(running.gateway, &running.model, &running.place).expect("files").notes.join("\n");
    for route in &running.model.routes {
        let open = route.guard.within(keys, tokens) == Guard::Open;
        if open && route.protected {
            assert!(
                notes.lines().any(|note| note.starts_with("without a check pass") && note.contains(&route.id)),
                "{name}: {} is not in\n{notes}",
                route.id
            );
        }
    }
}

fn attempts(running: &Running) {
    let name = running.gateway.name();
    let mut case = 0;
    let mut tried = |method: &str, target: &str, fail: &str, body: &str| {
        case += 1;
        let (before, case) = (running.seen(), format!("{case}"));
        let token = token();
        let fields = [("X-Case", case.as_str()), ("X-Fail", fail), ("X-API-Key", KEY), ("Authorization", &token)];
        let response = send(running, method, target, &fields, body);
        (response.status(), running.seen() - before)
    };
    for status in [502, 503, 504] {
        assert_eq!(tried("GET", "/items", &format!("{status}/1"), ""), (200, 2), "{name}: {status}");
    }
    assert_eq!(tried("GET", "/items", "503/9", ""), (503, 1 + RETRIES), "{name}: not without end");
    assert_eq!(tried("GET", "/items", "500/1", ""), (500, 1), "{name}: another status");
    assert_eq!(tried("GET", "/items", "close/1", ""), (200, 2), "{name}: no response");
    for fail in ["503/1", "close/1"] {
        for body in ["", "{}"] {
            let (status, seen) = tried("POST", "/items", fail, body);
            assert_eq!(seen, 1, "{name}: POST is sent once: {fail}");
            assert!((500..=504).contains(&status), "{name}: {status}");
        }
    }
    // Whatever is sent again is sent whole.
    for chunked in [false, true] {
        let case = format!("whole-{chunked}");
        let length = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 5" };
        let body = if chunked { "5\r\nhello\r\n0\r\n\r\n" } else { "hello" };
        let before = running.seen();
        let mut client = running.client();
        client.send(format!(
            "PUT /items/7 HTTP/1.1\r\nHost: test\r\nX-API-Key: {KEY}\r\nX-Case: {case}\r\nX-Fail: 503/1\r\n{length}\r\n\r\n{body}"
        ));
        let status = client.read_response_to("PUT").status();
        let requests = running.upstreams[0].requests();
        let bodies: Vec<&[u8]> = requests[before..].iter().map(|request| request.body.as_slice()).collect();
        assert!(bodies.iter().all(|body| *body == b"hello"), "{name}: {status} {bodies:?}");
        assert!(matches!((status, bodies.len()), (200, 2) | (503, 1)), "{name}: {status} {bodies:?}");
    }
    // No attempt reaches an upstream that does not listen, and the client hears of it.
    running.upstreams[0].stop();
    let (status, seen) = tried("GET", "/items", "503/0", "");
    assert!((502..=504).contains(&status) && seen == 0, "{name}: {status}");
    running.upstreams[0].restart();
    wait::until(testkit::DEADLINE, &format!("{name} reaches its upstream again"), || {
        tried("GET", "/items", "503/0", "").0 == 200
    });
}

/// Public operations whose parameters may be what another operation has in its path, which needs a key.
const OVERLAPS: &str = "openapi: 3.1.0
info: {title: A, version: '1'}
servers: [{url: 'http://127.0.0.1:14100'}]
security: [{key: []}]
components:
  securitySchemes: {key: {type: apiKey, in: header, name: X-API-Key}}
  parameters: {Id: {name: id, in: path, required: true, schema: {type: string}}}
paths:
  /items/{id}:
    parameters: [{$ref: '#/components/parameters/Id'}]
    get: {operationId: item, security: [], parameters: [{name: X_Page, in: header, schema: {type: string}}], responses: {}}
    put: {operationId: setItem, responses: {}}
  /items/admin: {get: {operationId: admin, responses: {}}}
  /items/@me: {get: {operationId: me, responses: {}}}
  /items/ö: {get: {operationId: umlaut, responses: {}}}
  /items/a b: {get: {operationId: space, responses: {}}}
  /items/$batch: {get: {operationId: batch, responses: {}}}
  /items/a|b: {get: {operationId: bar, responses: {}}}
  /items/a%23b: {get: {operationId: fragment, responses: {}}}
  /items/100%25: {get: {operationId: percent, responses: {}}}
  /files/{path}: {get: {operationId: file, security: [], parameters: [{name: path, in: path, required: true, x-multi-segment: true, schema: {type: string}}], responses: {}}}
  /files/secret/x: {get: {operationId: secret, responses: {}}}
  /sums/%7B%7Badd%201%201%7D%7D: {get: {operationId: sum, security: [], responses: {}}}
";

/// What Weir has no template for, so that it writes no configuration.
const VERBS: &str = "  /jobs/{id}: {parameters: [{$ref: '#/components/parameters/Id'}], get: {operationId: job, security: [], responses: {}}}
  /jobs/{id}:run: {parameters: [{$ref: '#/components/parameters/Id'}], get: {operationId: run, responses: {}}}
";

/// No spelling of a path is a way around its check, no field says who a client is but for the gateway, and nothing is upgraded.
fn ways_around(gateway: &'static dyn Gateway, program: &Program) {
    let name = gateway.name();
    let text = if name == "weir" { OVERLAPS.to_owned() } else { format!("{OVERLAPS}{VERBS}") };
    let api = apidoc::read_bytes("overlaps.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}")).api;
    let upstream = upstream();
    // More origins than a line or a small expression has room for.
    let cors = (0..80).map(|n| format!("https://app{n}.example.com")).chain([ORIGIN.to_owned()]).collect();
    let settings =
        Settings { policies: Policies { cors, keys: all().keys, ..Policies::default() }, ..Settings::default() };
    let upstreams = [("http://127.0.0.1:14100".to_owned(), upstream.url())].into();
    let running = start_model(gateway, program, model(&api, &Options { upstreams, settings }), vec![upstream]);
    let keys = checks(gateway).0;
    let mut targets = vec![
        "/items/admin",
        "/items/%61dmin",
        "/items/%61%64%6D%69%6e",
        "/item%73/admin",
        "/items/@me",
        "/items/%40me",
        "/items/%40%6de",
        "/items/%C3%B6",
        "/items/%c3%b6",
        "/items/a%20b",
        "/items/$batch",
        "/items/%24batch",
        "/files/secret/x",
        "/files/%73ecret/%78",
        "/files//secret/x",
        "/files/secret//x",
        "/files/secret%2Fx",
        "/files/a/../secret/x",
        "/files/a/%2e%2e/secret/x",
        "/files/a%2F..%2Fsecret/x",
        "/items/a|b",
        "/items/a%7Cb",
        "/items/a%7cb",
        "/items/a#b",
        "/items/a%23b",
        "/items/100%25",
        "/items/100%",
        "http://test/items/%61dmin",
        "http://test/items/admin",
    ];
    targets
        .extend(["/jobs/5:run", "/jobs/5%3Arun", "/jobs/5%3arun", "/jobs/5:%72un"].iter().filter(|_| name != "weir"));
    for target in targets.iter().filter(|_| keys) {
        let before = running.seen();
        let refused = send(&running, "GET", target, &[], "");
        assert!((400..=405).contains(&refused.status()) && running.seen() == before, "{name}: {target}: {refused:?}");
    }
    for target in ["/items/admin", "/items/@me", "/items/%C3%B6", "/items/a%20b", "/items/$batch", "/files/secret/x"] {
        assert_eq!(send(&running, "GET", target, &[("X-API-Key", KEY)], "").status(), 200, "{name}: {target}");
    }
    for target in ["/items/administrator", "/items/me", "/items/%C3%A4", "/files/secret", "/files/secret/y"] {
        assert_eq!(send(&running, "GET", target, &[], "").status(), 200, "{name}: {target}");
    }
    // A path is a text, also where a gateway's files are templates.
    for (target, status) in [("/sums/%7B%7Badd%201%201%7D%7D", 200), ("/sums/2", 404)] {
        assert_eq!(send(&running, "GET", target, &[], "").status(), status, "{name}: {target}");
    }
    // Every spelling that servers take for the name of the consumer.
    let spellings = ["X-Consumer-Username", "X_Consumer_Username", "x-consumer_username", "X_CONSUMER-USERNAME"];
    let forged = spellings.map(|spelling| (spelling, "forged"));
    for (target, connection) in
        [("/items/5", "close"), ("/items/admin", "close"), ("/items/admin", "X-Consumer-Username")]
    {
        let mut fields = forged.to_vec();
        fields.extend([("X-API-Key", KEY), ("Connection", connection)]);
        assert_eq!(send(&running, "GET", target, &fields, "").status(), 200, "{name}: {target}");
        let got = running.upstreams[0].requests().last().expect("a request").head.clone();
        let names: Vec<&str> = spellings.iter().flat_map(|spelling| got.all(spelling)).collect();
        match names.as_slice() {
            ["shop"] => assert!(keys && (target == "/items/admin" || name == "nginx"), "{name}: {got:?}"),
            names => assert!(names.is_empty() && !(keys && target == "/items/admin"), "{name}: {got:?}"),
        }
    }
    for upgrade in ["h2c", "other"] {
        let fields = [
            ("Connection", "Upgrade, HTTP2-Settings"),
            ("Upgrade", upgrade),
            ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
        ];
        let before = running.seen();
        let response = send(&running, "GET", "/items/5", &fields, "");
        let requests = running.upstreams[0].requests();
        let passed = requests[before..].iter().any(|request| request.head.field("upgrade").is_some());
        // Envoy refuses them.
        assert!(!passed && (response.status() == 200 || name == "envoy"), "{name}: {response:?}");
    }
    let before = running.seen();
    let empty = [("Origin", ORIGIN), ("Access-Control-Request-Method", "")];
    let response = send(&running, "OPTIONS", "/items/admin", &empty, "");
    assert!(response.status() != 200 && running.seen() == before, "{name}: {response:?}");
    let fields = [("Origin", ORIGIN), ("Access-Control-Request-Method", "GET")];
    let response = send(&running, "OPTIONS", "/items/admin", &fields, "");
    assert_eq!(response.field("access-control-allow-origin"), Some(ORIGIN), "{name}: {response:?}");
    assert_eq!(running.seen(), before, "{name}");
}

/// A token with these claims, signed by the key of the set.
fn signed(claims: &serde_json::Value) -> String {
    use aws_lc_rs::{rand, signature};
    use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
    let part = |value: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&serde_json::json!({"alg": "RS256", "kid": "gauge"})), part(claims));
    let pair = signature::RsaKeyPair::from_pkcs8(include_bytes!("../../src/profile/keys/rsa-2048.pk8")).expect("a key");
    let mut out = vec![0; pair.public_modulus_len()];
    pair.sign(&signature::RSA_PKCS1_SHA256, &rand::SystemRandom::new(), text.as_bytes(), &mut out)
        .expect("a signature");
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(out))
}

/// Tokens that are signed, and wrong in something else.
fn claims(running: &Running) {
    use serde_json::json;
    let name = running.gateway.name();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
    let right = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now + 600});
    let status = |token: &str| {
        let before = running.seen();
        let response = send(running, "GET", "/orders", &[("Authorization", &format!("Bearer {token}"))], "");
        assert_eq!(running.seen() - before, usize::from(response.status() == 200), "{name}: {response:?}");
        response.status()
    };
    assert_eq!(status(&signed(&right)), 200, "{name}");
    for (claim, wrong) in [
        ("exp", json!(-1)),
        ("exp", json!(-3600)),
        ("exp", json!(now - 45)),
        ("exp", json!((now + 600).to_string())),
        ("exp", json!(null)),
        ("sub", json!(null)),
        ("sub", json!("")),
        ("iss", json!("https://other.example.com/")),
        ("aud", json!("other")),
    ] {
        let mut claims = right.clone();
        claims[claim] = wrong;
        let status = status(&signed(&claims));
        // Envoy says 403 to another audience.
        let expected = if name == "envoy" && claim == "aud" { 403 } else { 401 };
        assert_eq!(status, expected, "{name}: {claims}");
    }
    let query = format!("/orders?access_token={}", signed(&right));
    assert_eq!(send(running, "GET", &query, &[], "").status(), 401, "{name}");
}

fn metrics(running: &Running) {
    let name = running.gateway.name();
    let address = running.model.settings.policies.metrics.expect("an address");
    let get = |target: &str| {
        let mut client = testkit::RawClient::connect(address);
        // Weir's admin listener wants its own address in `Host`, as Prometheus sends it.
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        client.read_response()
    };
    let response = get("/metrics");
    assert_eq!(response.status(), 200, "{name}");
    let text = response.text();
    assert!(text.lines().any(|line| line.starts_with("# TYPE ") && line.ends_with(" counter")), "{name}: {text}");
    // Requests were counted, and some counter says so.
    let above = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap_or_default();
        (series.contains("request") || series.contains("_rq"))
            && !series.starts_with('#')
            && value.parse::<f64>().is_ok_and(|value| value >= 10.0)
    };
    assert!(text.lines().any(above), "{name}: {text}");
    // The API's own address does not have them.
    assert_eq!(send(running, "GET", "/metrics", &[], "").status(), 404, "{name}");
    for other in ["/quitquitquit", "/config_dump", "/items"] {
        assert_ne!(get(other).status(), 200, "{name}: {other}");
    }
}

/// Requests of a client pass until there are as many as the limit says; those of another client still pass.
fn limits(gateway: &'static dyn Gateway, program: &Program) {
    const LIMIT: usize = 20;
    let (name, keys) = (gateway.name(), checks(gateway).0);
    let policies = Policies {
        cors: vec!["*".to_owned()],
        limit: Some(Rate { requests: LIMIT as u32, seconds: 60 }),
        retries: Some(0),
        metrics: None,
        tokens: None,
        ..all()
    };
    let running = start(gateway, program, policies);
    pages_of_other_origins(&running, true);
    // Three of those requests were counted at most.
    let statuses = |target: &str, key: &str, count: usize| {
        let before = running.seen();
        let statuses: Vec<u16> =
            (0..count).map(|_| send(&running, "GET", target, &[("X-API-Key", key)], "").status()).collect();
        let passed = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(running.seen() - before, passed, "{name}: {statuses:?}");
        assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{name}: {statuses:?}");
        (statuses, passed)
    };
    if keys {
        // A few come back while the requests are sent: a token in three seconds.
        let (all, passed) = statuses("/items/7", KEY, 2 * LIMIT);
        assert!(all[..LIMIT].iter().all(|status| *status == 200), "{name}: {all:?}");
        assert!(all[LIMIT..].contains(&429) && passed <= LIMIT + 10, "{name}: {all:?}");
        assert_eq!(statuses("/items/7", OTHER_KEY, 5).1, 5, "{name}: another client");
    }
    let (all, passed) = statuses("/items", "made-up", 2 * LIMIT);
    assert!(all[..LIMIT - 5].iter().all(|status| *status == 200), "{name}: {all:?}");
    assert!(all.contains(&429) && passed <= LIMIT + 10, "{name}: {all:?}");
    // It is one limit for all operations.
    let (other, passed) = statuses("/news", "made-up", LIMIT);
    assert!(passed <= 10, "{name}: {other:?}");
    let (again, passed) = statuses("/items", "another-made-up", LIMIT);
    assert!(passed < LIMIT, "{name}: a client that makes up keys gets no more: {again:?}");
    // No retries were wanted.
    let before = running.seen();
    let fields = [("X-Fail", "503/9"), ("X-Case", "none"), ("X-API-Key", OTHER_KEY)];
    let response = send(&running, "GET", if keys { "/items/7" } else { "/items" }, &fields, "");
    assert!(response.status() == 503 || !keys, "{name}: {response:?}");
    assert!(running.seen() - before <= 1, "{name}: sent again");
}

fn run(name: &str) {
    let gateway = gateway::by_name(name).expect("a gateway");
    let Some(program) = gateway.locate() else {
        println!("{name} is not here and was not run");
        return;
    };
    let port = Port::free();
    let metrics_at = port.address();
    let mut policies = all();
    policies.metrics = Some(metrics_at);
    drop(port);
    let running = start(gateway, &program, policies);
    pages_of_other_origins(&running, false);
    credentials(&running);
    attempts(&running);
    if checks(gateway).1 {
        claims(&running);
    }
    if name != "nginx" {
        metrics(&running);
    }
    drop(running);
    ways_around(gateway, &program);
    if gateway.profile(&Profile::RateLimit(RateLimit::default())).is_ok() {
        limits(gateway, &program);
    }
}

macro_rules! policies {
    ($($name:ident),*) => {$(
        #[test]
        #[ignore = "needs the programs that scripts/suites/55-gauge-gateways.sh installs"]
        fn $name() {
            run(stringify!($name));
        }
    )*};
}

policies!(weir, nginx, haproxy, envoy, traefik, caddy, kong);

/// The model of a gateway that is told all of it.
fn told() -> Model {
    let settings = Settings { policies: all(), ..Settings::default() };
    model(&api(API), &Options { settings, ..Options::default() })
}

#[test]
fn what_is_not_written_is_said_with_its_reason() {
    let place = gateway::Placement::new("127.0.0.1:8080".parse().expect("an address"), "/srv/gateway");
    let model = told();
    for (name, option) in [
        ("nginx", "--metrics: nginx has no metrics for Prometheus"),
        ("nginx", "--jwks: tokens are checked by NGINX Plus"),
        ("traefik", "--api-keys: API keys are a part of Traefik Hub"),
        ("caddy", "--limit: rate limits are a module"),
        ("kong", "--jwks: its plugin jwt"),
        ("fiber", "--cors: "),
        ("spring", "--retries: "),
        ("krakend", "--api-keys: API keys are a part of KrakenD Enterprise"),
        ("tyk", "--limit: "),
    ] {
        let gateway = gateway::by_name(name).expect("a gateway");
        let place = gateway::Placement { extra: vec![8081; gateway.extra_ports().len()], ..place.clone() };
        let notes = gateway::written(gateway, &model, &place).expect("files").notes;
        assert!(notes.iter().any(|note| note.starts_with(option)), "{name} should say {option}: {notes:#?}");
        let option = option.split(':').next().unwrap_or_default();
        let does = model.settings.policies.written(gateway);
        let word = match option {
            "--metrics" => "metrics",
            "--jwks" => "bearer token",
            "--api-keys" => "API key",
            "--limit" => "429",
            "--cors" => "pages of",
            _ => "sent again",
        };
        assert!(!does.iter().any(|line| line.contains(word)), "{name} says that it does: {does:#?}");
    }
    // Weir and Envoy do all of it.
    for name in ["weir", "envoy", "haproxy"] {
        let gateway = gateway::by_name(name).expect("a gateway");
        assert_eq!(model.settings.policies.written(gateway).len(), 6, "{name}");
    }
}
