//! What viewers may know beside what the pages show: which route takes a request, how a token is treated, what a cache has for a
//! request, what the file on disk would change, and who is refused most.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::{DEADLINE, Upstream, Weir, responder, wait};

use super::{TOKEN, Viewer, everything, start, weir};

const SECRET: &str = "canary-jwt-secret-0123456789abcdef-0123456789";
const KEY: &str = "sk-canary-key-0123456789-abcdef";
const OLD_KEY: &str = "sk-canary-old-0123456789-abcdef";

fn send(viewer: &Viewer, name: &str, body: Value) -> Value {
    let response = viewer.act(name, body.clone());
    assert_eq!(response.status(), 200, "{name} {body}: {}", response.text());
    serde_json::from_str(response.text()).unwrap()
}

#[test]
fn a_request_is_tested_and_not_sent() {
    let (upstream, weir, viewer) = start("");
    let test = |body: Value| send(&viewer, "routes/test", body);
    let cached = test(json!({ "method": "get", "host": "a.test", "path": "/cached/x?y=1" }));
    let route = &cached["route"];
    assert_eq!((&route["name"], &route["cache"], &route["limits"]), (&json!("cached"), &json!("pages"), &json!([])));
    assert_eq!(route["because"], json!(["path /cached/*"]));
    assert_eq!(
        (&route["forwards"][0]["upstream"], &route["forwards"][0]["target"]),
        (&json!("app"), &json!("/cached/x?y=1"))
    );
    assert_eq!(cached["others"], json!([{ "route": "plain", "why": "/* comes after" }]));
    assert_eq!(test(json!({ "path": "/limited" }))["route"]["limits"], json!(["per_client"]));
    // What a route wants may be a secret, and is used, not shown.
    let without = test(json!({ "path": "/secret" }));
    assert_eq!(without["others"][0], json!({ "route": "secret", "why": "it wants x-api-key=***" }));
    let with = test(json!({ "path": "/secret", "fields": ["X-API-Key: canary-match"] }));
    assert_eq!(with["route"]["name"], "secret");
    assert!(!with.to_string().contains("canary"), "{with}");
    let refused = test(json!({ "path": "/a//b" }));
    assert_eq!((&refused["route"], &refused["refusal"]["status"]), (&Value::Null, &json!(400)));
    // Whatever somebody types is data.
    let markup =
        test(json!({ "method": "GET", "host": "<b>", "path": "/x?<img/src=x>", "fields": ["X: \u{0}\r\n<script>"] }));
    assert_eq!(markup["route"]["name"], "plain", "{markup}");
    assert_eq!(upstream.request_count(), 0);
    let routes = viewer.json("routes")["routes"].as_array().unwrap().clone();
    let is_unused = |route: &Value| {
        let statuses = route["traffic"]["statuses"].as_array();
        statuses.is_none_or(|counts| counts.iter().all(|count| *count == json!(0)))
    };
    assert!(routes.iter().all(is_unused), "nothing is counted: {routes:?}");
    assert!(!weir.stdout().contains("canary") && !weir.stderr().contains("canary"));
}

