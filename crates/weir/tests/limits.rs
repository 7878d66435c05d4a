//! Rate limits, end to end: the program, its file or environment, and clients that count what they get.
//!
//! Rates are so low that nothing comes back while a test runs; where something must, the test waits for it.

use std::net::IpAddr;
use std::time::Duration;

use testkit::{Gate, Message, RawClient, Signal, Upstream, Weir, WeirBuilder, responder, wait};

const DEADLINE: Duration = Duration::from_secs(20);

fn builder() -> WeirBuilder {
    Weir::builder(env!("CARGO_BIN_EXE_weir"))
}

/// A gateway of its own responds with these limits on every route.
fn yaml(top: &str, limits: &str, names: &str) -> String {
    format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\n{top}\nlimits:\n{limits}\ndefaults: {{limits: [{names}]}}\nroutes:\n  \
         - name: a\n    match: {{path: /a, methods: [GET, POST]}}\n    respond: {{status: 200, body: a}}\n  \
         - match: {{path: /free}}\n    limits: []\n    respond: {{status: 200, body: free}}\n"
    )
}

fn gateway(top: &str, limits: &str, names: &str) -> Weir {
    builder().config(yaml(top, limits, names)).start()
}

fn get(client: &mut RawClient, path: &str, fields: &[(&str, &str)]) -> Message {
    client.request("GET", path, fields, "");
    client.read_response()
}

/// How many of so many requests pass; the others must be refused.
fn admitted(client: &mut RawClient, count: usize, fields: &[(&str, &str)]) -> usize {
    let statuses: Vec<u16> = (0..count).map(|_| get(client, "/a", fields).status()).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    statuses.iter().filter(|status| **status == 200).count()
}

