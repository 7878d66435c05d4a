use std::sync::Arc;

use super::*;

#[test]
fn get_includes_head_unless_another_route_names_it() {
    let config = good(&routes(&[
        "match: {path: /a, methods: [GET]}, upstream: app",
        "match: {path: /b, methods: [GET]}, upstream: app",
        "match: {path: /b, methods: [HEAD]}, upstream: other",
        "match: {path: /b, methods: [GET], headers: {X-A: b}}, upstream: app",
        "match: {path: /c, methods: [POST, GET, POST]}, upstream: app",
        "match: {path: /c}, upstream: other",
        "match: {path: /d, methods: [POST]}, upstream: other",
    ]));
    let methods: Vec<String> = config.routes.iter().map(|route| route.matcher.methods.join(" ")).collect();
    assert_eq!(methods, ["GET HEAD", "GET", "HEAD", "GET HEAD", "POST GET HEAD", "", "POST"]);
}

#[test]
fn routes_that_differ_in_anything_can_be_distinguished() {
    good(&routes(&[
        "match: {path: /a}, upstream: app",
        "match: {path: /a/}, upstream: app",
        "match: {path: /a/*}, upstream: app",
        "match: {path: '/{x}'}, upstream: app",
        "match: {path: '/{x}/*'}, upstream: app",
        "match: {path: /a, host: a.example}, upstream: app",
        "match: {path: /a, host: '*.a.example'}, upstream: app",
        "match: {path: /a, headers: {X-A: '1'}}, upstream: app",
        "match: {path: /a, headers: {X-A: '2'}}, upstream: app",
        "match: {path: /a, headers: {X-A: '1', X-B: '1'}}, upstream: app",
        "match: {path: /m, methods: [GET]}, upstream: app",
        "match: {path: /m, methods: [POST]}, upstream: app",
        "match: {path: /m}, upstream: app",
    ]));
}

#[test]
fn routes_without_a_name_are_named_after_what_they_match() {
    let config = good(&routes(
        &[
            "match: {path: /a, methods: [GET]}, upstream: app",
            "match: {path: /a, methods: [POST]}, upstream: app",
            "match: {path: /a, methods: [POST], host: a.example}, upstream: app",
            "match: {path: /a, methods: [POST], host: a.example, headers: {X: '1'}}, upstream: app",
            "name: '/b', match: {path: /c}, upstream: app",
        ]
        .map(|route| route.replace("name: '/b'", "name: b"))
        .each_ref()
        .map(String::as_str),
    ));
    let names: Vec<&str> = config.routes.iter().map(|route| &*route.name).collect();
    assert_eq!(names, ["/a", "POST /a", "POST a.example/a", "/a #2", "b"]);
}

#[test]
fn a_route_says_its_own_or_takes_the_default() {
    let text = routes(&[
        "match: {path: /a}, upstream: app",
        "match: {path: /b}, upstream: app, limits: [], cache: none, body: 1MiB",
        "match: {path: /c}, upstream: app, limits: [two], cache: y, body: none",
        "match: {path: /d}, respond: {body: x}",
    ]);
    let config = good(&format!(
        "{text}limits: {{one: {{}}, two: {{}}}}\ncaches: {{x: {{mode: ttl}}, y: {{mode: http}}}}\n\
         defaults: {{limits: [two, one], cache: x}}\nserver: {{body: 5MB}}\n"
    ));
    assert_eq!(config.gateway_limits, [LimitId(1), LimitId(0)]);
    let limits: Vec<&[LimitId]> = config.routes.iter().map(|route| &*route.limits).collect();
    assert_eq!(limits, [&[LimitId(1), LimitId(0)][..], &[], &[LimitId(1)], &[LimitId(1), LimitId(0)]]);
    let caches: Vec<Option<CacheId>> = config.routes.iter().map(|route| route.cache).collect();
    assert_eq!(caches, [Some(CacheId(0)), None, Some(CacheId(1)), None], "an answer without upstream is not cached");
    let bodies: Vec<Option<u64>> = config.routes.iter().map(|route| route.body_bytes).collect();
    assert_eq!(bodies, [Some(5_000_000), Some(1 << 20), None, Some(5_000_000)]);
}

#[test]
fn unknown_names_are_reported_once_each() {
    let text = routes(&["match: {path: /a}, upstream: app", "match: {path: /b}, upstream: app, limits: [x], cache: y"]);
    let problems = wrong(&format!("{text}defaults: {{limits: [z], cache: w}}\nlimits: {{per_client: {{}}}}\n"));
    assert_eq!(
        problems,
        [
            "there is no limit `z`; there are per_client",
            "there is no cache `w`; the file defines no cache",
            "there is no cache `y`; the file defines no cache",
            "there is no limit `x`; there are per_client",
        ]
    );
    let text = routes(&["match: {path: /a}, upstream: app, limits: [l, l]"]);
    assert_eq!(wrong(&format!("{text}limits: {{l: {{}}}}\n")), ["the limit `l` is named twice"]);
    let text = routes(&["match: {path: /a}, respond: {body: x}, cache: c"]);
    assert_eq!(
        wrong(&format!("{text}caches: {{c: {{mode: ttl}}}}\n")),
        ["only routes with an `upstream` or with `ai` have something to cache"]
    );
}

