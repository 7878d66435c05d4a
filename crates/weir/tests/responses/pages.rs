//! Pages for errors: from files and from an upstream, for errors of the gateway and, where that is said, of the upstream.

use std::fs;

use testkit::{DEADLINE, Upstream, Weir, ports::Port, responder, wait};

use super::{reload, wrong};

const BROWSER: (&str, &str) = ("Accept", "text/html,application/xml;q=0.9,*/*;q=0.8");

struct Rig {
    weir: Weir,
    upstream: Upstream,
    pages: Upstream,
}

/// A gateway with an upstream whose status is the path, and one that makes pages.
fn rig() -> Rig {
    let upstream = Upstream::start(|conn, request| {
        let status: u16 = request.head.target()[3..].parse().unwrap();
        conn.respond(status, &[("WWW-Authenticate", "Basic"), ("X-Own", "1")], format!("own {status}"))
    });
    let pages = Upstream::start(|conn, request| match request.head.target() {
        "/e/503" => conn.respond(500, &[], "no page"),
        target => conn.respond(200, &[("Content-Type", "text/html")], format!("made for {target}")),
    });
    let dead = Port::free();
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    fs::write(builder.dir().join("404.html"), "<h1>not here</h1>").unwrap();
    fs::write(builder.dir().join("own.json"), "{\"mine\":true}").unwrap();
    let yaml = format!(
        "listen: 127.0.0.1:0
admin: 127.0.0.1:0
workers: 1
caches: {{c: {{mode: ttl}}}}
upstreams:
  u: {{targets: [{}], eject: none, retry: none}}
  pages: {{targets: [{}], retry: none}}
  dead: {{targets: [\"http://{}\"], retry: none}}
defaults:
  errors: {{404: {{file: 404.html}}, 5xx: {{upstream: pages, path: \"/e/{{status}}\"}}}}
routes:
  - {{match: {{path: /dead}}, upstream: dead}}
  - {{match: {{path: /json}}, upstream: dead, errors: {{502: {{file: own.json}}}}}}
  - {{match: {{path: /none}}, upstream: dead, errors: none}}
  - {{match: {{path: /u/*}}, upstream: u}}
  - {{match: {{path: /r/*}}, upstream: u, cache: c, errors: {{404: {{file: 404.html, of: upstream}}, 5xx: {{upstream: pages, path: \"/e/{{status}}\", of: upstream}}, 401: {{file: 404.html, of: upstream}}}}}}
",
        upstream.url(),
        pages.url(),
        dead.address()
    );
    Rig { weir: builder.config(yaml).start(), upstream, pages }
}

#[test]
fn browsers_get_pages_for_the_gateways_own_errors_and_programs_the_problem() {
    let rig = rig();
    let page = rig.weir.request("GET", "/nowhere", &[BROWSER], "");
    assert_eq!((page.status(), page.text()), (404, "<h1>not here</h1>"));
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.field("x-request-id").is_some(), "like every response");
    let made = rig.weir.request("GET", "/dead", &[BROWSER], "");
    assert_eq!((made.status(), made.text()), (502, "made for /e/502"));
    for accept in ["application/json", "*/*", "application/problem+json, text/html;q=0.5"] {
        for path in ["/nowhere", "/dead"] {
            let problem = rig.weir.request("GET", path, &[("Accept", accept)], "");
            assert_eq!(problem.field("content-type"), Some("application/problem+json"), "{accept} {path}");
        }
    }
    assert_eq!(rig.pages.request_count(), 1, "nobody else wanted one");
    let json = rig.weir.request("GET", "/json", &[("Accept", "application/json")], "");
    assert_eq!(
        (json.status(), json.text(), json.field("content-type")),
        (502, "{\"mine\":true}", Some("application/json"))
    );
    let none = rig.weir.request("GET", "/none", &[BROWSER], "");
    assert_eq!(none.field("content-type"), Some("application/problem+json"));
    let mut client = rig.weir.connect();
    client.send("HEAD /nowhere HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n");
    assert_eq!(client.read_response_to("HEAD").status(), 404);
    assert_eq!(client.read_response().text(), "<h1>not here</h1>", "the connection lives on");
}

#[test]
fn errors_of_the_upstream_stay_unless_the_page_says_so() {
    let rig = rig();
    let own = rig.weir.request("GET", "/u/404", &[BROWSER], "");
    assert_eq!((own.status(), own.text()), (404, "own 404"));
    let mut client = rig.weir.connect();
    let mut get = |path: &str| {
        client.request("GET", path, &[("Host", "a"), BROWSER], "");
        client.read_response()
    };
    for (path, text) in [
        ("/r/404", "<h1>not here</h1>"),
        ("/r/500", "made for /e/500"),
        ("/r/401", "<h1>not here</h1>"),
        ("/r/503", ""),
        ("/r/403", "own 403"),
        ("/r/200", "own 200"),
    ] {
        let response = get(path);
        assert_eq!(response.status().to_string(), path[3..], "{path}");
        // Where the page cannot be had, the problem takes its place.
        let is_problem = response.field("content-type") == Some("application/problem+json");
        assert!(response.text() == text || text.is_empty() && is_problem, "{path}: {}", response.text());
        assert_eq!(response.field("x-own").is_some(), text.starts_with("own"), "{path}");
        assert!(response.field("www-authenticate").is_some(), "what clients act on stays: {path}");
    }
    let program = rig.weir.request("GET", "/r/404", &[("Accept", "application/json")], "");
    assert_eq!(program.text(), "own 404");
    assert_eq!(rig.upstream.errors(), Vec::<String>::new());
}

#[test]
fn a_request_with_a_body_gets_its_page_too() {
    let rig = rig();
    let mut client = rig.weir.connect();
    for _ in 0..2 {
        client.request("POST", "/r/404", &[("Host", "a"), BROWSER], "some body");
        assert_eq!(client.read_response().text(), "<h1>not here</h1>");
    }
}

#[test]
fn a_dead_upstream_of_pages_leaves_the_problem() {
    let rig = rig();
    rig.pages.stop();
    let problem = rig.weir.request("GET", "/dead", &[BROWSER], "");
    assert_eq!((problem.status(), problem.field("content-type")), (502, Some("application/problem+json")));
}

#[test]
fn a_changed_file_is_read_at_a_reload() {
    let rig = rig();
    fs::write(rig.weir.dir().join("404.html"), "changed").unwrap();
    reload(&rig.weir);
    wait::until(DEADLINE, "the changed page", || {
        rig.weir.request("GET", "/nowhere", &[BROWSER], "").text() == "changed"
    });
}

#[test]
fn nonsense_is_refused() {
    let upstream = Upstream::start(responder::ok("x"));
    for (pages, message) in [
        ("{200: {file: a.html}}", "`200` is not an error"),
        ("{6xx: {file: a.html}}", "`6xx` is not an error"),
        ("{500: {file: missing.html}}", "cannot read"),
        ("{500: {file: a.png}}", "must end in"),
        ("{500: {upstream: nobody}}", "there is no upstream `nobody`"),
        ("{500: {}}", "`file` or `upstream`"),
        ("{500: {file: a.html, upstream: u}}", "`file` or `upstream`"),
    ] {
        let yaml = format!(
            "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: [{}]}}}}\nroutes:\n  - {{match: {{path: /*}}, upstream: u, errors: {pages}}}\n",
            upstream.url()
        );
        let said = wrong(&yaml);
        assert!(said.contains(message), "{pages}: {said}");
    }
}