#[test]
fn questions_that_make_no_sense_are_refused_and_not_repeated() {
    let (_upstream, weir, viewer) = start("");
    for (status, name, body) in [
        (400, "routes/test", json!({})),
        (400, "routes/test", json!({ "path": "/", "canary": 1 })),
        (400, "routes/test", json!({ "path": " ", "host": "a" })),
        (400, "routes/test", json!({ "path": "items", "host": "a" })),
        (400, "routes/test", json!({ "path": "/", "host": "a/b" })),
        (400, "routes/test", json!({ "path": "/", "client": "nobody" })),
        (400, "routes/test", json!({ "path": "/", "fields": ["canary without a colon"] })),
        (400, "auth/token", json!({})),
        (400, "auth/token", json!({ "token": ["canary"] })),
        (400, "auth/token", json!({ "token": "  " })),
        (413, "auth/token", json!({ "token": "canary".repeat(3000) })),
        (413, "auth/token", json!({ "token": "canary".repeat(30_000) })),
        (400, "caches/look-up", json!({ "url": "/no/host" })),
        (400, "caches/look-up", json!({ "url": "ftp://a/b" })),
        (400, "caches/look-up", json!({ "url": "http://a/b c" })),
        (400, "caches/look-up", json!({ "url": "http://a/b", "method": "G\r\nX: y" })),
        (400, "caches/look-up", json!({ "url": "http://a/b", "fields": ["A: 1\r\nB: 2"] })),
        (400, "caches/look-up", json!({ "url": "http://a//b" })),
        (400, "caches/look-up", json!({ "url": "http://a/b", "method": "" })),
        (400, "caches/look-up", json!({ "url": "http://a/b", "method": "G T" })),
        (400, "caches/look-up", json!({ "url": "http://a/b", "fields": ["no colon"] })),
        (400, "caches/look-up", json!({ "url": "http://a/b", "fields": ["A B: c"] })),
        (400, "caches/look-up", json!({ "url": "http://a/b", "fields": ["Host: c"] })),
        (400, "caches/look-up", json!({ "url": "http://", "fields": [] })),
    ] {
        let response = viewer.act(name, body.clone());
        assert_eq!(response.status(), status, "{name} {body:.60}: {}", response.text());
        let repeats_token = name == "auth/token" && response.text().contains("canary");
        assert!(!repeats_token, "{}", response.text());
    }
    let text = viewer.send("POST", "/console/api/auth/token", &[("X-Weir-CSRF", &viewer.csrf)], "{\"token\": \"canary");
    assert!(text.status() == 400 && !text.text().contains("canary"), "{}", text.text());
    assert!(!weir.stdout().contains("canary") && !weir.stderr().contains("canary"));
}

