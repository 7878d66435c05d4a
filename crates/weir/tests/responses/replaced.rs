//! What a page in place of an error leaves alone: the failed upstream, the request's time, its client, fields that others act on.

use testkit::{DEADLINE, Gate, RawClient, Upstream, Weir, ports::Port, responder, wait};

use super::metric;

const BROWSER: (&str, &str) = ("Accept", "text/html,application/xml;q=0.9,*/*;q=0.8");
const PROGRAM: (&str, &str) = ("Accept", "application/json");

/// A gateway with an upstream whose status is the path, and pages of another. `upstream` and `route` are more keys of the upstream and of the route.
fn gateway(upstream: &Upstream, pages: &Upstream, more: &str, route: &str) -> Weir {
    let yaml = format!(
        "listen: 127.0.0.1:0
admin: 127.0.0.1:0
workers: 1
limits: {{few: {{algorithm: fixed_window, quota: 1, window: 1h}}}}
upstreams:
  u: {{targets: [{}], eject: none, retry: none{more}}}
  pages: {{targets: [{}], retry: none, timeouts: {{first_byte: 1h, total: none}}}}
  dead: {{targets: [\"http://{}\"], retry: none}}
defaults:
  errors: {{4xx: {{upstream: pages, of: upstream}}, 5xx: {{upstream: pages}}}}
routes:
  - {{match: {{path: /dead}}, upstream: dead}}
  - {{match: {{path: /none/*}}, upstream: u, errors: none, rewrite: {{prefix: /}}}}
  - {{match: {{path: /few}}, respond: {{body: x}}, limits: [few]}}
  - {{match: {{path: /*}}, upstream: u{route}}}
",
        upstream.url(),
        pages.url(),
        Port::free().address()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn upstream() -> Upstream {
    Upstream::start(|conn, request| {
        let status: u16 = request.head.target()[1..].parse().unwrap();
        let fields = [
            ("Cache-Control", "no-store"),
            ("Expires", "0"),
            ("Vary", "X-Tenant"),
            ("Retry-After", "7"),
            ("Set-Cookie", "a=b"),
            ("ETag", "\"1\""),
        ];
        conn.respond(status, &fields, format!("own {status}"))
    })
}

fn pages() -> Upstream {
    Upstream::start(|conn, _| conn.respond(200, &[("Content-Type", "text/html")], "a page"))
}

fn held(gate: &Gate) -> Upstream {
    Upstream::start(responder::gated(gate, responder::ok("a page")))
}

fn get(weir: &Weir, path: &str) -> RawClient {
    let mut client = weir.connect();
    client.request("GET", path, &[("Host", "a"), BROWSER], "");
    client
}

#[test]
fn a_page_on_its_way_holds_no_place_at_the_upstream_that_failed() {
    let gate = Gate::new();
    let (upstream, pages) = (upstream(), held(&gate));
    let weir = gateway(&upstream, &pages, ", max_in_flight: 1, queue: none", "");
    let mut client = get(&weir, "/404");
    pages.wait_for_requests(1);
    assert_eq!(weir.get("/200").status(), 200, "its only place is free");
    gate.open();
    assert_eq!(client.read_response().text(), "a page");
}

#[test]
fn a_page_that_does_not_come_leaves_the_problem_with_the_status() {
    let gate = Gate::new();
    let (upstream, pages) = (upstream(), held(&gate));
    let weir = gateway(&upstream, &pages, ", timeouts: {total: 300ms}", "");
    let response = get(&weir, "/404").read_response();
    assert_eq!((response.status(), response.field("content-type")), (404, Some("application/problem+json")));
    assert_eq!(response.field("retry-after"), Some("7"));
    let problem: serde_json::Value = serde_json::from_str(response.text()).unwrap();
    assert_eq!((&problem["status"], &problem["title"]), (&404.into(), &"Not Found".into()));
    assert_eq!(problem["request_id"].as_str(), response.field("x-request-id"));
    // Without a total timeout the page has a limit of its own.
    let response = get(&weir, "/dead").read_response();
    assert_eq!((response.status(), response.field("content-type")), (502, Some("application/problem+json")));
    wait::until(DEADLINE, "the end of both requests", || pages.request_count() == 2);
}

#[test]
fn a_page_for_a_client_that_left_is_not_waited_for() {
    let gate = Gate::new();
    let (upstream, pages) = (upstream(), held(&gate));
    let weir = gateway(&upstream, &pages, ", timeouts: {total: none}", "");
    for (count, path) in [(1, "/404"), (2, "/dead")] {
        let client = get(&weir, path);
        pages.wait_for_requests(count);
        drop(client);
        let at_pages = format!("upstream_target_in_flight{{upstream=\"pages\",target=\"{}\"}} 0", pages.address());
        wait::until(DEADLINE, "the end of the request for the page", || {
            weir.admin_get("/metrics").text().contains(&at_pages)
        });
    }
    let gone = "request_errors_total{fault=\"client\",reason=\"client_disconnected\"}";
    wait::until(DEADLINE, "the client's fault", || metric(&weir, gone) == 1);
    gate.open();
    assert_eq!(weir.get("/200").status(), 200);
}

#[test]
fn edits_of_the_route_hold_and_what_caches_act_on_stays() {
    let (upstream, pages) = (upstream(), pages());
    let route =
        ", headers: {response: {set: {X-Set: \"1\", Content-Type: a/b}, add: {X-Add: \"2\"}, remove: [Set-Cookie]}}";
    let weir = gateway(&upstream, &pages, "", route);
    let page = get(&weir, "/404").read_response();
    assert_eq!((page.status(), page.text()), (404, "a page"));
    assert_eq!(page.head.all("content-type"), ["text/html"]);
    for (name, value) in [
        ("x-set", Some("1")),
        ("x-add", Some("2")),
        ("set-cookie", None),
        ("cache-control", Some("no-store")),
        ("expires", Some("0")),
        ("retry-after", Some("7")),
        ("etag", None),
    ] {
        assert_eq!(page.field(name), value, "{name}");
    }
    assert_eq!(page.head.all("vary"), ["X-Tenant", "Accept"]);
}

#[test]
fn responses_that_accept_selects_say_so() {
    let (upstream, pages) = (upstream(), pages());
    let weir = gateway(&upstream, &pages, "", "");
    for (path, selects) in
        [("/404", true), ("/dead", true), ("/200", false), ("/500", false), ("/none/404", false), ("/few", false)]
    {
        for accept in [BROWSER, PROGRAM] {
            let response = weir.request("GET", path, &[accept], "");
            let selects = selects || (path == "/few" && response.status() == 429);
            assert_eq!(response.head.all("vary").contains(&"Accept"), selects, "{path} {accept:?}");
        }
    }
}

#[test]
fn a_limit_that_refuses_has_its_page_too() {
    let (upstream, pages) = (upstream(), pages());
    let weir = gateway(&upstream, &pages, "", "");
    assert_eq!(weir.get("/few").status(), 200);
    let mut client = weir.connect();
    for (accept, expected) in [(BROWSER, "text/html"), (PROGRAM, "application/problem+json"), (BROWSER, "text/html")] {
        client.request("GET", "/few", &[("Host", "a"), accept], "");
        let response = client.read_response();
        assert_eq!((response.status(), response.field("content-type")), (429, Some(expected)));
        assert!(
            response.field("retry-after").is_some() && response.field("ratelimit").is_some(),
            "{:?}",
            response.head
        );
    }
}