#[test]
fn the_contract_of_the_environment_mode() {
    let weir = builder().start();
    let mut client = weir.connect();
    let first = client.get("/limited");
    assert_eq!((first.status(), first.text()), (200, r#"{"ok":true}"#));
    assert_eq!(first.field("ratelimit-policy"), Some(r#""client";q=40;w=2, "global";q=100;w=1"#));
    assert_eq!(first.field("ratelimit"), Some(r#""client";r=39;t=1, "global";r=99;t=1"#));
    let mut refused = None;
    wait::until(DEADLINE, "a refusal", || {
        let response = client.get("/limited");
        refused = (response.status() == 429).then_some(response);
        refused.is_some()
    });
    let refused = refused.unwrap();
    assert_eq!(refused.field("content-type"), Some("application/problem+json"));
    assert!(refused.text().contains(r#""error":"too_many_requests""#), "{}", refused.text());
    assert!(serde_json::from_str::<serde_json::Value>(refused.text()).is_ok(), "{}", refused.text());
    for (name, value) in [
        ("retry-after", "1"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-limit", "40"),
        ("ratelimit-scope", "client"),
        ("ratelimit-policy", r#""client";q=40;w=2"#),
        ("ratelimit", r#""client";r=0;t=1"#),
    ] {
        assert_eq!(refused.field(name), Some(value), "{name}");
    }
    // Exempt, also now.
    for path in ["/healthz", "/gates"] {
        let response = client.get(path);
        assert_eq!((response.status(), response.field("ratelimit")), (200, None), "{path}");
    }
    // A path that does not exist is no way around.
    assert_eq!(wait_for(&mut client, "/nothing", 429), 429);
}

/// Sends requests until the status comes.
fn wait_for(client: &mut RawClient, path: &str, status: u16) -> u16 {
    wait::until(DEADLINE, "the status", || client.get(path).status() == status);
    status
}

#[test]
fn a_refusal_by_the_client_bucket_takes_no_global_token() {
    let weir = builder()
        .env("CLIENT_RPS", "0.001")
        .env("CLIENT_BURST", "3")
        .env("GLOBAL_RPS", "0.001")
        .env("GLOBAL_BURST", "5")
        .start();
    let get = |client: &mut RawClient| {
        let response = client.get("/limited");
        (response.status(), response.field("ratelimit-scope").map(str::to_owned))
    };
    let mut one = weir.connect();
    let responses: Vec<_> = (0..10).map(|_| get(&mut one)).collect();
    assert_eq!(responses.iter().filter(|response| response.0 == 200).count(), 3);
    assert!(responses[3..].iter().all(|response| *response == (429, Some("client".into()))), "{responses:?}");
    let mut other = RawClient::connect_from(IpAddr::from([127, 0, 0, 7]), weir.addr());
    let responses: Vec<_> = (0..3).map(|_| get(&mut other)).collect();
    assert_eq!(responses, [(200, None), (200, None), (429, Some("global".into()))]);
}

#[test]
fn switched_off_by_the_environment() {
    let weir = builder().env("RATE_LIMIT_ENABLED", "false").env("CLIENT_BURST", "1").start();
    let mut client = weir.connect();
    for _ in 0..50 {
        let response = client.get("/limited");
        assert_eq!((response.status(), response.field("ratelimit")), (200, None));
    }
}

#[test]
fn an_invented_x_forwarded_for_evades_nothing() {
    let limit = "  l: {rate: 1/h, burst: 3}";
    let weir = gateway("", limit, "l");
    let mut client = weir.connect();
    let passed = (0..10).filter(|n| {
        let invented = format!("10.0.0.{n}");
        get(&mut client, "/a", &[("X-Forwarded-For", &invented), ("Forwarded", &format!("for={invented}"))]).status()
            == 200
    });
    assert_eq!(passed.count(), 3);

    // Behind a trusted proxy it is the first hop that the proxy vouches for, whatever stands to the left of it.
    let weir = gateway("trusted_proxies: [127.0.0.0/8]", limit, "l");
    let mut client = weir.connect();
    let passed = (0..10).filter(|n| {
        let hops = format!("10.0.0.{n}, 203.0.113.9");
        get(&mut client, "/a", &[("X-Forwarded-For", &hops)]).status() == 200
    });
    assert_eq!(passed.count(), 3);
    assert_eq!(admitted(&mut client, 5, &[("X-Forwarded-For", "203.0.113.10")]), 3);
}

#[test]
fn ipv6_addresses_of_one_64_share_a_count() {
    let weir = gateway("trusted_proxies: [127.0.0.0/8]", "  l: {rate: 1/h, burst: 4}", "l");
    let mut client = weir.connect();
    let mut get = |address: &str| get(&mut client, "/a", &[("X-Forwarded-For", address)]).status();
    for host in 1..=4 {
        assert_eq!(get(&format!("2001:db8:0:1:{host}::{host}")), 200);
    }
    assert_eq!(get("2001:db8:0:1:ffff::"), 429);
    assert_eq!(get("[2001:db8:0:1::9]:443"), 429);
    assert_eq!(get("2001:db8:0:2::1"), 200);
}

#[test]
fn a_fixed_window_per_key_with_the_responses_of_the_redis_limiter() {
    let limit = |quota: u32| {
        format!(
            "  per_key:\n    algorithm: fixed_window\n    key: header:X-API-KEY\n    quota: {quota}\n    window: 1h\n    \
             missing_key: {{status: 400, body: \"missing api key (X-API-KEY)\"}}\n    on_limit: {{status: 429, body: rate limit exceeded}}"
        )
    };
    let weir = gateway("", &limit(3), "per_key");
    let mut client = weir.connect();
    for key in ["one", "two"] {
        assert_eq!(admitted(&mut client, 5, &[("x-api-key", key)]), 3, "{key}");
    }
    let refused = get(&mut client, "/a", &[("X-API-KEY", "one")]);
    assert_eq!((refused.status(), refused.text()), (429, "rate limit exceeded"));
    let seconds: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=3600).contains(&seconds), "{seconds}");
    for fields in [&[][..], &[("X-API-KEY", "")], &[("X-API-KEY", "one"), ("x-api-key", "two")]] {
        let missing = get(&mut client, "/a", fields);
        assert_eq!((missing.status(), missing.text()), (400, "missing api key (X-API-KEY)"), "{fields:?}");
        assert_eq!(missing.field("retry-after"), None);
    }
    let weir = gateway("", &limit(0), "per_key");
    let mut client = weir.connect();
    for _ in 0..10 {
        let response = client.get("/a");
        assert_eq!(
            (response.status(), response.field("ratelimit")),
            (200, None),
            "0 switches it off, the demand for a key too"
        );
    }
}

#[test]
fn a_missing_key_can_be_shared_or_skipped() {
    let weir = gateway(
        "",
        "  s: {algorithm: sliding_window, key: query:k, quota: 2, window: 1h}\n  \
           n: {algorithm: sliding_window, key: [route, header:x-n], quota: 1, window: 1h, missing_key: skip}",
        "s, n",
    );
    let mut client = weir.connect();
    let mut get = |path: &str, fields: &[(&str, &str)]| get(&mut client, path, fields).status();
    assert_eq!([get("/a", &[]), get("/a?x=1", &[]), get("/a", &[])], [200, 200, 429]);
    assert_eq!([get("/a?k=1", &[]), get("/a?%6b=%31", &[]), get("/a?k=1", &[])], [200, 200, 429]);
    assert_eq!([get("/a?k=2", &[("X-N", "1")]), get("/a?k=3", &[("X-N", "1")]), get("/a?k=3", &[])], [200, 429, 200]);
}

#[test]
fn all_limits_of_a_request_are_charged_or_none() {
    let weir = gateway(
        "",
        "  narrow: {algorithm: fixed_window, key: header:x-n, quota: 2, window: 1h}\n  \
           wide: {algorithm: sliding_window, key: header:x-w, quota: 5, window: 1h}\n  \
           all: {key: global, rate: 1/h, burst: 9}",
        "wide, narrow, all",
    );
    let mut client = weir.connect();
    let mut pass = |narrow: &str, wide: &str| admitted(&mut client, 10, &[("x-n", narrow), ("x-w", wide)]);
    // Each time the narrow one refuses: the wide one, which comes before, keeps what is left.
    assert_eq!(pass("1", "1"), 2);
    assert_eq!(pass("2", "1"), 2);
    assert_eq!(pass("3", "1"), 1);
    assert_eq!(pass("3", "2"), 1);
    assert_eq!(pass("4", "2"), 2);
    assert_eq!(pass("5", "3"), 1, "of the global 9");
    let state = weir.admin_get("/limits?limit=all");
    assert!(state.text().contains(r#""remaining":0"#), "{}", state.text());
}

#[test]
fn keys_beyond_max_keys_share_one_count() {
    let weir = gateway("", "  l: {algorithm: fixed_window, key: header:x-k, quota: 3, window: 1h, max_keys: 2}", "l");
    let mut client = weir.connect();
    let mut pass = |key: &str, count| admitted(&mut client, count, &[("x-k", key)]);
    assert_eq!((pass("1", 1), pass("2", 1)), (1, 1));
    assert_eq!((pass("3", 2), pass("4", 2), pass("5", 2)), (2, 1, 0), "the newcomers' three");
    assert_eq!((pass("1", 9), pass("2", 9)), (2, 2), "those who were there keep theirs");
    let metrics = weir.admin_get("/metrics").text().to_owned();
    assert!(metrics.contains("rate_limit_keys{limit=\"l\"} 2\n"), "{metrics}");
}

#[test]
fn workers_share_the_counts() {
    let weir = gateway(
        "workers: 4",
        "  l: {algorithm: sliding_window, quota: 1000, window: 1h}\n  g: {key: global, rate: 1/h, burst: 900}",
        "l, g",
    );
    let passed: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let mut client = weir.connect();
                scope.spawn(move || admitted(&mut client, 200, &[]))
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(passed, 900);
    let metrics = weir.admin_get("/metrics").text().to_owned();
    for line in [
        "rate_limit_allowed_total{limit=\"g\"} 900\n",
        "rate_limit_allowed_total{limit=\"l\"} 900\n",
        "rate_limit_dropped_total{limit=\"g\"} 700\n",
        "rate_limit_dropped_total{limit=\"l\"} 0\n",
        "rate_limit_keys{limit=\"l\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
}

#[test]
fn a_place_in_flight_comes_back_with_the_end_of_the_exchange() {
    let gate = Gate::new();
    let upstream = Upstream::start(responder::gated(&gate, responder::ok("done")));
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nlimits:\n  c: {{algorithm: concurrency, key: global, quota: 2}}\n\
         upstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u, limits: [c]}}]\n",
        upstream.url()
    );
    let weir = builder().config(yaml).start();
    let (mut one, mut two, mut three) = (weir.connect(), weir.connect(), weir.connect());
    one.request("GET", "/1", &[], "");
    two.request("GET", "/2", &[], "");
    upstream.wait_for_requests(2);
    let refused = three.get("/3");
    assert_eq!((refused.status(), refused.field("retry-after")), (429, Some("1")));
    assert_eq!(refused.field("ratelimit-policy"), Some(r#""c";q=2;qu="concurrent-requests""#));
    assert_eq!(refused.field("ratelimit"), Some(r#""c";r=0;t=1"#));
    // One client disconnects: its place is free.
    one.reset();
    wait::until(DEADLINE, "the place to come back", || {
        weir.admin_get("/limits?limit=c").text().contains(r#""remaining":1"#)
    });
    three.request("GET", "/3", &[], "");
    upstream.wait_for_requests(3);
    gate.open();
    assert_eq!((two.read_response().text(), three.read_response().text()), ("done", "done"));
    wait::until(DEADLINE, "all places", || weir.admin_get("/limits?limit=c").text().contains(r#""remaining":2"#));
}

#[test]
fn limits_survive_a_reload_unless_they_change() {
    let file = |body: &str, quota: u32| {
        yaml(
            "",
            &format!(
                "  same: {{rate: 1/h, burst: 3, on_limit: {{body: {body}}}}}\n  \
                   other: {{algorithm: fixed_window, quota: {quota}, window: 1h}}"
            ),
            "same, other",
        )
    };
    let weir = builder().config(file("before", 2)).start();
    let mut client = weir.connect();
    assert_eq!(admitted(&mut client, 5, &[]), 2, "the window's");
    weir.rewrite_config(&file("after", 9));
    weir.signal(Signal::HUP);
    weir.wait_for_line("the reload", |line| line.contains("configuration reloaded").then_some(()));
    // The bucket has one left, the window starts anew.
    wait::until(DEADLINE, "the new body", || {
        let response = client.get("/a");
        response.status() == 429 && response.text() == "after"
    });
    let state = weir.admin_get("/limits?key=127.0.0.1");
    let state: serde_json::Value = serde_json::from_str(state.text()).unwrap();
    assert_eq!(
        (&state["limits"][0]["state"]["remaining"], &state["limits"][1]["state"]["remaining"]),
        (&0.into(), &8.into())
    );
}

#[test]
fn what_matches_no_route_is_limited_by_the_gateways_own() {
    let weir = gateway("", "  l: {rate: 1/h, burst: 3}\n  m: {rate: 1/h, burst: 1}", "l");
    let mut client = weir.connect();
    let statuses: Vec<u16> = ["/x", "/y", "/z", "/x"].iter().map(|path| client.get(path).status()).collect();
    assert_eq!(statuses, [404, 404, 404, 429]);
    client.request("DELETE", "/a", &[], "");
    assert_eq!(client.read_response().status(), 429);
    assert_eq!(client.get("/free").status(), 200);
    let mut other = RawClient::connect_from(IpAddr::from([127, 0, 0, 9]), weir.addr());
    other.request("DELETE", "/a", &[], "");
    let response = other.read_response();
    assert_eq!((response.status(), response.field("allow").is_some()), (405, true));
    assert_eq!(response.field("ratelimit").map(|text| &text[..8]), Some(r#""l";r=2;"#));
}

#[test]
fn a_trusted_peer_says_what_a_request_costs() {
    let limit = "  l: {rate: 1/h, burst: 10, cost: {header: X-Cost}}";
    let get = |weir: &Weir, costs: &[&str]| -> Vec<u16> {
        let mut client = weir.connect();
        costs.iter().map(|cost| get(&mut client, "/a", &[("X-Cost", cost)]).status()).collect()
    };
    let trusting = gateway("trusted_proxies: [127.0.0.0/8]", limit, "l");
    // 4 + 1 + 1 + 1, then 4 is too much, and 3 is not.
    assert_eq!(get(&trusting, &["4", "0", "-5", "no", "4", "3", "1"]), [200, 200, 200, 200, 429, 200, 429]);
    // What is not a number is 1, and a number that no counter holds is more than any limit.
    let trusting = gateway("trusted_proxies: [127.0.0.0/8]", limit, "l");
    assert_eq!(
        get(&trusting, &["18446744073709551616", "99999999999999999999999", "+9", "9 ", "1"]),
        [429, 429, 200, 200, 429]
    );
    let strict = gateway("", limit, "l");
    assert_eq!(get(&strict, &["9", "9", "9"]), [200, 200, 200]);
}

#[test]
fn header_families_are_chosen_per_limit() {
    let weir = gateway(
        "",
        "  silent: {algorithm: fixed_window, quota: 100, window: 1h, headers: []}\n  \
           old: {algorithm: fixed_window, quota: 2, window: 90s, headers: [legacy, scope]}",
        "silent, old",
    );
    let mut client = weir.connect();
    let first = client.get("/a");
    assert_eq!((first.field("ratelimit"), first.field("ratelimit-policy")), (None, None));
    assert_eq!((first.field("ratelimit-limit"), first.field("ratelimit-remaining")), (Some("2"), Some("1")));
    let reset: u64 = first.field("ratelimit-reset").unwrap().parse().unwrap();
    assert!((1..=91).contains(&reset), "{reset}");
    assert_eq!(first.field("ratelimit-scope"), None, "nothing was refused");
    assert_eq!(client.get("/a").status(), 200);
    let refused = client.get("/a");
    assert_eq!((refused.status(), refused.field("ratelimit-scope")), (429, Some("old")));
    assert_eq!(refused.field("ratelimit-remaining"), Some("0"));
}

#[test]
fn a_refused_request_leaves_its_connection_in_order() {
    let weir = gateway("workers: 1", "  l: {rate: 1/h, burst: 1}", "l");
    let mut client = weir.connect();
    assert_eq!(client.get("/a").status(), 200);
    client.send(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloHEAD /a HTTP/1.1\r\nHost: a\r\n\r\nGET /free HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(client.read_response().status(), 429);
    let head = client.read_response_to("HEAD");
    assert_eq!((head.status(), head.body.len()), (429, 0));
    assert_eq!(client.read_response().text(), "free");
}

#[test]
fn an_operator_looks_up_a_key_and_resets_it() {
    let weir = gateway(
        "",
        "  ip: {rate: 1/h, burst: 2}\n  key: {algorithm: fixed_window, key: [header:x-k, route], quota: 5, window: 1h}",
        "ip, key",
    );
    let mut client = weir.connect();
    assert_eq!(admitted(&mut client, 3, &[("x-k", "1")]), 2);
    let get = |target: &str| -> serde_json::Value {
        let response = weir.admin_get(target);
        assert_eq!(response.status(), 200, "{}", response.text());
        serde_json::from_str(response.text()).unwrap()
    };
    let all = get("/limits");
    assert_eq!((&all["limits"][0]["name"], &all["limits"][0]["keys"]), (&"ip".into(), &1.into()));
    let found = get("/limits?key=127.0.0.1&limit=ip");
    assert_eq!(
        (&found["limits"][0]["state"]["remaining"], &found["limits"][0]["state"]["allowed"]),
        (&0.into(), &false.into())
    );
    let found = get("/limits?key=1&key=a&limit=key");
    assert_eq!(found["limits"][0]["state"]["remaining"], 3);
    let other = get("/limits?key=203.0.113.9&limit=ip");
    assert_eq!(other["limits"][0]["state"]["in_use"], false);
    for (wrong, why) in [
        ("/limits?key=x&limit=ip", "client address"),
        ("/limits?limit=nobody", "no limit `nobody`"),
        ("/limits?kee=1", "not a parameter of this page"),
        ("/limits?limit=key&key=1", "`key` 2 times"),
    ] {
        let response = weir.admin_get(wrong);
        assert_eq!(response.status(), 422, "{wrong}");
        assert!(response.text().contains(why), "{}", response.text());
    }
    let mut admin = RawClient::connect(weir.admin_addr());
    admin.request("DELETE", "/limits?key=127.0.0.1", &[("Host", "localhost")], "");
    assert_eq!(admin.read_response().text(), r#"{"reset":["ip"]}"#);
    assert_eq!(admitted(&mut client, 3, &[("x-k", "1")]), 2);
    admin.request("DELETE", "/limits", &[("Host", "localhost")], "");
    assert_eq!(admin.read_response().status(), 422);
}

#[test]
fn a_cross_origin_page_can_read_its_refusal() {
    let yaml = "listen: [127.0.0.1:0]\nlimits:\n  l: {rate: 1/h, burst: 1}\nroutes:\n  - match: {path: /a}\n    limits: [l]\n    \
                cors: {origins: ['https://a.example'], methods: [GET]}\n    respond: {body: a}\n";
    let weir = builder().config(yaml).start();
    let mut client = weir.connect();
    let origin = ("Origin", "https://a.example");
    for status in [200, 429] {
        let response = get(&mut client, "/a", &[origin]);
        assert_eq!(response.status(), status);
        assert_eq!(response.field("access-control-allow-origin"), Some("https://a.example"));
    }
    // A preflight costs nothing: the browser sends it without the user's doing.
    for _ in 0..3 {
        client.request("OPTIONS", "/a", &[origin, ("Access-Control-Request-Method", "GET")], "");
        let response = client.read_response();
        assert_eq!((response.status(), response.field("ratelimit")), (204, None));
    }
}
