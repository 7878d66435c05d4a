//! What a service changes of a request that passes, and of its response.

use super::check::{self, Authorizer, BoolValue, CheckResponse, HeaderValueOption, QueryParameter, denied, field, ok};
use super::{COPY, Rig, judge, rig};

fn parameter(key: &str, value: &str) -> QueryParameter {
    QueryParameter { key: key.to_owned(), value: value.to_owned() }
}

/// A response that lets the request pass, with these changes.
fn passes(change: impl FnOnce(&mut check::OkHttpResponse)) -> CheckResponse {
    let mut response = ok(vec![field("Remote-User", "ali")]);
    change(response.ok_response.as_mut().unwrap());
    response
}

fn respond(rig: &Rig, response: CheckResponse) {
    rig.authorizer.respond(move |_| Ok(response.clone()));
}

#[test]
fn a_credential_that_the_service_consumes_does_not_reach_the_upstream() {
    let rig = rig(Authorizer::start(judge), COPY, "");
    respond(
        &rig,
        passes(|ok| {
            ok.headers_to_remove =
                ["authorization", "X-Api-Key", "Host", ":path", "Content-Length"].map(str::to_owned).to_vec();
            ok.query_parameters_to_remove = vec!["token".to_owned()];
            ok.query_parameters_to_set = vec![parameter("user", "ali b"), parameter("a", "2")];
        }),
    );
    let fields = [("Authorization", "Bearer x"), ("X-API-Key", "k"), ("X_Api_Key", "k"), ("X-Other", "1")];
    for (target, expected) in [
        ("/a/x?token=1&b=1&%74oken=2", "/a/x?b=1&user=ali%20b&a=2"),
        ("/a/x?a=1&c;token=3", "/a/x?c&user=ali%20b&a=2"),
        ("/a/x", "/a/x?user=ali%20b&a=2"),
    ] {
        assert_eq!(rig.weir.request("POST", target, &fields, "body").status(), 200);
        let seen = rig.upstream.requests().pop().unwrap();
        assert_eq!(seen.head.target(), expected);
        for name in ["authorization", "x-api-key", "x_api_key"] {
            assert_eq!(seen.head.all(name), Vec::<&str>::new(), "{name}");
        }
        assert_eq!((seen.head.all("host").len(), seen.body.as_slice()), (1, &b"body"[..]), "what frames it stays");
        assert_eq!((seen.head.field("x-other"), seen.head.field("remote-user")), (Some("1"), Some("ali")));
    }
    respond(&rig, passes(|ok| ok.query_parameters_to_remove = vec!["token".to_owned()]));
    assert_eq!(rig.weir.get("/a/x?token=1").status(), 200);
    assert_eq!(rig.upstream.requests().pop().unwrap().head.target(), "/a/x");
    testkit::wait::until(testkit::DEADLINE, "the access log has what the client sent", || {
        let log = rig.weir.stdout();
        log.lines().any(|line| line.contains("\"query\":\"token="))
    });
}

#[test]
fn fields_of_the_response_are_added_as_their_actions_say() {
    let rig = rig(Authorizer::start(judge), COPY, "");
    rig.upstream.set_responder(|conn, _| conn.respond(200, &[("X-Own", "1"), ("Set-Cookie", "own=1")], "hello"));
    let with = |append: Option<bool>, append_action: i32, name: &str| HeaderValueOption {
        append: append.map(|value| BoolValue { value }),
        append_action,
        ..field(name, "x")
    };
    for (option, own, new) in [
        (with(None, 0, "X-Own"), vec!["1", "x"], vec![]),
        (with(None, 0, "X-New"), vec!["1"], vec!["x"]),
        (with(None, 1, "X-Own"), vec!["1"], vec![]),
        (with(None, 1, "X-New"), vec!["1"], vec!["x"]),
        (with(None, 2, "X-Own"), vec!["x"], vec![]),
        (with(None, 3, "X-Own"), vec!["x"], vec![]),
        (with(None, 3, "X-New"), vec!["1"], vec![]),
        (with(Some(false), 0, "X-Own"), vec!["x"], vec![]),
        (with(Some(true), 2, "X-Own"), vec!["1", "x"], vec![]),
    ] {
        let shown = format!("{option:?}");
        respond(&rig, passes(|ok| ok.response_headers_to_add = vec![option, field("Set-Cookie", "sso=1")]));
        let response = rig.get(&[]);
        assert_eq!((response.status(), response.text()), (200, "hello"));
        assert_eq!((response.head.all("x-own"), response.head.all("x-new")), (own, new), "{shown}");
        assert_eq!(response.head.all("set-cookie"), ["own=1", "sso=1"]);
    }
    // Nothing of it is left for the next request of the connection, nor for one that is refused.
    let mut client = rig.weir.connect();
    client.request("GET", "/a/x", &[], "");
    assert_eq!(client.read_response().head.all("set-cookie").len(), 2);
    client.request("GET", "/open/x", &[], "");
    assert_eq!(client.read_response().head.all("set-cookie"), ["own=1"]);
    rig.authorizer.respond(|_| Ok(denied(403, vec![], "")));
    client.request("GET", "/a/x", &[], "");
    let refused = client.read_response();
    assert_eq!((refused.status(), refused.head.all("set-cookie").len()), (403, 0));
}

/// A cache keeps what the upstream said to the changed request, and nothing that the service said to one client.
#[test]
fn a_cache_sees_the_changed_request_and_keeps_no_field_of_the_service() {
    let rest = "caches: {mine: {mode: ttl, ttl: 60s, shared: true}}\n";
    let rig = rig_with_cache(rest);
    rig.authorizer.respond(|request| {
        let cookie = request.headers.get("cookie").cloned().unwrap_or_default();
        Ok(passes(|ok| {
            ok.headers_to_remove = vec!["cookie".to_owned()];
            ok.query_parameters_to_remove = vec!["token".to_owned()];
            ok.response_headers_to_add = vec![field("X-Seen", &cookie)];
        }))
    });
    for (target, cookie) in [("/a/x?token=1", "s=1"), ("/a/x?token=2", "s=2"), ("/a/x", "s=3")] {
        let response = rig.weir.request("GET", target, &[("Cookie", cookie)], "");
        assert_eq!((response.status(), response.head.all("x-seen")), (200, vec![cookie]), "{target}");
    }
    assert_eq!(rig.upstream.request_count(), 1, "one response for all three");
}

fn rig_with_cache(rest: &str) -> Rig {
    let rig = rig(Authorizer::start(judge), COPY, rest);
    let text = std::fs::read_to_string(rig.weir.config_path()).unwrap();
    let mark = rig.weir.mark();
    rig.weir.rewrite_config(&text.replacen("    auth: opa\n", "    auth: opa\n    cache: mine\n", 1));
    rig.weir.wait_for_line_after(mark, "the reload", testkit::DEADLINE, |line| {
        line.contains("configuration reloaded").then_some(())
    });
    rig
}
