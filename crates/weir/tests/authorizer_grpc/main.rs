//! Envoy's `ext_authz` over gRPC, against a server of another project: verdicts, fields, trouble, and a server that comes and goes.

mod changes;
mod check;
mod envoy;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use check::{Authorizer, CheckResponse, denied, field, ok};
use testkit::{DEADLINE, Message, RawClient, Upstream, Weir, responder, wait};
use tonic::{Code, Status};

struct Rig {
    weir: Weir,
    authorizer: Authorizer,
    upstream: Upstream,
}

/// `opa` is the authorizer; `more` are its further keys, `rest` further sections.
fn rig(authorizer: Authorizer, more: &str, rest: &str) -> Rig {
    let upstream = Upstream::start(responder::ok("hello"));
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\nupstreams: {{u: {{targets: ['{}']}}}}\n\
         auth: {{opa: {{ext_authz: {{url: 'grpc://{}'{more}}}}}}}\n{rest}routes:\n  \
         - match: {{path: /a/*}}\n    auth: opa\n    upstream: u\n  - match: {{path: /open/*}}\n    upstream: u\n",
        upstream.url(),
        authorizer.address(),
    );
    Rig { weir: Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start(), authorizer, upstream }
}

const COPY: &str = ", timeout: 5s, copy: [Remote-User, X-Many], consumer: Remote-User, tier: Remote-Tier";

impl Rig {
    fn get(&self, fields: &[(&str, &str)]) -> Message {
        self.weir.request("GET", "/a/x", fields, "")
    }

    fn status(&self, fields: &[(&str, &str)]) -> u16 {
        self.get(fields).status()
    }

    fn metric(&self, outcome: &str) -> u64 {
        let metrics = self.weir.admin_get("/metrics");
        let name = format!("auth_requests_total{{auth=\"opa\",outcome=\"{outcome}\"}}");
        let line = metrics.text().lines().find(|line| line.starts_with(&name));
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }

    /// The log's reason for a request that this response is a failure for.
    fn failure(&self, response: CheckResponse) -> String {
        self.authorizer.respond(move |_| Ok(response.clone()));
        let got = self.get(&[]);
        assert_eq!(got.status(), 503);
        let id = got.field("x-request-id").unwrap();
        self.weir.wait_for_line("the access log", |line| {
            let (_, rest) = line.split_once(id)?.1.split_once("\"auth_detail\":\"")?;
            Some(rest.split_once('"')?.0.to_owned())
        })
    }
}

/// Responds with the status in the cookie, 401 without one; says who it is.
fn judge(request: &check::HttpRequest) -> Result<CheckResponse, Status> {
    let wanted = request.headers.get("cookie").and_then(|cookie| cookie.strip_prefix("want=")?.parse().ok());
    Ok(match wanted.unwrap_or(401) {
        200 => ok(vec![field("Remote-User", "ali"), field("Remote-Tier", "gold"), field("X-Internal", "secret")]),
        status => denied(
            status,
            vec![
                field("Location", "https://login.example/?rd=1"),
                field("WWW-Authenticate", "Cookie realm=\"sso\""),
                field("Set-Cookie", "a=1"),
                field("Content-Type", "text/html"),
                field("X-Told", "to the client"),
                field("Content-Length", "3"),
                field("Connection", "x-told"),
            ],
            "<p>who are you?</p>",
        ),
    })
}

#[test]
fn the_service_sees_the_request_and_its_fields_reach_the_upstream() {
    let rig = rig(Authorizer::start(judge), COPY, "");
    let forged = [
        ("Cookie", "want=200"),
        ("Remote-User", "root"),
        ("remote_user", "root"),
        ("X-Other", "1"),
        ("Authorization", "Basic eDp5"),
        ("TE", "trailers"),
        ("grpc-timeout", "1n"),
    ];
    assert_eq!(rig.weir.request("POST", "/a/b%20c?d=e", &forged, "body").status(), 200);
    let requested = rig.authorizer.seen().pop().unwrap();
    let http = &requested.http;
    assert_eq!((&*http.method, &*http.path, &*http.host), ("POST", "/a/b%20c?d=e", "test"));
    assert_eq!((&*http.scheme, http.size, &*http.protocol), ("http", 4, "HTTP/1.1"));
    assert_eq!((http.headers.len(), &*http.headers["cookie"]), (2, "want=200"));
    assert_eq!(http.headers["authorization"], "Basic eDp5");
    assert!(!http.id.is_empty());
    assert_eq!(requested.address, "127.0.0.1");
    assert!(requested.timeout.is_some_and(|timeout| timeout.ends_with(['n', 'u', 'm'])), "what is left of `timeout`");
    let seen = &rig.upstream.requests()[0];
    assert_eq!((seen.head.all("remote-user"), seen.body.as_slice()), (vec!["ali"], &b"body"[..]));
    for name in ["remote_user", "x-internal", "remote-tier"] {
        assert_eq!(seen.head.all(name), Vec::<&str>::new(), "{name}");
    }
    assert_eq!(seen.head.field("x-request-id"), Some(&*http.id));
    assert_eq!(rig.weir.request("GET", "/open/x", &[("Remote-User", "root")], "").status(), 200);
    assert!(rig.upstream.requests()[1].head.all("remote-user").is_empty());
    wait::until(DEADLINE, "the log", || rig.weir.stdout().contains("\"consumer\":\"ali\",\"auth\":\"ok\""));
}

/// The table of the form over HTTP, where only 200 passes; over gRPC a denial may have 5xx too, as the call itself says what failed.
#[test]
fn verdicts_are_those_of_the_form_over_http() {
    let rig = rig(Authorizer::start(judge), COPY, "");
    for status in [200, 201, 204, 206, 299, 301, 302, 304, 400, 401, 403, 404, 405, 429, 500, 502, 503] {
        for (method, body) in [("GET", ""), ("POST", "abc"), ("HEAD", ""), ("DELETE", "")] {
            let mut client = RawClient::connect(rig.weir.addr());
            client.request(method, "/a/x?y=z", &[("Host", "a"), ("Cookie", &format!("want={status}"))], body);
            let got = client.read_response_to(method);
            let expected = if (201..300).contains(&status) { 403 } else { status };
            assert_eq!(got.status(), expected, "{status} {method}");
            if expected == 200 {
                continue;
            }
            assert_eq!(got.field("location"), Some("https://login.example/?rd=1"));
            assert_eq!(got.head.all("set-cookie"), ["a=1"]);
            assert_eq!(got.field("www-authenticate"), Some("Cookie realm=\"sso\""));
            assert_eq!(got.field("content-type"), Some("text/html"));
            assert_eq!(got.field("x-told"), Some("to the client"), "every field of a denial is for the client");
            assert!(got.field("grpc-status").is_none() && got.head.all("content-length").len() <= 1);
            let text = if method == "HEAD" || expected == 304 { "" } else { "<p>who are you?</p>" };
            assert_eq!(got.text(), text, "{status} {method}");
        }
    }
    assert_eq!(rig.upstream.request_count(), 4, "nothing that was denied");
    assert_eq!((rig.metric("ok"), rig.metric("denied")), (4, 64));
    // A denial that says nothing is 403, and a status that is none too.
    for code in [0, -1, 99, 600, 70_000] {
        rig.authorizer.respond(move |_| Ok(denied(code, vec![], "")));
        assert_eq!(rig.status(&[]), 403, "{code}");
    }
    rig.authorizer.respond(|_| Ok(CheckResponse { denied_response: None, ..denied(0, vec![], "") }));
    assert_eq!(rig.status(&[]), 403);
}

#[test]
fn fields_are_appended_or_overwritten_as_their_actions_say() {
    let rig = rig(Authorizer::start(judge), COPY, "");
    let with = |append: Option<bool>, action: i32, value: &str| check::HeaderValueOption {
        append: append.map(|value| check::BoolValue { value }),
        append_action: action,
        ..field("x-many", value)
    };
    for (fields, expected) in [
        (vec![with(None, 0, "a"), with(None, 0, "b")], vec!["b"]),
        (vec![with(Some(true), 0, "a"), with(Some(true), 0, "b")], vec!["a", "b"]),
        (vec![with(Some(false), 0, "a"), with(Some(false), 0, "b")], vec!["b"]),
        (vec![with(None, 1, "a"), with(None, 1, "b")], vec!["a"]),
        (vec![with(None, 2, "a"), with(None, 2, "b")], vec!["b"]),
        (vec![with(None, 3, "a")], vec![]),
        (vec![with(None, 1, "a"), with(None, 3, "b")], vec!["b"]),
    ] {
        let response = ok(fields);
        rig.authorizer.respond(move |_| Ok(response.clone()));
        assert_eq!(rig.status(&[("X-Many", "forged")]), 200);
        let seen = rig.upstream.requests().pop().unwrap();
        assert_eq!(seen.head.all("x-many"), expected);
    }
}

#[test]
fn what_is_no_verdict_lets_nobody_pass_or_everybody() {
    let rig = rig(Authorizer::start(judge), COPY, "");
    for code in [Code::Unavailable, Code::PermissionDenied, Code::Unauthenticated, Code::Internal, Code::Unimplemented]
    {
        rig.authorizer.respond(move |_| Err(Status::new(code, "no")));
        assert_eq!(rig.status(&[("Cookie", "want=200")]), 503, "{code:?}");
    }
    let unclear = "the authorizer's message says neither yes nor no";
    assert_eq!(rig.failure(CheckResponse::default()), unclear);
    for value in ["a\r\nX-Admin: 1", "a\0"] {
        let told = rig.failure(ok(vec![field("Remote-User", value)]));
        assert_eq!(told, "the authorizer's message has a field that HTTP does not allow");
    }
    assert_eq!(rig.failure(denied(403, vec![], &"x".repeat(100_000))), "the authorizer's response is too large");
    let mut impossible = ok(vec![]);
    impossible.ok_response.as_mut().unwrap().response_headers_to_add = vec![field("Content-Length", "3")];
    let told = "the authorizer wants to write a response field that HTTP does not allow";
    assert_eq!(rig.failure(impossible.clone()), told);
    assert_eq!(rig.upstream.request_count(), 0);

    // Its own failure is no verdict, whatever the status of the message says.
    for code in [0, 13] {
        assert_eq!(rig.failure(check::failed(code, 500)), "the authorizer says that it failed");
    }
    assert_eq!(rig.upstream.request_count(), 0);

    // What the service allows without the words for it is allowed.
    let bare = CheckResponse { status: None, ..ok(vec![]) };
    rig.authorizer.respond(move |_| Ok(bare.clone()));
    assert_eq!(rig.status(&[]), 200);
    rig.authorizer.respond(|_| Ok(CheckResponse { ok_response: None, ..ok(vec![]) }));
    assert_eq!(rig.status(&[]), 200);

    let open = self::rig(Authorizer::start(judge), &format!("{COPY}, on_failure: allow"), "");
    open.authorizer.respond(|_| Err(Status::new(Code::Unavailable, "no")));
    assert_eq!(open.status(&[("Remote-User", "root")]), 200);
    assert!(open.upstream.requests().pop().unwrap().head.all("remote-user").is_empty());
    assert_eq!(open.metric("failed_open"), 1);
    open.authorizer.respond(move |_| Ok(impossible.clone()));
    assert_eq!(open.status(&[]), 503, "all that the service wants is done, or nothing");
}

/// A no is one in whatever form it comes, and whatever part of it cannot be sent: `on_failure: allow` is for services that say nothing.
#[test]
fn a_denial_that_cannot_be_sent_as_it_is_lets_nobody_pass() {
    let open = rig(Authorizer::start(judge), &format!("{COPY}, on_failure: allow"), "");
    let with_ok = |denial: CheckResponse| CheckResponse { denied_response: denial.denied_response, ..ok(vec![]) };
    for (response, status) in [
        (CheckResponse { status: None, ..denied(401, vec![], "") }, 401),
        (with_ok(denied(401, vec![], "")), 401),
        (denied(401, vec![field("Location", "/a\r\nX-Admin: 1")], "who?"), 401),
        (denied(401, vec![field("X y", "z")], ""), 401),
        // A redirect to nowhere is none.
        (denied(302, vec![field("Location", "/a\0")], ""), 403),
        (denied(403, vec![], &"x".repeat(100_000)), 503),
    ] {
        let shown = format!("{:.120}", format!("{response:?}"));
        open.authorizer.respond(move |_| Ok(response.clone()));
        let got = open.get(&[]);
        assert_eq!(got.status(), status, "{shown}");
        assert!(got.head.all("x-admin").is_empty() && got.head.all("location").is_empty(), "{shown}");
    }
    assert_eq!(open.upstream.request_count(), 0);
}

/// Servers that are not what the file says.
#[test]
fn a_server_without_grpc_gives_no_verdict() {
    let upstream = Upstream::start(responder::ok("hello"));
    let http1 = Upstream::start(responder::ok("OK"));
    let yaml = |url: &str| {
        format!(
            "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: ['{}']}}}}\n\
             auth: {{opa: {{ext_authz: {{url: '{url}', timeout: 2s}}}}}}\nroutes: [{{match: {{path: /*}}, auth: opa, upstream: u}}]\n",
            upstream.url()
        )
    };
    let weir =
        Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml(&http1.url().replace("http://", "grpc://"))).start();
    assert_eq!(weir.request("GET", "/a", &[], "").status(), 503);
    let nobody = testkit::ports::Port::free();
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml(&format!("grpc://{}", nobody.address()))).start();
    assert_eq!(weir.request("GET", "/a", &[], "").status(), 503);
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn a_slow_service_costs_the_timeout_and_a_client_that_leaves_ends_the_call() {
    let rig = rig(Authorizer::start(judge), ", timeout: 3s", "");
    rig.authorizer.stall();
    let mut client = rig.weir.connect();
    client.request("GET", "/a/x", &[], "");
    wait::until(DEADLINE, "the call", || rig.authorizer.calls() == 1);
    drop(client);
    wait::until(DEADLINE, "it was cancelled", || rig.authorizer.cancelled() == 1);
    let began = Instant::now();
    let got = rig.get(&[]);
    assert_eq!((got.status(), got.field("retry-after").is_some()), (503, true));
    assert!(began.elapsed() >= Duration::from_secs(3));
    assert_eq!(rig.weir.request("GET", "/open/x", &[], "").status(), 200);
    wait::until(DEADLINE, "the second one was cancelled too", || rig.authorizer.cancelled() == 2);
}

/// 20 clients, the server is killed and comes back, the configuration is read again: nobody passes who may not, and everybody who may
/// passes at the end.
#[test]
fn nobody_passes_while_the_service_comes_and_goes() {
    let mut rig = rig(Authorizer::start(judge), COPY, "");
    let (stop, wrong, passed, failed) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let Rig { weir, authorizer, upstream } = &mut rig;
    let weir = &*weir;
    thread::scope(|scope| {
        for number in 0..20 {
            let (stop, wrong, passed, failed) = (&stop, &wrong, &passed, &failed);
            scope.spawn(move || {
                let may = number % 2 == 0;
                let cookie = if may { "want=200" } else { "want=403" };
                let mut client = weir.connect();
                while !stop.load(Ordering::Relaxed) {
                    client.request("GET", "/a/x", &[("Cookie", cookie), ("Remote-User", "root")], "");
                    match (client.read_response().status(), may) {
                        (200, true) => passed.fetch_add(1, Ordering::Relaxed),
                        (403, false) => 0,
                        (503, _) => failed.fetch_add(1, Ordering::Relaxed),
                        _ => wrong.fetch_add(1, Ordering::Relaxed),
                    };
                }
            });
        }
        let more = |count: &AtomicUsize, by: usize| {
            let before = count.load(Ordering::Relaxed);
            wait::until(DEADLINE, "more requests", || count.load(Ordering::Relaxed) >= before + by);
        };
        more(&passed, 100);
        for _ in 0..3 {
            authorizer.stop();
            more(&failed, 50);
            authorizer.restart();
            more(&passed, 100);
            let text = std::fs::read_to_string(weir.config_path()).unwrap();
            weir.rewrite_config(&format!("{text}\n"));
            more(&passed, 100);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong.into_inner(), 0);
    assert!(upstream.requests().iter().all(|one| one.head.all("remote-user") == ["ali"]));
}