#[test]
fn questions_are_for_pages_of_the_console_only() {
    let questions = [
        ("routes/test", json!({ "path": "/" })),
        ("auth/token", json!({ "token": "a" })),
        ("caches/look-up", json!({ "url": "http://a/" })),
    ];
    let (_upstream, _weir, viewer) = start("");
    for (name, body) in &questions {
        let target = format!("/console/api/{name}");
        let send = |fields: &[(&str, &str)]| viewer.send("POST", &target, fields, &body.to_string()).status();
        let csrf = ("X-Weir-CSRF", &*viewer.csrf);
        assert_eq!(send(&[]), 403, "{name}: no secret");
        assert_eq!(send(&[csrf, ("Origin", "http://evil.example")]), 403, "{name}");
        assert_eq!(send(&[csrf, ("Sec-Fetch-Site", "cross-site")]), 403, "{name}");
        assert_eq!(send(&[csrf]), 200, "{name}");
        assert_eq!(viewer.get(&target).status(), 405, "{name}: never in a URL");
    }
    let (_upstream, _weir, mut viewer) = start(&format!("console: {{token: {TOKEN}}}"));
    for (name, body) in &questions {
        assert_eq!(viewer.act(name, body.clone()).status(), 401, "{name}: no session");
    }
    assert_eq!(viewer.get("/console/api/config/difference").status(), 401);
    assert_eq!(viewer.log_in(TOKEN), 204);
    for (name, body) in &questions {
        assert_eq!(viewer.act(name, body.clone()).status(), 200, "{name}");
        let bearer = format!("Bearer {TOKEN}");
        let program = Viewer { address: viewer.address, cookie: String::new(), csrf: String::new() };
        let sent =
            program.send("POST", &format!("/console/api/{name}"), &[("Authorization", &bearer)], &body.to_string());
        assert_eq!(sent.status(), 200, "{name}: a program with the token");
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn token(secret: &str, claims: &Value) -> String {
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A gateway with authenticators of several kinds.
fn guarded() -> (Upstream, Weir, Viewer) {
    let upstream = Upstream::start(responder::ok("hello"));
    let builder = weir();
    let keys = builder.dir().join("keys.yaml").display().to_string();
    let entry = |id: &str, key: &str, more: &str| {
        let sha256 = hex(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
        format!("- {{\"id\":\"{id}\",\"sha256\":\"{sha256}\",\"consumer\":\"<b>shop</b>\"{more}}}\n")
    };
    let text = entry("k1", KEY, ",\"routes\":[\"keys\"],\"expires\":\"2999-01-01\"")
        + &entry("k2", OLD_KEY, ",\"expires\":\"2001-01-01\"");
    std::fs::write(&keys, text).unwrap();
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\n\
         upstreams: {{u: {{targets: [{url}]}}, az: {{targets: [http://127.0.0.1:1]}}}}\n\
         auth:\n  keys: {{api_key: {{store: {{file: {keys}}}}}}}\n  \
         staff: {{jwt: {{issuer: me, audience: api, secret: {SECRET}}}}}\n  \
         far: {{jwt: {{issuer: 'http://127.0.0.1:1/', audience: api, jwks: {{url: 'http://127.0.0.1:1/keys?token=canary-url'}}}}}}\n  \
         asked: {{forward: {{upstream: az, path: '/check?token=canary-path'}}}}\n\
         routes:\n  - {{name: staff, match: {{path: /staff/*}}, auth: staff, allow: {{scopes: [orders]}}, upstream: u}}\n  \
         - {{name: keys, match: {{path: /keys/*}}, auth: keys, upstream: u}}\n  \
         - {{name: any, match: {{path: /any/*}}, auth: [staff, keys], upstream: u}}\n",
        url = upstream.url()
    );
    let weir = builder.config(yaml).start();
    let viewer = Viewer::of(&weir);
    (upstream, weir, viewer)
}

fn named<'v>(list: &'v Value, key: &str, name: &str) -> &'v Value {
    list.as_array().unwrap().iter().find(|one| one[key] == name).unwrap_or_else(|| panic!("{name} in {list}"))
}

#[test]
fn a_token_is_judged_by_every_authenticator_and_left_nowhere() {
    let (upstream, weir, viewer) = guarded();
    let judge = |token: &str| send(&viewer, "auth/token", json!({ "token": token }));
    let now = seconds();
    let good =
        json!({ "iss": "me", "aud": "api", "sub": "u1", "exp": now + 600, "scope": "orders", "note": "<img src=x>" });
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims
    };
    let whole = token(SECRET, &good);
    let judged = judge(&format!("Bearer {whole}"));
    assert_eq!((&judged["header"]["alg"], &judged["claims"]), (&json!("HS256"), &good));
    assert_eq!(named(&judged["policies"], "name", "staff")["passes"], true);
    assert_eq!(named(&judged["policies"], "name", "keys")["passes"], false);
    assert_eq!(named(&judged["policies"], "name", "asked")["passes"], Value::Null);
    assert_eq!(named(&judged["routes"], "route", "staff")["passes"], true);
    assert_eq!(named(&judged["routes"], "route", "any")["passes"], true);
    assert!(judged["routes"].as_array().unwrap().iter().all(|route| route["route"] != "keys"));
    let signature = whole.rsplit('.').next().unwrap();
    assert!(!judged.to_string().contains(signature), "what is shown is not enough to use it");
    for (claims, why) in [
        (with("exp", json!(now - 600)), "expired"),
        (with("iss", json!("you")), "invalid: issuer"),
        (with("aud", json!(["other"])), "invalid: audience"),
        (with("nbf", json!(now + 600)), "invalid: not yet valid"),
        (with("exp", json!("soon")), "invalid: exp"),
    ] {
        let judged = judge(&token(SECRET, &claims));
        let staff = named(&judged["policies"], "name", "staff");
        assert_eq!((&staff["passes"], &staff["why"]), (&json!(false), &json!(why)), "{claims}");
        assert!(staff["expects"].as_str().unwrap().contains("audience api"));
        assert_eq!(judged["routes"], json!([]), "{claims}");
    }
    let forged = judge(&token("another-secret-0123456789abcdef-0123456", &good));
    assert_eq!(named(&forged["policies"], "name", "staff")["why"], "invalid: signature");
    assert_eq!(forged["claims"], good, "what it says, whether or not that holds");
    let unscoped = judge(&token(SECRET, &with("scope", json!("other"))));
    let route = named(&unscoped["routes"], "route", "staff");
    assert_eq!((&route["passes"], &route["why"]), (&json!(false), &json!("forbidden: it needs the scopes orders")));

    let judged = judge(KEY);
    let keys = named(&judged["policies"], "name", "keys");
    assert_eq!(
        (&keys["passes"], &keys["who"]["key"], &keys["who"]["consumer"]),
        (&json!(true), &json!("k1"), &json!("<b>shop</b>"))
    );
    assert_eq!(named(&judged["routes"], "route", "keys")["passes"], true);
    assert_eq!(named(&judged["routes"], "route", "any")["why"], "forbidden: route");
    assert_eq!((&judged["is_jwt"], &judged["claims"]), (&json!(false), &Value::Null));
    assert_eq!(named(&judge(OLD_KEY)["policies"], "name", "keys")["why"], "expired (key k2)");
    for odd in ["..", "a.b.c", "\u{0}", "\u{fffd}", "e30.e30.", "e30.e30.e30", &"a.".repeat(4000), &"x".repeat(9000)] {
        let judged = judge(odd);
        assert!(judged["policies"].as_array().unwrap().iter().all(|one| one["passes"] != true), "{odd:.20}: {judged}");
    }
    // A name that occurs twice is read by some one way and by others the other way: neither is shown.
    let twice =
        format!("{}.{}.e30", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(r#"{"a":1,"a":2}"#));
    assert_eq!(judge(&twice)["claims"], Value::Null);

    assert_eq!(upstream.request_count(), 0, "nothing is sent");
    let counts = viewer.json("auth")["counts"].clone();
    assert!(counts.as_object().unwrap().values().all(|counts| *counts == json!({})), "no request is counted: {counts}");
    let everywhere = [weir.stdout(), weir.stderr(), viewer.json("auth").to_string(), viewer.json("errors").to_string()]
        .concat()
        + viewer.get("/metrics").text()
        + viewer.get("/config").text();
    for part in [signature, &whole[..40], KEY, OLD_KEY, "canary"] {
        assert!(!everywhere.contains(part), "{part}");
    }
}

#[test]
fn authenticators_are_shown_with_outcomes_keys_and_failures() {
    let (_upstream, weir, viewer) = guarded();
    assert_eq!(weir.request("GET", "/keys/a", &[("X-API-Key", KEY)], "").status(), 200);
    assert_eq!(weir.request("GET", "/keys/a", &[("X-API-Key", OLD_KEY)], "").status(), 401);
    assert_eq!(weir.get("/staff/a").status(), 401);
    let shown = viewer.json("auth");
    assert_eq!(shown["counts"]["keys"], json!({ "ok": 1, "expired": 1 }));
    assert_eq!(shown["counts"]["staff"], json!({ "missing": 1 }));
    let keys = named(&shown["policies"], "name", "keys");
    assert_eq!(keys["keys"]["count"], 2);
    assert_eq!(
        keys["keys"]["listed"][0],
        json!({ "id": "k2", "consumer": "<b>shop</b>", "expires": 978_307_200, "state": "expired" })
    );
    assert_eq!(keys["routes"], json!({ "count": 2, "names": ["keys", "any"] }));
    let requested = named(&shown["policies"], "name", "asked");
    assert_eq!((&requested["method"], &requested["fails_open"]), (&json!("forward"), &json!(false)));
    let failure = wait::some(DEADLINE, "a failed fetch", || {
        let shown = viewer.json("auth");
        let fetches = named(&shown["policies"], "name", "far")["fetches"].clone();
        fetches["last_failure"]["error"].as_str().map(str::to_owned).filter(|_| fetches["usable"] == false)
    });
    assert!(failure.contains("127.0.0.1:1"), "{failure}");
    let all = viewer.json("auth").to_string();
    assert!(
        !all.contains("canary") && !all.contains(&hex(digest::digest(&digest::SHA256, KEY.as_bytes()).as_ref())),
        "{all}"
    );
}

/// A cache that follows the upstream's fields.
fn caching() -> (Upstream, Weir, Viewer) {
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\nCache-Tag: <b>items</b>\r\nContent-Length: 2\r\n\r\nhi",
    ));
    let weir = weir()
        .config(format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstreams: {{u: {{targets: [{}]}}}}\n\
             caches:\n  pages: {{mode: http, shared: true}}\n  fixed: {{mode: ttl, ttl: 60s}}\n\
             routes:\n  - {{name: items, match: {{path: /items/*}}, upstream: u, cache: pages}}\n  \
             - {{name: fixed, match: {{path: /fixed/*}}, upstream: u, cache: fixed}}\n  \
             - {{name: plain, match: {{path: /plain}}, upstream: u}}\n",
            upstream.url()
        ))
        .start();
    let viewer = Viewer::of(&weir);
    (upstream, weir, viewer)
}

#[test]
fn what_a_cache_has_is_what_the_next_request_gets() {
    let (upstream, weir, viewer) = caching();
    let look = |url: &str, fields: &[&str]| send(&viewer, "caches/look-up", json!({ "url": url, "fields": fields }));
    let url = format!("{}/items/1", weir.url());
    assert_eq!(look(&url, &[])["note"], "Nothing is stored.");
    let english =
        [("Accept-Language", "en"), ("Host", &*weir.addr().to_string())].map(|(name, value)| (name, value.to_owned()));
    let fields: Vec<(&str, &str)> = english.iter().map(|(name, value)| (*name, &**value)).collect();
    assert_eq!(weir.request("GET", "/items/1", &fields, "").status(), 200);
    assert_eq!(upstream.request_count(), 1);
    let found = look(&url, &["Accept-Language: en"]);
    let stored = &found["stored"];
    assert_eq!((&found["route"], &found["cache"], &found["class"]), (&json!("items"), &json!("pages"), &json!("GET")));
    assert_eq!((&stored["status"], &stored["fresh"], &stored["lifetime"]), (&json!(200), &json!(true), &json!(60.0)));
    assert_eq!((&stored["source"], &stored["varies"]), (&json!("max-age"), &json!("accept-language")));
    assert_eq!((&stored["tags"], &stored["use"]), (&json!(["<b>items</b>"]), &json!("is served from the cache")));
    assert_eq!((&stored["level"], found["variants"].as_array().unwrap().len()), (&json!("memory"), 1));
    let other = look(&url, &["Accept-Language: de"]);
    assert_eq!(other["stored"], Value::Null);
    assert!(other["note"].as_str().unwrap().contains("Other variants"), "{other}");
    assert_ne!(other["key"], found["key"]);
    assert_eq!(other["variants"].as_array().unwrap().len(), 1);
    assert_eq!(
        look(&url, &["Accept-Language: en", "Cache-Control: no-cache"])["stored"]["use"],
        "is validated by the upstream first"
    );
    assert_eq!(
        look(&url.to_uppercase().replace("HTTP", "http").replace("ITEMS", "items"), &["Accept-Language: en"])["key"],
        found["key"]
    );
    // The same by the exchange: a hit, no further request of the upstream.
    assert_eq!(weir.request("GET", "/items/1", &fields, "").status(), 200);
    assert_eq!(upstream.request_count(), 1, "look-ups send nothing, and the request is a hit");
    assert_eq!(viewer.act("purge", json!({ "url": url, "soft": true })).text(), r#"{"purged":1}"#);
    assert_eq!(look(&url, &["Accept-Language: en"])["stored"]["fresh"], false);

    let fixed = format!("{}/fixed/1", weir.url());
    assert!(look(&fixed, &["Cookie: canary=1"])["note"].as_str().unwrap().contains("credentials"));
    assert_eq!(look(&format!("{}/plain", weir.url()), &[])["note"], "The route has no cache.");
    assert_eq!(look(&format!("{}/nothing", weir.url()), &[])["note"], "No route takes this request.");
    assert_eq!(upstream.request_count(), 1);
}

#[test]
fn the_file_is_compared_with_what_is_in_force() {
    let (upstream, weir, viewer) = start("");
    let difference = || viewer.json("config/difference");
    assert_eq!(difference(), json!({ "lines": [], "differs_in_secrets": false }));
    let text = everything(&upstream.url(), "");
    weir.rewrite_config(&text.replace("ttl: 60s", "ttl: 90s"));
    // It may be read again at any time, because it is followed.
    let seen = |expected: &str| {
        let difference = difference();
        let lines = difference["lines"].as_array().unwrap().clone();
        lines.is_empty()
            || lines.iter().any(|line| line["kind"] == expected && line["text"].as_str().unwrap().contains("ttl"))
    };
    assert!(seen("-") && seen("+"));
    let overview = || viewer.json("overview");
    wait::until(DEADLINE, "the reload", || overview()["last_reload"]["refused"] == false);
    assert_eq!(overview()["digest"], viewer.json("config")["digest"]);
    for (file, status, says) in [
        (text.replace("upstream: app, cache", "upstream: apq, cache"), 422, "did you mean `app`?"),
        ("console: {token: canary-in-a-broken-file}\nlisten: [\n".to_owned(), 422, "weir.yaml:"),
    ] {
        weir.rewrite_config(&file);
        let refused = viewer.get("/console/api/config/difference");
        assert_eq!(refused.status(), status, "{}", refused.text());
        assert!(refused.text().contains(says) && !refused.text().contains("canary"), "{}", refused.text());
    }
    std::fs::remove_file(weir.config_path()).unwrap();
    let refused = viewer.get("/console/api/config/difference");
    assert!(refused.status() == 500 && refused.text().contains("cannot read"), "{}", refused.text());
}

#[test]
fn a_difference_shows_no_secret() {
    let (upstream, weir, viewer) = start("");
    let text = everything(&upstream.url(), "");
    let wrong = text.replace("listen: 127.0.0.1:0", "listen: [127.0.0.1:0, 192.0.2.1:1]");
    weir.rewrite_config(&wrong.replace("canary-redis@", "canary-another@").replace("canary-match", "canary-other"));
    let lines = viewer.json("config/difference");
    assert!(
        lines["lines"].as_array().is_some_and(|lines| !lines.is_empty()),
        "an address that is not of this machine is never in force"
    );
    assert!(!lines.to_string().contains("canary"), "{lines}");
}

#[test]
fn who_is_refused_most_is_shown_without_what_may_be_secret() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = weir()
        .config(format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\nupstreams: {{u: {{targets: [{}]}}}}\nlimits:\n  \
             per_client: {{key: client_ip, algorithm: fixed_window, quota: 1, window: 1h}}\n  \
             per_key: {{key: ['header:X-Key', client_ip], algorithm: fixed_window, quota: 1, window: 1h}}\n\
             routes:\n  - {{match: {{path: /client}}, upstream: u, limits: [per_client]}}\n  \
             - {{match: {{path: /key}}, upstream: u, limits: [per_key]}}\n",
            upstream.url()
        ))
        .start();
    let viewer = Viewer::of(&weir);
    assert_eq!(viewer.json("limits")["refused"], json!([]));
    for _ in 0..30 {
        weir.get("/client");
    }
    for _ in 0..30 {
        weir.request("GET", "/key", &[("X-Key", "canary-key")], "");
    }
    // Many keys that are refused once do not push out those that are refused often.
    for number in 0..200 {
        let key = format!("canary-{number}");
        for _ in 0..2 {
            weir.request("GET", "/key", &[("X-Key", &key)], "");
        }
    }
    let shown = viewer.json("limits");
    assert!(!shown.to_string().contains("canary"), "{shown}");
    let refused = shown["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 20);
    let client = named(&shown["refused"], "limit", "per_client");
    assert_eq!(client["key"], "127.0.0.1");
    assert!(refused.iter().any(|one| one["key"] == "header x-key, 127.0.0.1"), "{shown}");
    // The hash of a value that somebody suspects is found with it.
    let looked = viewer.json("limits?key=127.0.0.1&limit=per_client");
    assert_eq!(looked["limits"][0]["hash"], client["hash"]);
    assert_eq!(shown["store"], Value::Null);
}
