//! Weighted splits of a route between upstreams, with their neighbours: fallback, cache, limits, HTTP/2 over TLS, reload, metrics and log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use testkit::http::Message;
use testkit::{Certificates, DEADLINE, RawClient, Upstream, Weir, responder, wait};

/// What stands at the level of the file, of the route, and of the listener.
#[derive(Default)]
struct Parts<'a> {
    top: &'a str,
    split: &'a str,
    route: &'a str,
    listen: &'a str,
}

fn yaml(one: &Upstream, two: &Upstream, parts: &Parts<'_>) -> String {
    let Parts { top, split, route, listen } = parts;
    let listen = if listen.is_empty() { "127.0.0.1:0" } else { listen };
    format!(
        "listen: [{listen}]\nadmin: 127.0.0.1:0\nworkers: 2\n{top}upstreams:\n  stable: {{targets: [{}], eject: none, retry: {{extra_attempts: 0}}}}\n  \
         canary: {{targets: [{}], eject: none, retry: {{extra_attempts: 0}}}}\nroutes:\n  - name: shop\n    match: {{path: /*}}\n    split: {{{split}}}\n{route}",
        one.url(),
        two.url()
    )
}

fn start(one: &Upstream, two: &Upstream, parts: &Parts<'_>) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml(one, two, parts)).start()
}

fn upstreams() -> (Upstream, Upstream) {
    (Upstream::start(responder::ok("stable")), Upstream::start(responder::ok("canary")))
}

/// Who responded, and how often.
fn counted(responses: impl Iterator<Item = Message>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for response in responses {
        assert_eq!(response.status(), 200);
        *counts.entry(response.text().to_owned()).or_default() += 1;
    }
    counts
}

fn with_cookie(client: &mut RawClient, cookie: &str) -> Message {
    client.request("GET", "/", &[("Cookie", cookie)], "");
    client.read_response()
}

#[test]
fn requests_are_drawn_by_weight_and_counted_by_upstream() {
    let (one, two) = upstreams();
    let weir = start(&one, &two, &Parts { split: "upstreams: {stable: 3, canary: 1}", ..Parts::default() });
    let mut client = weir.connect();
    let counts = counted((0..2_000).map(|_| client.get("/")));
    // Six standard deviations round 500.
    assert!((385..=615).contains(&counts["canary"]), "{counts:?}");
    for (name, upstream) in [("stable", &one), ("canary", &two)] {
        let line = format!(
            "http_requests_total{{route=\"shop\",upstream=\"{name}\",status=\"200\"}} {}",
            upstream.requests().len()
        );
        wait::until(DEADLINE, &line, || weir.admin_get("/metrics").text().contains(&line));
    }
    assert!(weir.admin_get("/routes").text().contains("stable 75 %, canary 25 %"));
}

#[test]
fn a_weight_of_nothing_gets_nothing() {
    let (one, two) = upstreams();
    let weir = start(&one, &two, &Parts { split: "upstreams: {stable: 1, canary: 0}", ..Parts::default() });
    let mut client = weir.connect();
    assert_eq!(counted((0..200).map(|_| client.get("/"))), HashMap::from([("stable".to_owned(), 200)]));
}

