use super::*;
use crate::config::load_text;
use crate::config::{Action, Loaded};
use crate::route::path::normalise;
use crate::route::{Lookup, Table};

/// A file with one route and a target with a base path.
fn file(route: &str) -> Loaded {
    let text = format!(
        "listen: 127.0.0.1:0\nupstreams: {{app: {{targets: [http://127.0.0.1:1/base]}}}}\nroutes:\n  - {{{route}}}\n"
    );
    load_text("weir.yaml", &text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The target that the upstream gets, or the location that the client gets.
fn outcome(route: &str, target: &str) -> String {
    let config = file(route).config;
    let table = Table::new(&config.routes);
    let mut scratch = Vec::new();
    let target = normalise(target.as_bytes(), &mut scratch).unwrap();
    let Lookup::RouteMatch(found) = table.lookup(b"a", target, b"GET", |_, _| false) else { panic!("no route") };
    let mut out = b"GET ".to_vec();
    match &config.routes[found.route.0].action {
        Action::Proxy(proxy) => {
            let base = &config.upstreams[proxy.upstream.0].targets[0].base_path;
            upstream_target(&mut out, base, &proxy.rewrite, found, target);
        }
        Action::Redirect(redirect) => match &redirect.parts {
            None => location(&mut out, redirect, found, target),
            Some(parts) => {
                let origin = RequestOrigin { scheme: "http", authority: b"A.example:8080" };
                changed_location(&mut out, parts, origin, found, target);
            }
        },
        other => panic!("{other:?}"),
    }
    String::from_utf8(out).unwrap().strip_prefix("GET ").unwrap().to_owned()
}

#[test]
fn the_upstream_gets_the_rewritten_path() {
    for (path, rewrite, target, expected) in [
        ("/*", "", "/a/b?c=d", "/base/a/b?c=d"),
        ("/*", "", "/", "/base/"),
        ("/a", "path: /infer", "/a?x", "/base/infer?x"),
        ("/a/*", "path: /infer", "/a/b", "/base/infer"),
        ("/a/*", "prefix: /v2", "/a/b/c?d", "/base/v2/b/c?d"),
        ("/a/*", "prefix: /v2/", "/a/b", "/base/v2/b"),
        ("/a/*", "prefix: /v2", "/a/", "/base/v2/"),
        ("/a/*", "prefix: /", "/a/b", "/base/b"),
        ("/a/*", "prefix: /", "/a/", "/base/"),
        ("/*", "prefix: /v2", "/a", "/base/v2/a"),
        ("/a", "prefix: /v2", "/a", "/base/v2"),
        ("/a", "prefix: /", "/a", "/base/"),
        ("/a/**", "prefix: /v2", "/a", "/base/v2"),
        ("/a/**", "prefix: /v2", "/a/b", "/base/v2/b"),
        ("/a/**", "prefix: /", "/a", "/base/"),
        ("/a/b/{id}/c", "prefix: /v2", "/a/b/7/c", "/base/v2/7/c"),
        ("/{tenant}/*", "prefix: /v2", "/x/y", "/base/v2/x/y"),
        ("/a/*", "host: b.example", "/a/%62/../c", "/base/a/c"),
    ] {
        let rewrite = if rewrite.is_empty() { String::new() } else { format!(", rewrite: {{{rewrite}}}") };
        let route = format!("match: {{path: \"{path}\"}}, upstream: app{rewrite}");
        assert_eq!(outcome(&route, target), expected, "{route} for {target}");
    }
}

#[test]
fn the_client_is_sent_to_the_new_place() {
    for (path, to, target, expected) in [
        ("/old/*", "/new/*", "/old/a/b?c=d", "/new/a/b?c=d"),
        ("/old/*", "/new/*", "/old/", "/new/"),
        ("/old/*", "/new", "/old/a?b", "/new?b"),
        ("/old/*", "/new?own=1", "/old/a?b", "/new?own=1"),
        ("/old", "https://new.example/x", "/old?b", "https://new.example/x?b"),
        ("/old/*", "https://new.example/*", "/old/a", "https://new.example/a"),
        ("/*", "https://new.example/*", "/", "https://new.example/"),
        ("/u/{id}/posts/*", "/p/*", "/u/7/posts/a/b", "/p/a/b"),
        ("/old", "https://new.example", "/old", "https://new.example"),
    ] {
        let route = format!("match: {{path: \"{path}\"}}, redirect: {{to: \"{to}\"}}");
        assert_eq!(outcome(&route, target), expected, "{route} for {target}");
    }
}

#[test]
fn a_redirect_cannot_be_turned_to_another_host() {
    let route = "match: {path: /*}, redirect: {to: /*}";
    for target in ["//evil.example", "/%2fevil.example", "/\\evil.example", "/.//evil.example", "/%5cevil.example"] {
        assert!(normalise(target.as_bytes(), &mut Vec::new()).is_err(), "{target}");
    }
    assert_eq!(outcome(route, "/./evil.example"), "/evil.example");
}

#[test]
fn a_redirect_changes_parts_of_the_url_of_the_request() {
    for (redirect, expected) in [
        ("scheme: https", "https://a.example/old/x?q"),
        ("scheme: https, port: 8443", "https://a.example:8443/old/x?q"),
        ("host: b.example", "http://b.example:8080/old/x?q"),
        ("port: 80", "http://a.example/old/x?q"),
        ("path: /new", "http://a.example:8080/new?q"),
        ("prefix: /new, host: b.example, port: 81", "http://b.example:81/new/x?q"),
    ] {
        let route = format!("match: {{path: /old/**}}, redirect: {{{redirect}}}");
        assert_eq!(outcome(&route, "/old/x?q"), expected, "{redirect}");
    }
}
