//! Paths that servers read in two ways: what the gateway is told to make of them is what routes, caches and upstreams see.

use testkit::{Upstream, Weir, responder};

/// A gateway whose `/admin/*` is closed and whose other paths are cached.
fn gateway(upstream: &Upstream, path: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]
workers: 1
server: {{path: {{{path}}}}}
caches: {{c: {{mode: ttl, ttl: 1h}}}}
upstreams: {{u: {{targets: [{}], retry: {{extra_attempts: 0}}}}}}
routes:
  - {{match: {{path: /admin/*}}, respond: {{status: 403, body: closed}}}}
  - {{match: {{path: /old/*}}, redirect: {{to: /*, status: 308}}}}
  - {{match: {{path: /*}}, upstream: u, cache: c}}
",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

#[test]
fn routes_caches_and_upstreams_see_one_path() {
    const REFUSED: &str = "400";
    const CLOSED: &str = "403";
    // Policy; spelling and what the upstream sees of it, or the status without one.
    let cases: [(&str, &[(&str, &str)]); 9] = [
        (
            "",
            &[
                ("/a//b", REFUSED),
                ("/a%2fb", REFUSED),
                ("/a%2Fb", REFUSED),
                ("/a;b", REFUSED),
                ("/a\\b", REFUSED),
                ("/a%5cb", REFUSED),
                ("/a%5Cb", REFUSED),
                ("/x/../admin/a", CLOSED),
                ("/%61dmin/a", CLOSED),
            ],
        ),
        (
            "double_slash: merge",
            &[("/m//b", "/m/b"), ("/m///b", "/m/b"), ("//m/b", "/m/b"), ("//admin//a", CLOSED), ("/m%2fb", REFUSED)],
        ),
        ("double_slash: keep", &[("/k//b", "/k//b"), ("/k/b", "/k/b"), ("//admin/a", "//admin/a"), ("/k;b", REFUSED)]),
        (
            "encoded_slash: decode",
            &[
                ("/d%2fb", "/d/b"),
                ("/d%2Fb", "/d/b"),
                ("/d/b", "/d/b"),
                ("/admin%2fa", CLOSED),
                ("/x%2f..%2fadmin%2Fa", CLOSED),
                ("/d//b", REFUSED),
            ],
        ),
        (
            "encoded_slash: keep",
            &[
                ("/e%2fb", "/e%2Fb"),
                ("/e%2Fb", "/e%2Fb"),
                ("/e/b", "/e/b"),
                ("/admin%2fa", "/admin%2Fa"),
                ("/e\\b", REFUSED),
            ],
        ),
        (
            "semicolon: keep",
            &[
                ("/s;b", "/s;b"),
                ("/s%3bb", "/s%3Bb"),
                ("/admin;x/a", "/admin;x/a"),
                ("/admin/;x", CLOSED),
                ("/s%5cb", REFUSED),
            ],
        ),
        (
            "backslash: decode",
            &[
                ("/b\\b", "/b/b"),
                ("/b%5cb", "/b/b"),
                ("/b%5Cb", "/b/b"),
                ("/admin\\a", CLOSED),
                ("/x\\..\\admin%5Ca", CLOSED),
            ],
        ),
        (
            "backslash: keep",
            &[("/c\\b", "/c%5Cb"), ("/c%5cb", "/c%5Cb"), ("/admin\\a", "/admin%5Ca"), ("/c%2fb", REFUSED)],
        ),
        (
            "double_slash: merge, encoded_slash: decode, semicolon: keep, backslash: decode",
            &[("/z//%2f\\%5cb", "/z/b"), ("/z/b", "/z/b"), ("\\/admin/%2Fa", REFUSED), ("/\\admin/%2Fa", CLOSED)],
        ),
    ];
    for (policy, spellings) in cases {
        let upstream = Upstream::start(responder::ok("hello"));
        let weir = gateway(&upstream, policy);
        let mut client = weir.connect();
        let mut stored: Vec<&str> = Vec::new();
        for &(target, expected) in spellings {
            client.send(format!("GET {target}?q=a//b;c HTTP/1.1\r\nHost: a\r\n\r\n"));
            let response = client.read_response();
            if !expected.starts_with('/') {
                assert_eq!(response.status().to_string(), expected, "{target} with {policy:?}");
                if response.field("connection") == Some("close") {
                    client = weir.connect();
                }
                continue;
            }
            // A second spelling of one path is a hit, and another path is not.
            let is_new = !stored.contains(&expected);
            assert_eq!(
                (response.status(), response.field("x-cache")),
                (200, Some(if is_new { "MISS" } else { "HIT" })),
                "{target} with {policy:?}"
            );
            if is_new {
                let seen = upstream.requests().pop().unwrap().head.target().to_owned();
                assert_eq!(seen, format!("{expected}?q=a//b;c"), "{target} with {policy:?}");
                stored.push(expected);
            }
        }
        assert_eq!(upstream.request_count(), stored.len(), "{policy:?}");
    }
}

/// `//host` would be another server.
#[test]
fn a_kept_double_slash_leads_no_redirect_to_another_host() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, "double_slash: keep, backslash: keep");
    let mut client = weir.connect();
    for (path, location) in [
        ("/old//evil.example", "/evil.example"),
        ("/old///evil.example//x", "/evil.example//x"),
        ("/old/\\evil.example", "/%5Cevil.example"),
        ("/old/a//b", "/a//b"),
    ] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.read_response().field("location"), Some(location), "{path}");
    }
}