#[test]
fn a_cookie_keeps_a_session_where_it_is_on_every_connection_worker_and_after_a_reload() {
    let (one, two) = upstreams();
    let by_cookie = |weights: &str| {
        yaml(&one, &two, &Parts { split: &format!("upstreams: {{{weights}}}, by: cookie:session"), ..Parts::default() })
    };
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(by_cookie("stable: 50, canary: 50")).start();
    let sessions: Vec<String> = (0..60).map(|number| format!("theme=dark; session=s{number}")).collect();
    let sides = || -> Vec<String> {
        // A connection of its own for each: they are on both workers.
        sessions.iter().map(|cookie| with_cookie(&mut weir.connect(), cookie).text().to_owned()).collect()
    };
    let before = sides();
    assert!(before.iter().any(|side| side == "stable") && before.iter().any(|side| side == "canary"));
    assert_eq!(sides(), before);
    // Whoever had the new version keeps it when it gets a larger share.
    weir.rewrite_config(&by_cookie("stable: 20, canary: 80"));
    let addr = weir.admin_addr();
    let mut admin = RawClient::connect(addr);
    admin.request("POST", "/reload", &[("Host", &addr.to_string())], "");
    assert_eq!(admin.read_response().status(), 200);
    let shown = "stable 20 %, canary 80 % by cookie:session";
    wait::until(DEADLINE, "the reload is in force", || weir.admin_get("/routes").text().contains(shown));
    wait::until(DEADLINE, "both workers follow it", || {
        let after = sides();
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!(before.iter().zip(&after).all(|(before, after)| before != "canary" || after == "canary"));
        moved > 0 && sides() == after
    });
}

#[test]
fn clients_are_kept_by_address_where_nothing_else_says_who_they_are() {
    let (one, two) = upstreams();
    let split = "upstreams: {stable: 1, canary: 1}, by: header:X-User";
    let weir = start(&one, &two, &Parts { top: "trusted_proxies: [127.0.0.0/8]\n", split, ..Parts::default() });
    let from = |address: &str, user: Option<&str>| {
        let fields = [("X-Forwarded-For", address), ("X-User", user.unwrap_or_default())];
        let fields = if user.is_some() { &fields[..] } else { &fields[..1] };
        weir.request("GET", "/", fields, "").text().to_owned()
    };
    let sides: Vec<String> = (0..40).map(|host| from(&format!("192.0.2.{host}"), None)).collect();
    assert!(sides.iter().any(|side| side == "stable") && sides.iter().any(|side| side == "canary"));
    for (host, side) in sides.iter().enumerate() {
        assert_eq!(&from(&format!("192.0.2.{host}"), None), side);
    }
    // The field decides wherever it comes from.
    let user = from("192.0.2.1", Some("ann"));
    assert!((0..20).all(|host| from(&format!("192.0.2.{host}"), Some("ann")) == user));
}

#[test]
fn a_member_that_fails_gives_way_to_the_fallback_and_to_no_other_member() {
    let (one, two) = upstreams();
    let route = "    fallback: [stable]\n";
    let weir = start(&one, &two, &Parts { split: "upstreams: {stable: 0, canary: 1}", route, ..Parts::default() });
    two.stop();
    let response = weir.get("/");
    assert_eq!((response.text(), response.field("x-fallback")), ("stable", Some("stable")));
    let line = "upstream_fallbacks_total{upstream=\"canary\"} 1";
    wait::until(DEADLINE, line, || weir.admin_get("/metrics").text().contains(line));
    // A fallback that was the first choice is not tried a second time.
    let weir = start(&one, &two, &Parts { split: "upstreams: {stable: 1, canary: 0}", route, ..Parts::default() });
    one.set_responder(responder::reset());
    one.forget();
    assert_eq!(weir.get("/").status(), 502);
    assert_eq!(one.requests().len(), 1);
}

#[test]
fn the_log_names_the_upstream_that_took_the_request() {
    let (one, two) = upstreams();
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let top = format!("access_log: {{path: {}}}\n", log.display());
    let parts = Parts { top: &top, split: "upstreams: {stable: 1, canary: 1}", ..Parts::default() };
    let weir = builder.config(yaml(&one, &two, &parts)).start();
    let mut client = weir.connect();
    let counts = counted((0..50).map(|_| client.get("/")));
    wait::until(DEADLINE, "50 lines, by upstream", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines = |name: &str| text.matches(&format!("\"upstream\":\"{name}\"")).count();
        counts.iter().all(|(name, count)| lines(name) == *count) && !text.contains("\"fallback\":true")
    });
}