#[test]
fn rewrites_redirects_and_responses_keep_no_text_to_parse() {
    let config = good(&routes(&[
        "match: {path: /a/*}, upstream: app, rewrite: {prefix: /v2/, host: b.example:81}",
        "match: {path: /b/*}, redirect: {to: /new/*}",
        "match: {path: /c}, redirect: {to: 'https://a.example:8443/x?y', status: 302}",
        "match: {path: /d}, respond: {status: 204}",
        "match: {path: /e}, respond: {body: x}",
        "match: {path: /f}, respond: {body: '{}', content_type: application/json, status: 503}",
        "match: {path: /g}, respond: {builtin: cachez}",
        "match: {path: /h/*}, upstream: app, rewrite: {prefix: /}",
        "match: {path: /i}, upstream: app, upgrade: [WebSocket]",
    ]));
    let action = |index: usize| config.routes[index].action.clone();
    let Action::Proxy(proxy) = action(0) else { panic!() };
    assert_eq!((proxy.rewrite, proxy.host.as_deref()), (Rewrite::Prefix("/v2".into()), Some("b.example:81")));
    let redirect =
        |to: &str, append_rest, status| Action::Redirect(Redirect { to: to.into(), append_rest, status, parts: None });
    assert_eq!(action(1), redirect("/new/", true, 308));
    assert_eq!(action(2), redirect("https://a.example:8443/x?y", false, 302));
    let respond = |status, content_type: Option<&str>, body: &str| {
        Action::Respond(Respond { status, content_type: content_type.map(Into::into), body: body.as_bytes().into() })
    };
    assert_eq!(action(3), respond(204, None, ""));
    assert_eq!(action(4), respond(200, Some("text/plain; charset=utf-8"), "x"));
    assert_eq!(action(5), respond(503, Some("application/json"), "{}"));
    assert_eq!(action(6), Action::Builtin(Builtin::Cachez));
    let Action::Proxy(proxy) = action(7) else { panic!() };
    assert_eq!(proxy.rewrite, Rewrite::Prefix("".into()));
    let Action::Proxy(proxy) = action(8) else { panic!() };
    assert_eq!(proxy.upgrade, [Arc::<str>::from("websocket")]);
}

#[test]
fn header_edits_and_cors_are_resolved() {
    let config = good(&routes(&[
        "match: {path: /a, methods: [GET, PUT]}, upstream: app, headers: {request: {set: {X-A: 1}, add: {X-B: c d}, remove: [X-Old]}, response: {remove: [Server]}}, cors: {origins: ['https://a.example']}",
        "match: {path: /b}, upstream: app, cors: {origins: ['*'], methods: [DELETE], headers: [X-Key], max_age: 0s}",
        "match: {path: /c}, upstream: app, cors: {origins: ['http://localhost:3000'], credentials: true}",
    ]));
    let edits = &config.routes[0].headers;
    assert_eq!(edits.request.set, [("X-A".into(), "1".into())]);
    assert_eq!(edits.request.add, [("X-B".into(), "c d".into())]);
    assert_eq!(edits.request.remove, [Arc::<str>::from("x-old")]);
    // `cors` adds the fields that it writes itself.
    assert_eq!((&*edits.response.remove[0], edits.response.remove.len()), ("server", 6));
    assert!(edits.response.remove.iter().any(|name| &**name == "access-control-allow-origin"));
    let cors = |index: usize| config.routes[index].cors.clone().unwrap();
    assert_eq!(cors(0).methods, [Arc::<str>::from("GET"), "PUT".into(), "HEAD".into()]);
    assert_eq!((cors(0).max_age, cors(0).credentials), (Duration::from_secs(600), false));
    assert_eq!((&*cors(1).methods, &*cors(1).headers), (&["DELETE".into()][..], &["x-key".into()][..]));
    assert_eq!(cors(1).max_age, Duration::ZERO);
    assert_eq!(cors(2).methods, [Arc::<str>::from("GET"), "HEAD".into(), "POST".into()]);
}

#[test]
fn more_methods_than_the_table_can_hold_are_refused() {
    let many = |count: usize| {
        let methods: Vec<String> = (0..count).map(|number| format!("M{number}")).collect();
        routes(&[&format!("match: {{path: /a, methods: [{}]}}, upstream: app", methods.join(", "))])
    };
    good(&many(50));
    assert_eq!(wrong(&many(70)), ["routes name more than 63 different methods"]);
}
