//! Authentication with the real program: keys made by the command line, tokens of two kinds, passwords, and the neighbours (limits, access log,
//! metrics, routes without authentication) switched on.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use testkit::{DEADLINE, Message, Upstream, Weir, responder, wait};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

struct Rig {
    weir: Weir,
    upstream: Upstream,
    keys: String,
}

fn keys(arguments: &[&str]) -> testkit::Finished {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).args(["keys"]).args(arguments.iter().copied()).command()
}

fn create(file: &str, consumer: &str, more: &[&str]) -> String {
    let made = keys(&[&["create", consumer, "--file", file], more].concat());
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    made.stdout.trim().to_owned()
}

/// A gateway with three authenticators; `top` are further sections, `routes` its routes before the open one.
fn rig(top: &str, routes: &str) -> Rig {
    let upstream = Upstream::start(responder::ok("hello"));
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let keys = builder.dir().join("keys.yaml").display().to_string();
    let users = builder.dir().join("users").display().to_string();
    std::fs::write(&users, format!("ali:{}\n", bcrypt::hash("sesame", 4).unwrap())).unwrap();
    std::fs::write(&keys, "").unwrap();
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\nupstreams: {{u: {{targets: [{url}]}}}}\n\
         auth:\n  keys: {{api_key: {{store: {{file: {keys}}}, headers: {{X-Consumer: consumer, X-Tier: tier}}}}}}\n  \
         staff: {{jwt: {{issuer: me, audience: api, secret: {SECRET}, headers: {{X-User: sub, X-Team: team}}, tier: plan}}}}\n  \
         users: {{basic: {{file: {users}, realm: inside}}}}\n{top}routes:\n{routes}  - match: {{path: /open/*}}\n    auth: none\n    upstream: u\n",
        url = upstream.url()
    );
    Rig { weir: builder.config(yaml).start(), upstream, keys }
}

const PROTECTED: &str = "  - match: {path: /keys/*}\n    auth: keys\n    upstream: u\n  \
                         - match: {path: /staff/*}\n    auth: staff\n    upstream: u\n  \
                         - match: {path: /both/*}\n    auth: [[users, keys]]\n    upstream: u\n  \
                         - match: {path: /any/*}\n    auth: [staff, keys, users]\n    upstream: u\n";

fn token(claims: &Value) -> String {
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn claims(more: Value) -> Value {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut all = json!({"iss": "me", "aud": "api", "sub": "u1", "exp": now + 600});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

impl Rig {
    fn get(&self, path: &str, fields: &[(&str, &str)]) -> Message {
        self.weir.request("GET", path, fields, "")
    }

    fn status(&self, path: &str, fields: &[(&str, &str)]) -> u16 {
        self.get(path, fields).status()
    }

    /// The newest request that the upstream saw.
    fn seen(&self) -> String {
        String::from_utf8(self.upstream.requests().pop().expect("a request").head.raw).unwrap().to_ascii_lowercase()
    }
}

fn challenges(message: &Message) -> Vec<&str> {
    message.head.all("www-authenticate")
}

#[test]
fn a_key_opens_its_route_within_a_second_of_being_made_and_closes_it_when_revoked() {
    let rig = rig("", PROTECTED);
    let key = create(&rig.keys, "shop", &["--tier", "gold"]);
    wait::until(DEADLINE, "the new key opens", || rig.status("/keys/a", &[("X-API-Key", &key)]) == 200);
    let seen = rig.seen();
    assert!(seen.contains("x-consumer: shop\r\n") && seen.contains("x-tier: gold\r\n"), "{seen}");
    assert!(!seen.contains(&key.to_ascii_lowercase()), "the upstream sees the key: {seen}");
    assert_eq!(rig.status("/keys/a", &[("Authorization", &format!("bearer   {key}"))]), 200);
    assert!(!rig.seen().contains("authorization"));

    for (fields, status) in [
        (vec![], 401),
        (vec![("X-API-Key", "wk_nonsense")], 401),
        (vec![("Authorization", "Basic eDp5")], 401),
        (vec![("Authorization", "Bearer")], 401),
        (vec![("X-API-Key", &*key), ("x-api-key", &*key)], 400),
        (vec![("X-API-Key", &*key), ("X_API_Key", "other")], 400),
        (vec![("X-API-Key", "two words")], 400),
    ] {
        let refused = rig.get("/keys/a", &fields);
        assert_eq!(refused.status(), status, "{fields:?}");
        assert_eq!(challenges(&refused).len(), 1, "{fields:?}");
    }
    // One wrong letter.
    let mut wrong = key.clone().into_bytes();
    wrong[20] = if wrong[20] == b'x' { b'y' } else { b'x' };
    assert_eq!(rig.status("/keys/a", &[("X-API-Key", std::str::from_utf8(&wrong).unwrap())]), 401);

    let id = &key[3..15];
    let rotated = keys(&["rotate", id, "--file", &rig.keys, "--overlap", "1h"]);
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    let next = rotated.stdout.trim().to_owned();
    wait::until(DEADLINE, "the rotated key opens", || rig.status("/keys/a", &[("X-API-Key", &next)]) == 200);
    assert_eq!(rig.status("/keys/a", &[("X-API-Key", &key)]), 200, "the old key holds during the overlap");
    assert_eq!(keys(&["revoke", id, "--file", &rig.keys]).code, Some(0));
    wait::until(DEADLINE, "the revoked key is refused", || rig.status("/keys/a", &[("X-API-Key", &key)]) == 401);
    assert_eq!(rig.status("/keys/a", &[("X-API-Key", &next)]), 200);
    let listed = keys(&["list", "--file", &rig.keys]);
    assert!(listed.stdout.contains("revoked") && listed.stdout.matches("shop").count() == 2, "{}", listed.stdout);
    assert!(!listed.stdout.contains(&key), "a list shows no key");
}

#[test]
fn a_broken_key_file_leaves_the_keys_before_in_force() {
    let rig = rig("", PROTECTED);
    let key = create(&rig.keys, "shop", &[]);
    wait::until(DEADLINE, "the new key opens", || rig.status("/keys/a", &[("X-API-Key", &key)]) == 200);
    let text = std::fs::read_to_string(&rig.keys).unwrap();
    std::fs::write(&rig.keys, format!("{text}- {{\"id\": \"x\"}}\n")).unwrap();
    wait::until(DEADLINE, "the error is logged", || rig.weir.stderr().contains("those before stay in force"));
    assert!(rig.weir.stderr().contains("line 2"), "{}", rig.weir.stderr());
    assert_eq!(rig.status("/keys/a", &[("X-API-Key", &key)]), 200);
    std::fs::remove_file(&rig.keys).unwrap();
    wait::until(DEADLINE, "the loss is logged", || {
        rig.weir.stderr().matches("those before stay in force").count() == 2
    });
    assert_eq!(rig.status("/keys/a", &[("X-API-Key", &key)]), 200);
}

/// The key file is lost, broken and restored while requests are sent: what it said last stays in force, for each of them.
#[test]
fn a_key_file_that_comes_and_goes_under_load_changes_the_response_of_no_request() {
    let rig = rig("", PROTECTED);
    let (good, revoked) = (create(&rig.keys, "shop", &[]), create(&rig.keys, "past", &[]));
    assert_eq!(keys(&["revoke", &revoked[3..15], "--file", &rig.keys]).code, Some(0));
    wait::until(DEADLINE, "the new key opens", || rig.status("/keys/a", &[("X-API-Key", &good)]) == 200);
    let text = std::fs::read_to_string(&rig.keys).unwrap();
    let losses = || rig.weir.stderr().matches("those before stay in force").count();
    let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..12 {
            let (rig, good, revoked, stop, served, wrong) = (&rig, &good, &revoked, &stop, &served, &wrong);
            scope.spawn(move || {
                let (key, expected) =
                    [(&**good, 200), (&**revoked, 401), ("sk-a-key-that-nobody-has", 401)][client % 3];
                let mut connection = rig.weir.connect();
                while !stop.load(Ordering::Relaxed) {
                    connection.request("GET", "/keys/a", &[("X-API-Key", key)], "");
                    let status = connection.read_response().status();
                    if status != expected {
                        wrong.lock().unwrap().push((expected, status));
                    }
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..2 {
                let (before, sent) = (losses(), served.load(Ordering::Relaxed));
                std::fs::remove_file(&rig.keys).unwrap();
                wait::until(DEADLINE, "the loss is logged", || losses() > before);
                std::fs::write(&rig.keys, "- {").unwrap();
                wait::until(DEADLINE, "the error is logged", || losses() > before + 1);
                std::fs::write(&rig.keys, &text).unwrap();
                let late = create(&rig.keys, "late", &[]);
                wait::until(DEADLINE, "a key of the restored file opens", || {
                    rig.status("/keys/a", &[("X-API-Key", &late)]) == 200
                });
                assert!(served.load(Ordering::Relaxed) > sent);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "expected and seen: {wrong:?}");
}

#[test]
fn a_token_opens_its_route_and_names_its_user() {
    let rig = rig("", PROTECTED);
    let good = token(&claims(json!({"team": "north", "plan": "gold"})));
    let bearer = format!("Bearer {good}");
    for _ in 0..2 {
        assert_eq!(rig.status("/staff/a", &[("Authorization", &bearer), ("X-User", "root"), ("x_team", "south")]), 200);
        let seen = rig.seen();
        assert!(seen.contains("x-user: u1\r\n") && seen.contains("x-team: north\r\n"), "{seen}");
        assert!(!seen.contains("root") && !seen.contains("south") && !seen.contains("bearer"), "{seen}");
    }
    for (text, status) in [
        (token(&claims(json!({"exp": 1}))), 401),
        (token(&claims(json!({"aud": "other"}))), 401),
        (token(&claims(json!({"iss": "you"}))), 401),
        (good.replacen("ey", "eY", 1), 401),
        ("garbage".to_owned(), 401),
        ("a.b.c".to_owned(), 401),
        (good.rsplit_once('.').unwrap().0.to_owned() + ".", 401),
    ] {
        let refused = rig.get("/staff/a", &[("Authorization", &format!("Bearer {text}"))]);
        assert_eq!(refused.status(), status, "{text}");
        assert_eq!(challenges(&refused), ["Bearer realm=\"weir\", error=\"invalid_token\""]);
        assert!(!refused.text().contains("exp") && !refused.text().contains("audience"), "{}", refused.text());
    }
    let twice = rig.get("/staff/a", &[("Authorization", &bearer), ("Authorization", &bearer)]);
    assert_eq!(twice.status(), 400);
    assert_eq!(challenges(&rig.get("/staff/a", &[])), ["Bearer realm=\"weir\""]);
}

/// GHSA-x677-9fxg-v5c5 and its successors: names that only look different.
#[test]
fn fields_of_any_authenticator_are_removed_on_every_route() {
    let rig = rig("trusted_proxies: [127.0.0.0/8]\n", PROTECTED);
    let forged = ["X-User", "x_user", "X.User", "X_USER", "XUser", "X-Consumer", "x_consumer", "X-Tier", "X-Team"];
    let fields: Vec<_> = forged.iter().map(|name| (*name, "forged")).collect();
    assert_eq!(rig.status("/open/a", &fields), 200);
    assert!(!rig.seen().contains("forged"), "{}", rig.seen());
    // Also where the authenticator has nothing to write: this token names no team.
    let bearer = format!("Bearer {}", token(&claims(json!({}))));
    assert_eq!(rig.status("/staff/a", &[("Authorization", &bearer), ("X-Team", "forged")]), 200);
    assert!(!rig.seen().contains("x-team"), "{}", rig.seen());
}

#[test]
fn passwords_are_checked_and_cached() {
    let rig = rig("", "  - match: {path: /users/*}\n    auth: users\n    upstream: u\n");
    let good = basic("ali", "sesame");
    for _ in 0..20 {
        assert_eq!(rig.status("/users/a", &[("Authorization", &good)]), 200);
        assert!(!rig.seen().contains("authorization"));
    }
    for wrong in [basic("ali", "open"), basic("bea", "sesame"), basic("", "sesame")] {
        let refused = rig.get("/users/a", &[("Authorization", &wrong)]);
        assert!(matches!(refused.status(), 401 | 400), "{wrong}");
    }
    assert_eq!(challenges(&rig.get("/users/a", &[])), ["Basic realm=\"inside\", charset=\"UTF-8\""]);
    assert_eq!(rig.status("/users/a", &[("Authorization", "Basic !")]), 400);
}

#[test]
fn one_of_a_list_is_enough_and_an_inner_list_needs_all() {
    let rig = rig("", PROTECTED);
    let key = create(&rig.keys, "shop", &[]);
    wait::until(DEADLINE, "the new key opens", || rig.status("/keys/a", &[("X-API-Key", &key)]) == 200);
    let (password, bearer_key) = (basic("ali", "sesame"), format!("Bearer {key}"));
    let bearer_token = format!("Bearer {}", token(&claims(json!({}))));
    for authorization in [&password, &bearer_key, &bearer_token] {
        assert_eq!(rig.status("/any/a", &[("Authorization", authorization)]), 200, "{authorization}");
    }
    assert_eq!(rig.status("/both/a", &[("Authorization", &password), ("X-API-Key", &key)]), 200);
    assert_eq!(rig.status("/both/a", &[("Authorization", &password)]), 401);
    assert_eq!(rig.status("/both/a", &[("X-API-Key", &key)]), 401);
    // A bad credential of the first kind is not replaced by a good one of another.
    let expired = format!("Bearer {}", token(&claims(json!({"exp": 1}))));
    assert_eq!(rig.status("/any/a", &[("Authorization", &expired), ("X-API-Key", &key)]), 401);
    assert_eq!(challenges(&rig.get("/any/a", &[])).len(), 2, "one for each scheme");
}

#[test]
fn rules_admit_by_scope_claim_consumer_and_address() {
    let routes = "  - match: {path: /scope}\n    auth: staff\n    allow: {scopes: [orders:read]}\n    upstream: u\n  \
                  - match: {path: /claim}\n    auth: staff\n    allow: {claims: {team: [north, east], level: 3}}\n    upstream: u\n  \
                  - match: {path: /consumer}\n    auth: staff\n    allow: {consumers: [u2, u1]}\n    upstream: u\n  \
                  - match: {path: /tier}\n    auth: staff\n    allow: {tiers: gold}\n    upstream: u\n  \
                  - match: {path: /here}\n    allow: {ips: [127.0.0.0/8]}\n    upstream: u\n  \
                  - match: {path: /elsewhere}\n    allow: {not_ips: [127.0.0.1]}\n    upstream: u\n";
    let rig = rig("", routes);
    let status =
        |path: &str, more: Value| rig.status(path, &[("Authorization", &format!("Bearer {}", token(&claims(more))))]);
    assert_eq!(status("/scope", json!({"scope": "orders:write orders:read"})), 200);
    assert_eq!(status("/scope", json!({"scope": "orders"})), 403);
    assert_eq!(status("/claim", json!({"team": "east", "level": 3})), 200);
    assert_eq!(status("/claim", json!({"team": "east", "level": "3"})), 403);
    assert_eq!(status("/claim", json!({"level": 3})), 403);
    assert_eq!(status("/consumer", json!({})), 200);
    assert_eq!(status("/consumer", json!({"sub": "u3"})), 403);
    assert_eq!(status("/tier", json!({"plan": "gold"})), 200);
    assert_eq!(status("/tier", json!({})), 403);
    assert_eq!((rig.status("/here", &[]), rig.status("/elsewhere", &[])), (200, 403));
    let refused = rig.get("/scope", &[("Authorization", &format!("Bearer {}", token(&claims(json!({})))))]);
    assert_eq!(challenges(&refused), ["Bearer realm=\"weir\", error=\"insufficient_scope\", scope=\"orders:read\""]);
}

#[test]
fn paths_cannot_be_mapped_without_a_credential() {
    let routes = "  - match: {path: /a, methods: [GET]}\n    upstream: u\n    cors: {origins: ['https://app.example.com']}\n  \
                  - match: {path: /health}\n    respond: {builtin: healthz}\n";
    let rig = rig("defaults: {auth: staff}\n", routes);
    let bearer = format!("Bearer {}", token(&claims(json!({}))));
    for (path, with) in [("/a", 200), ("/b", 404), ("/a/../c", 404)] {
        assert_eq!(rig.status(path, &[]), 401, "{path}");
        assert_eq!(rig.status(path, &[("Authorization", &bearer)]), with, "{path}");
    }
    assert_eq!(rig.weir.request("DELETE", "/a", &[], "").status(), 401);
    assert_eq!(rig.weir.request("DELETE", "/a", &[("Authorization", &bearer)], "").status(), 405);
    // Browsers send preflights without credentials, load balancers too.
    let preflight = [("Origin", "https://app.example.com"), ("Access-Control-Request-Method", "GET")];
    assert_eq!(rig.weir.request("OPTIONS", "/a", &preflight, "").status(), 204);
    assert_eq!((rig.status("/health", &[]), rig.status("/open/a", &[])), (200, 200));
}

#[test]
fn limits_count_by_consumer_after_authentication_and_by_address_before() {
    let top = "limits:\n  each: {key: consumer, algorithm: fixed_window, quota: 3, window: 1h}\n  \
               address: {key: client_ip, algorithm: fixed_window, quota: 10, window: 1h}\n";
    let routes = "  - match: {path: /limited}\n    auth: staff\n    limits: [each, address]\n    upstream: u\n";
    let rig = rig(top, routes);
    let as_user = |user: &str| {
        rig.status("/limited", &[("Authorization", &format!("Bearer {}", token(&claims(json!({"sub": user})))))])
    };
    assert_eq!([as_user("a"), as_user("a"), as_user("a")], [200; 3]);
    // Refused by the consumer's limit: the address gets back what it gave.
    assert_eq!([as_user("a"), as_user("a"), as_user("a"), as_user("a"), as_user("a")], [429; 5]);
    assert_eq!([as_user("b"), as_user("b"), as_user("b")], [200; 3]);
    // Failed attempts count for the address: 3 + 3 + 4 = 10.
    for _ in 0..4 {
        assert_eq!(rig.status("/limited", &[]), 401);
    }
    assert_eq!(rig.status("/limited", &[]), 429);
    assert_eq!(as_user("c"), 429);
}

#[test]
fn logs_and_metrics_know_the_consumer_and_no_secret() {
    let rig = rig("", PROTECTED);
    let bearer = format!("Bearer {}", token(&claims(json!({}))));
    assert_eq!(rig.status("/staff/a", &[("Authorization", &bearer)]), 200);
    assert_eq!(rig.status("/staff/a", &[("Authorization", "Bearer a.b.c")]), 401);
    assert_eq!(rig.status("/staff/a", &[]), 401);
    wait::until(DEADLINE, "three lines", || {
        rig.weir.stdout().lines().filter(|line| line.contains("\"path\"")).count() == 3
    });
    let log = rig.weir.stdout();
    assert!(log.contains("\"consumer\":\"u1\"") && log.contains("\"reason\":\"unauthenticated\""), "{log}");
    let metrics = rig.weir.admin_get("/metrics").text().to_owned();
    for (outcome, count) in [("ok", 1), ("invalid", 1), ("missing", 1)] {
        let line = format!("auth_requests_total{{auth=\"staff\",outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let everything = [log, metrics, rig.weir.stderr(), rig.weir.admin_get("/config").text().to_owned()].concat();
    for secret in [SECRET, &bearer[7..], "$2b$"] {
        assert!(!everything.contains(secret), "{secret} is shown");
    }
}

#[test]
fn what_is_wrong_is_said_at_its_line() {
    let dir = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let path = |name: &str, text: &str| {
        let path = dir.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let broken_keys = path("keys.yaml", "- {\"id\":\"a\",\"sha256\":\"12\",\"consumer\":\"x\"}\n");
    let weak_users = path("users", "ali:$apr1$abc$def\n");
    let key_set = path("set.json", r#"{"keys":[{"kty":"oct","k":"AA"}]}"#);
    for (auth, expected) in [
        (format!("{{api_key: {{store: {{file: {broken_keys}}}}}}}"), "line 1: `sha256` must have 64"),
        ("{api_key: {store: {file: /nowhere}}}".to_owned(), "cannot read /nowhere"),
        (format!("{{basic: {{file: {weak_users}}}}}"), "line 1: only bcrypt and Argon2id"),
        ("{jwt: {issuer: me, audience: any}}".to_owned(), "needs `jwks` or `secret`"),
        ("{jwt: {issuer: me, audience: any, secret: short}}".to_owned(), "a secret must have 32 bytes"),
        (format!("{{jwt: {{issuer: me, audience: any, jwks: {{file: {key_set}}}}}}}"), "must not be in a key set"),
        (
            format!("{{jwt: {{issuer: me, audience: any, secret: {SECRET}, algorithms: [RS256]}}}}"),
            "`RS256` needs `jwks`",
        ),
        (
            format!("{{jwt: {{issuer: me, audience: any, secret: {SECRET}, algorithms: [none]}}}}"),
            "`none` is not accepted",
        ),
        (
            format!("{{jwt: {{issuer: me, audience: any, secret: {SECRET}, headers: {{Host: sub}}}}}}"),
            "`Host` is changed with",
        ),
        ("{}".to_owned(), "needs exactly one of"),
    ] {
        let yaml = format!(
            "listen: 127.0.0.1:0\nauth:\n  a: {auth}\nroutes: [{{match: {{path: /}}, auth: a, respond: {{body: x}}}}]\n"
        );
        let checked = path("weir.yaml", &yaml);
        let result = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(["check", &checked]).command();
        assert_eq!(result.code, Some(64), "{auth}");
        assert!(
            result.stderr.contains(expected) && result.stderr.contains("weir.yaml:3:"),
            "{auth}: {}",
            result.stderr
        );
        assert!(!result.stderr.contains(SECRET));
    }
    assert!(Path::new(&broken_keys).exists());
}
