//! What comes of verdicts that let a request pass, and how many requests wait for one.

use testkit::{RawClient, Upstream, Weir, responder};

use super::{judge, rig};

#[test]
fn envoys_form_over_http_removes_fields_and_adds_some_to_the_response() {
    let rig = rig("ext_authz", "/", ", copy: [Remote-User], copy_to_response: [Set-Cookie]", "", "");
    rig.authorizer.set_responder(|conn, _| {
        let fields = [
            ("x-envoy-auth-headers-to-remove", "authorization, X-Api-Key"),
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("X-Internal", "1"),
        ];
        conn.respond(200, &fields, "")
    });
    let response = rig.get("/a/x", &[("Authorization", "Bearer x"), ("X-API-Key", "k"), ("X-Other", "1")]);
    assert_eq!((response.status(), response.head.all("set-cookie")), (200, vec!["a=1", "b=2"]));
    assert!(response.field("x-internal").is_none());
    let seen = &rig.upstream.requests()[0];
    assert!(seen.head.all("authorization").is_empty() && seen.head.all("x-api-key").is_empty());
    assert_eq!(seen.head.field("x-other"), Some("1"));
}

/// oauth2-proxy renews its cookie in responses that let a request pass.
#[test]
fn a_renewed_cookie_reaches_its_client_once() {
    let rig = rig("forward", "/", ", copy_to_response: [Set-Cookie], cache: {ttl: 600s}", "", "");
    for expected in [vec!["a=1", "b=2; HttpOnly"], vec!["a=1", "b=2; HttpOnly"]] {
        assert_eq!(rig.get("/a/x", &[("Cookie", "want=200")]).head.all("set-cookie"), expected);
    }
    assert_eq!(rig.authorizer.request_count(), 2, "a verdict with a cookie for one client is not remembered");
    rig.authorizer.set_responder(responder::status(204));
    for _ in 0..2 {
        assert!(rig.get("/a/x", &[("Cookie", "want=200")]).head.all("set-cookie").is_empty());
    }
    assert_eq!(rig.authorizer.request_count(), 3);
}

/// 256 requests wait for one service; the requests of another do not wait with them.
#[test]
fn a_slow_authorizer_leaves_the_others_their_share() {
    let (slow, quick) = (Upstream::start(responder::stall()), Upstream::start(judge));
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\nupstreams: {{slow: {{targets: ['{}']}}}}\n\
         auth: {{slow: {{forward: {{upstream: slow, timeout: 60s}}}}, quick: {{forward: {{url: '{}', timeout: 20s}}}}}}\nroutes:\n  \
         - {{match: {{path: /slow}}, auth: slow, respond: {{body: a}}}}\n  - {{match: {{path: /quick}}, auth: quick, respond: {{body: b}}}}\n",
        slow.url(),
        quick.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut waiting: Vec<RawClient> = (0..256).map(|_| weir.connect()).collect();
    waiting.iter_mut().for_each(|client| client.request("GET", "/slow", &[], ""));
    slow.wait_for_requests(256);
    assert_eq!(weir.get("/slow").status(), 503, "the share of this one is used up");
    assert_eq!(weir.request("GET", "/quick", &[("Cookie", "want=200")], "").status(), 200);
}
