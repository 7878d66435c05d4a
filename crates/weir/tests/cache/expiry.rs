//! What happens when a response that many clients use expires, and what does not let it go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use testkit::http::Message;
use testkit::{Gate, RawClient, Upstream, responder, wait};

use crate::coalescing::wait_for_followers;
use crate::{DEADLINE, count, gateway};

const HTTP: &str = "{mode: http}";

/// Fields of a response that is stale when it comes.
const STALE: [(&str, &str); 3] = [("Cache-Control", "public, max-age=100"), ("Age", "200"), ("ETag", "\"v1\"")];

fn send(weir: &testkit::Weir, fields: &[(&str, &str)]) -> RawClient {
    let mut client = weir.connect();
    client.set_deadline(DEADLINE);
    client.request("GET", "/", fields, "");
    client
}

/// A first response that is stale at once, then what `next` says, behind a gate.
fn expiring(
    gate: &Gate,
    next: impl Fn(usize, &Message) -> (u16, Vec<(&'static str, String)>, String) + Send + Sync + 'static,
) -> Upstream {
    let (gate, number) = (gate.clone(), AtomicUsize::new(0));
    Upstream::start(move |conn, request| {
        let number = number.fetch_add(1, Ordering::SeqCst);
        if number == 0 {
            return conn.respond(200, &STALE, "first");
        }
        conn.pass(&gate)?;
        let (status, fields, body) = next(number, request);
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
        conn.respond(status, &fields, body)
    })
}

/// The clients of a public object: browsers that have it, visitors with cookies, programs with credentials, and all of that together.
const KINDS: [&[(&str, &str)]; 5] = [
    &[],
    &[("If-None-Match", "\"v1\"")],
    &[("Cookie", "session=1")],
    &[("Authorization", "Bearer 1")],
    &[("If-None-Match", "\"v1\""), ("Cookie", "session=2"), ("Authorization", "Bearer 2")],
];

/// Whoever leads: 1,000 clients, one fetch.
#[test]
fn a_public_response_that_expires_is_fetched_once_for_all_clients() {
    for (leader, is_confirmed) in [(1, true), (1, false), (2, true), (3, false), (4, true), (4, false)] {
        let gate = Gate::new();
        let origin = expiring(&gate, move |_, request| {
            let control = ("Cache-Control", "public, max-age=100".to_owned());
            let is_confirmed = is_confirmed && request.head.field("if-none-match") == Some("\"v1\"");
            match is_confirmed {
                true => (304, vec![control, ("ETag", "\"v1\"".into())], String::new()),
                false => (200, vec![control, ("ETag", "\"v2\"".into())], "second".into()),
            }
        });
        let weir = gateway(&origin, HTTP);
        assert_eq!(weir.get("/").text(), "first");
        let many = 1000;
        let mut clients = vec![(leader, send(&weir, KINDS[leader]))];
        origin.wait_for_requests(2);
        clients.extend((1..many).map(|number| (number % KINDS.len(), send(&weir, KINDS[number % KINDS.len()]))));
        wait_for_followers(&weir, many - 1);
        gate.open();
        for (kind, mut client) in clients {
            let response = client.read_response();
            let has_condition = KINDS[kind].iter().any(|(name, _)| *name == "If-None-Match");
            let expected = match (is_confirmed, has_condition) {
                (true, true) => (304, ""),
                (true, false) => (200, "first"),
                (false, _) => (200, "second"),
            };
            assert_eq!((response.status(), response.text()), expected, "leader {leader}, client {kind}");
        }
        assert_eq!(origin.request_count(), 2, "leader {leader}");
        assert_eq!(origin.requests()[1].head.field("if-none-match"), Some("\"v1\""));
    }
}

#[test]
fn a_condition_of_the_first_client_is_not_sent_for_all() {
    let gate = Gate::new();
    let origin = Upstream::start(responder::gated(
        &gate,
        Box::new(|conn, request| match request.head.field("if-none-match") {
            Some(_) => conn.respond(304, &[("ETag", "\"v1\"")], ""),
            None => conn.respond(200, &[("ETag", "\"v1\""), ("Cache-Control", "max-age=100")], "whole"),
        }),
    ));
    let weir = gateway(&origin, HTTP);
    let mut leader = send(&weir, KINDS[1]);
    origin.wait_for_requests(1);
    let mut followers: Vec<RawClient> = (0..20).map(|_| send(&weir, &[])).collect();
    wait_for_followers(&weir, 20);
    gate.open();
    assert_eq!(leader.read_response().status(), 304);
    for client in &mut followers {
        assert_eq!(client.read_response().text(), "whole");
    }
    assert_eq!(origin.request_count(), 1);
}

/// A response to one client's credentials, whatever it says short of `public`, reaches nobody else; nor does what others get reach it.
#[test]
fn what_is_not_public_reaches_no_one_else() {
    for control in ["private, max-age=100", "max-age=100", "no-store", ""] {
        for leader in 0..4 {
            let gate = Gate::new();
            let origin = Upstream::start(responder::gated(
                &gate,
                Box::new(move |conn, request| {
                    let who = request.head.field("x-who").unwrap_or("nobody").to_owned();
                    conn.respond(200, &[("Cache-Control", control)], who)
                }),
            ));
            let weir = gateway(&origin, HTTP);
            let names: Arc<Vec<String>> = Arc::new((0..24).map(|number| number.to_string()).collect());
            let with = |number: usize| {
                let fields: &[(&str, &str)] = match (leader + number) % 4 {
                    0 => &[],
                    1 => &[("Cookie", "a=b")],
                    2 => &[("Authorization", "Bearer a")],
                    _ => &[("Cookie", "a=b"), ("If-None-Match", "\"x\"")],
                };
                let own = [&[("X-Who", &*names[number])], fields].concat();
                ((leader + number) % 4, send(&weir, &own))
            };
            let mut clients = vec![with(0)];
            origin.wait_for_requests(1);
            clients.extend((1..24).map(with));
            wait_for_followers(&weir, 23);
            gate.open();
            for (number, (kind, mut client)) in clients.into_iter().enumerate() {
                let response = client.read_response();
                let is_own = response.text() == names[number];
                // Those without credentials may share what is not private.
                let may_share = kind == 0 && control == "max-age=100";
                assert!(is_own || may_share, "{control}: {number} got that of {}", response.text());
                if !is_own {
                    let owner: usize = response.text().parse().unwrap();
                    assert_eq!((leader + owner) % 4, 0, "{control}: what was sent to credentials was shared");
                }
            }
        }
    }
}

/// A 304 may take a response back from those who share it.
#[test]
fn what_a_304_makes_private_is_shared_no_more() {
    let gate = Gate::new();
    let origin = expiring(&gate, |number, request| {
        let control = ("Cache-Control", "private, max-age=100".to_owned());
        match request.head.field("if-none-match") {
            Some(_) => (304, vec![control, ("ETag", "\"v1\"".into())], String::new()),
            None => (200, vec![control], format!("own {number}")),
        }
    });
    let weir = gateway(&origin, HTTP);
    weir.get("/");
    let mut leader = send(&weir, &[]);
    origin.wait_for_requests(2);
    let mut followers: Vec<RawClient> = (0..10).map(|_| send(&weir, &[])).collect();
    wait_for_followers(&weir, 10);
    gate.open();
    assert_eq!(leader.read_response().text(), "first");
    let mut bodies: Vec<String> = followers.iter_mut().map(|client| client.read_response().text().to_owned()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 10, "each has its own: {bodies:?}");
    assert!(bodies.iter().all(|body| body.starts_with("own ")), "{bodies:?}");
}

#[test]
fn clients_of_every_kind_have_a_stale_response_fetched_in_the_background() {
    for kind in KINDS {
        let fresh = ("Cache-Control", "public, max-age=100, stale-while-revalidate=1000");
        let number = AtomicUsize::new(0);
        let origin = Upstream::start(move |conn, _| match number.fetch_add(1, Ordering::SeqCst) {
            0 => conn.respond(200, &[fresh, ("Age", "200"), ("ETag", "\"v1\"")], "old"),
            _ => conn.respond(200, &[fresh, ("ETag", "\"v2\"")], "new"),
        });
        let weir = gateway(&origin, HTTP);
        weir.get("/");
        let served = send(&weir, kind).read_response();
        assert!(served.status() == 304 || served.text() == "old");
        wait::until(DEADLINE, "the new response", || weir.get("/").text() == "new");
        assert_eq!(origin.request_count(), 2, "{kind:?}");
    }
}

/// A client that wants validation, and gets a refusal of its own, evicts nothing.
#[test]
fn a_client_cannot_evict_by_what_concerns_it_alone() {
    let origin = Upstream::start(|conn, request| {
        let public = [("Cache-Control", "public, max-age=1000")];
        match request.head.field("x-want").and_then(|want| want.parse::<u16>().ok()) {
            None if request.head.field("cookie").is_some() => {
                conn.respond(200, &[("Cache-Control", "private")], "for a member")
            }
            None => conn.respond(200, &public, "for all"),
            Some(status) => conn.respond(status, &[("Cache-Control", "no-store")], "refused"),
        }
    });
    let weir = gateway(&origin, HTTP);
    assert_eq!(weir.get("/").text(), "for all");
    for status in ["400", "401", "403", "406", "412", "416", "429", "431", "500", "503"] {
        let fields = [("X-Want", status), ("Cache-Control", "no-cache")];
        assert_eq!(weir.request("GET", "/", &fields, "").status().to_string(), status);
        assert_eq!(weir.get("/").field("x-cache"), Some("HIT"), "after {status}");
    }
    let member = weir.request("GET", "/", &[("Cookie", "a=b"), ("Cache-Control", "no-cache")], "");
    assert_eq!(member.text(), "for a member");
    assert_eq!(weir.get("/").field("x-cache"), Some("HIT"), "after a member's response");
    let gone = [("X-Want", "410"), ("Cache-Control", "no-cache")];
    weir.request("GET", "/", &gone, "");
    assert_eq!(weir.get("/").field("x-cache"), Some("MISS"), "410 is news for all");
}

/// The primary's stored response outlives what a fallback says, which sets no hit-for-miss either.
#[test]
fn a_fallback_neither_evicts_nor_separates() {
    let gate = Gate::new();
    let fallback = Upstream::start(responder::gated(&gate, responder::ok("fallback")));
    let is_down = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let down = is_down.clone();
    let origin = Upstream::start(move |conn, _| match down.load(Ordering::SeqCst) {
        true => conn.respond(503, &[], ""),
        false => conn.respond(200, &[("Cache-Control", "max-age=1000"), ("ETag", "\"v1\"")], "primary"),
    });
    let top = "";
    let yaml = format!(
        "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nworkers: 2\n{top}\nupstreams:\n  u:\n    targets: [{}]\n    retry: {{extra_attempts: 0, on: [503]}}\n  \
         v:\n    targets: [{}]\ncaches:\n  c: {HTTP}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n    fallback: [v]\n    cache: c\n",
        origin.url(),
        fallback.url()
    );
    let weir = testkit::Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    assert_eq!(weir.get("/").text(), "primary");
    is_down.store(true, Ordering::SeqCst);
    gate.release();
    assert_eq!(weir.request("GET", "/", &[("Cache-Control", "no-cache")], "").text(), "fallback");
    assert_eq!(weir.get("/").text(), "primary");
    // Nothing is stored of this one: two waves, and in both all but one wait.
    for wave in 1..=2 {
        let mut clients: Vec<RawClient> = (0..10)
            .map(|_| {
                let mut client = weir.connect();
                client.request("GET", "/other", &[], "");
                client
            })
            .collect();
        wait_for_followers(&weir, 9);
        gate.release();
        thread::yield_now();
        (0..9).for_each(|_| gate.release());
        for client in &mut clients {
            assert_eq!(client.read_response().text(), "fallback", "wave {wave}");
        }
    }
    assert_eq!(count(&weir, "entries"), 1);
}