#[test]
fn a_cache_stands_before_the_split_and_limits_count_what_it_serves() {
    let (one, two) = upstreams();
    let parts = Parts {
        top: "caches: {c: {mode: ttl, ttl: 5m}}\nlimits: {l: {algorithm: fixed_window, key: client_ip, quota: 20, window: 1h}}\n",
        split: "upstreams: {stable: 1, canary: 1}",
        route: "    cache: c\n    limits: [l]\n",
        listen: "",
    };
    let weir = start(&one, &two, &parts);
    let mut client = weir.connect();
    let first = client.get("/a").text().to_owned();
    for _ in 1..20 {
        assert_eq!(client.get("/a").text(), first);
    }
    assert_eq!(one.requests().len() + two.requests().len(), 1);
    assert_eq!(client.get("/a").status(), 429);
}

#[test]
fn http2_over_tls_is_split_alike() {
    let (one, two) = upstreams();
    let certificates = Certificates::localhost();
    let (cert, key) = (certificates.certificate(), certificates.key());
    let listen = format!(
        "{{bind: 127.0.0.1:0, tls: {{certificates: [{{cert: {}, key: {}}}]}}}}, 127.0.0.1:0",
        cert.display(),
        key.display()
    );
    let split = "upstreams: {stable: 1, canary: 1}, by: cookie:session";
    let weir = start(&one, &two, &Parts { split, listen: &listen, ..Parts::default() });
    let plain = weir.addrs(2)[1];
    for number in 0..12 {
        let cookie = format!("session=s{number}");
        // HTTP/2 clients send cookies in several fields, which are one to all that follows.
        let output = Command::new("curl")
            .args(["-sS", "-m", "20", "--http2", "--cacert", certificates.authority().to_str().unwrap()])
            .args(["--resolve", &format!("localhost:{}:127.0.0.1", weir.addr().port())])
            .args(["-H", "Cookie: theme=dark", "-H", &format!("Cookie: {cookie}")])
            .arg(format!("https://localhost:{}/", weir.addr().port()))
            .output();
        let Ok(output) = output else {
            eprintln!("skipped: curl is not installed");
            return;
        };
        let mut client = RawClient::connect_from(IpAddr::V4(Ipv4Addr::LOCALHOST), plain);
        assert_eq!(String::from_utf8_lossy(&output.stdout), with_cookie(&mut client, &cookie).text(), "{output:?}");
    }
}

#[test]
fn the_command_line_says_who_takes_a_request() {
    let file = |split: &str| {
        let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
        let path = builder.dir().join("weir.yaml");
        let text = format!(
            "listen: 127.0.0.1:0\nupstreams: {{stable: {{targets: [http://a/v1]}}, canary: {{targets: [http://b/v2]}}}}\nroutes: [{{match: {{path: /*}}, split: {{{split}}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        (builder, path)
    };
    let explain = |split: &str, more: &[&str]| {
        let (builder, path) = file(split);
        let args = ["routes", path.to_str().unwrap(), "/x"].into_iter().chain(more.iter().copied());
        builder.args(args.map(str::to_owned).collect::<Vec<_>>()).command().stdout
    };
    let weights = "upstreams: {stable: 95, canary: 5}";
    let both = "  forwards to `stable` (95 %) as /v1/x, rewritten\n  forwards to `canary` (5 %) as /v2/x, rewritten";
    let drawn = explain(weights, &[]);
    assert!(drawn.starts_with("`/*`: stable 95 %, canary 5 %\n") && drawn.contains(both), "{drawn}");
    for by in ["client_ip", "cookie:side", "consumer"] {
        assert!(explain(&format!("{weights}, by: {by}"), &[]).contains(both), "{by}");
    }
    let one_of = |text: &str| text.matches("  forwards to `").count() == 1 && !text.contains('%');
    let tail = |text: String| text.split_once('\n').unwrap().1.to_owned();
    assert!(one_of(&tail(explain(&format!("{weights}, by: client_ip"), &["--client", "192.0.2.1"]))));
    assert!(one_of(&tail(explain(&format!("{weights}, by: cookie:side"), &["-H", "Cookie: side=a"]))));
}
