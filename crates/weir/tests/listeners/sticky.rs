//! Which target a client keeps: `balance: {cookie: NAME}`.

use testkit::{Certificates, RawClient, Upstream, Weir, responder, wait};

use super::{DEADLINE, curl, program, tls_option};

/// A gateway with affinity before three targets, which say who they are.
fn rig(listen: &str, more: &str, route: &str) -> (Weir, Vec<Upstream>) {
    let upstreams: Vec<_> = ["one", "two", "three"].map(|name| Upstream::start(responder::ok(name))).into();
    let urls: Vec<String> = upstreams.iter().map(Upstream::url).collect();
    (Weir::builder(program()).config(config(&urls, listen, more, route)).start(), upstreams)
}

fn config(urls: &[String], listen: &str, more: &str, route: &str) -> String {
    format!(
        "listen: [{{bind: 127.0.0.1:0{listen}}}]\nadmin: 127.0.0.1:0\nworkers: 2\ncaches: {{c: {{mode: ttl, ttl: 1m}}}}\n\
         upstreams:\n  u: {{targets: [{}], balance: {{cookie: target}}{more}}}\n\
         routes: [{{match: {{path: /*}}, upstream: u{route}}}]\n",
        urls.join(", ")
    )
}

/// A GET with cookies; the body, and the cookie that was set.
fn get(client: &mut RawClient, cookies: &str) -> (String, Option<String>) {
    client.request("GET", "/", &[("Cookie", cookies)], "");
    let response = client.read_response();
    assert_eq!(response.status(), 200);
    (response.text().to_owned(), response.field("set-cookie").map(str::to_owned))
}

/// The pair of a `Set-Cookie` field.
fn pair(cookie: &str) -> &str {
    cookie.split(';').next().unwrap()
}

#[test]
fn a_client_stays_at_the_target_of_its_first_request() {
    let (weir, upstreams) = rig("", "", "");
    let mut cookies = std::collections::HashMap::new();
    for _ in 0..40 {
        let mut client = weir.connect();
        let (first, cookie) = get(&mut client, "a=b");
        let cookie = cookie.expect("a new client gets one");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
        let pair = pair(&cookie).to_owned();
        assert!(!pair.contains("127.0.0.1") && pair.len() == "target=".len() + 32, "{pair}");
        for _ in 0..4 {
            // On other connections, to other workers, and none is set anew.
            assert_eq!(get(&mut weir.connect(), &format!("x=1; {pair}; y=2")), (first.clone(), None));
        }
        assert_eq!(cookies.entry(first).or_insert_with(|| pair.clone()), &pair, "one value for each target");
    }
    assert_eq!(cookies.len(), upstreams.len(), "clients without a cookie are shared out");
    // A value that names nobody is replaced.
    for bad in ["target=", "target=ffffffffffffffffffffffffffffffff", "target=short", "xtarget=1"] {
        assert!(get(&mut weir.connect(), bad).1.is_some(), "{bad}");
    }
}

#[test]
fn another_target_serves_when_it_is_out_and_becomes_the_clients() {
    let (weir, upstreams) = rig("", ", health: {path: /, interval: 50ms, timeout: 500ms, unhealthy_after: 1}", "");
    let mut client = weir.connect();
    let (first, cookie) = get(&mut client, "a=b");
    let cookie = cookie.unwrap();
    let index = ["one", "two", "three"].iter().position(|name| *name == first).unwrap();
    upstreams[index].stop();
    let (second, moved) = get(&mut client, pair(&cookie));
    let moved = moved.expect("the new target's");
    assert_ne!(first, second);
    assert_eq!(get(&mut client, pair(&moved)), (second, None));
    upstreams[index].restart();
    wait::until(DEADLINE, "the first one to serve again", || get(&mut client, pair(&cookie)) == (first.clone(), None));
}

#[test]
fn replicas_and_restarts_agree_unless_their_secrets_differ() {
    let (weir, upstreams) = rig("", "", "");
    let urls: Vec<String> = upstreams.iter().map(Upstream::url).collect();
    let (first, cookie) = get(&mut weir.connect(), "a=b");
    let cookie = cookie.unwrap();
    let replica = Weir::builder(program()).config(config(&urls, "", "", "")).start();
    assert_eq!(get(&mut replica.connect(), pair(&cookie)), (first, None));
    let text =
        config(&urls, "", "", "").replace("{cookie: target}", "{cookie: {name: target, secret: 0123456789abcdef}}");
    let other = Weir::builder(program()).config(text.clone()).start();
    assert!(get(&mut other.connect(), pair(&cookie)).1.is_some());
    // A reload keeps the targets and changes their names.
    weir.rewrite_config(&text);
    wait::until(DEADLINE, "the reload", || get(&mut weir.connect(), pair(&cookie)).1.is_some());
}

#[test]
fn over_tls_the_cookie_is_secure_and_a_cache_keeps_none() {
    let certificates = Certificates::localhost();
    let tls = tls_option(&certificates.certificate(), &certificates.key());
    let (weir, _upstreams) = rig(&tls, "", "");
    let url = format!("https://127.0.0.1:{}/", weir.addr().port());
    for protocol in ["--http1.1", "--http2"] {
        let text = curl(&["-i", "-k", protocol, &url]).to_lowercase();
        assert!(text.contains("; httponly; samesite=lax; secure\r\n"), "{protocol}: {text}");
    }
    let (weir, _upstreams) = rig("", "", ", cache: c");
    for _ in 0..3 {
        let response = weir.get("/cached");
        assert_eq!(response.field("set-cookie"), None, "a stored response is everyone's");
    }
}
