//! Tokens of an issuer whose keys are fetched: discovery, rotation, storms of unknown keys, and an issuer that is slow, broken or away.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::{Conn, DEADLINE, Message, Upstream, Weir, responder, wait};

type Pair = Arc<(EcdsaKeyPair, String)>;

fn pair(kid: &str) -> Pair {
    Arc::new((EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(), kid.to_owned()))
}

fn jwk((pair, kid): &(EcdsaKeyPair, String)) -> Value {
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)})
}

/// What the issuer does when its keys are fetched.
#[derive(Clone)]
enum Mode {
    Serves(Vec<Pair>),
    Raw(Vec<u8>),
    Stalls,
}

struct Issuer {
    server: Upstream,
    mode: Arc<Mutex<Mode>>,
    /// Whether it describes itself as RFC 8414 says, not as OpenID Connect does.
    is_oauth: Arc<AtomicBool>,
}

impl Issuer {
    fn start(mode: Mode) -> Self {
        let mode = Arc::new(Mutex::new(mode));
        let base: Arc<OnceLock<String>> = Arc::default();
        let is_oauth = Arc::new(AtomicBool::new(false));
        let (own_mode, own_base, own_oauth) = (mode.clone(), base.clone(), is_oauth.clone());
        let server = Upstream::start(move |conn: &mut Conn, request: &Message| {
            let base = own_base.wait();
            let target = request.head.target();
            if target == "/.well-known/openid-configuration" && own_oauth.load(Ordering::Relaxed) {
                return conn.respond(404, &[], "");
            }
            if target.starts_with("/.well-known/o") {
                let described = json!({"issuer": format!("{base}/"), "jwks_uri": format!("{base}/keys")});
                return conn.respond(200, &[("Content-Type", "application/json")], described.to_string());
            }
            let mode = own_mode.lock().unwrap().clone();
            match mode {
                Mode::Serves(pairs) => {
                    let keys: Vec<Value> = pairs.iter().map(|one| jwk(one)).collect();
                    conn.respond(200, &[("Cache-Control", "public, max-age=3600")], json!({"keys": keys}).to_string())
                }
                Mode::Raw(bytes) => conn.write(bytes),
                Mode::Stalls => conn.stall(),
            }
        });
        base.set(server.url()).unwrap();
        Issuer { server, mode, is_oauth }
    }

    fn now(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// How often the keys were fetched.
    fn fetches(&self) -> usize {
        self.server.requests().iter().filter(|request| request.head.target() == "/keys").count()
    }

    fn token(&self, (pair, kid): &(EcdsaKeyPair, String)) -> String {
        self.token_of(pair, kid)
    }

    fn token_of(&self, pair: &EcdsaKeyPair, kid: &str) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({"iss": format!("{}/", self.server.url()), "aud": "api", "sub": "u1", "exp": now + 600});
        let header = json!({"alg": "ES256", "kid": kid});
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn gateway(issuer: &Issuer, upstream: &Upstream, jwks: &str) -> Weir {
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 2\nupstreams: {{u: {{targets: [{}]}}}}\n\
         auth: {{staff: {{jwt: {{issuer: {}/, audience: api, jwks: {{url: {jwks}}}}}}}}}\n\
         routes:\n  - match: {{path: /open}}\n    upstream: u\n  - match: {{path: /*}}\n    auth: staff\n    upstream: u\n",
        upstream.url(),
        issuer.server.url(),
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn status(weir: &Weir, token: &str) -> u16 {
    weir.request("GET", "/a", &[("Authorization", &format!("Bearer {token}"))], "").status()
}

fn opens(weir: &Weir, token: &str) {
    wait::until(DEADLINE, "the issuer's keys are fetched", || status(weir, token) == 200);
}

#[test]
fn keys_are_discovered_and_a_rotation_refuses_no_token() {
    let upstream = Upstream::start(responder::ok("hello"));
    let (old, new) = (pair("2026-10"), pair("2026-11"));
    let issuer = Issuer::start(Mode::Serves(vec![old.clone()]));
    let weir = gateway(&issuer, &upstream, "discover");
    opens(&weir, &issuer.token(&old));
    assert_eq!(issuer.fetches(), 1);
    issuer.now(Mode::Serves(vec![old.clone(), new.clone()]));
    // Many at once, on both workers: all wait for the one fetch, none is refused.
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert_eq!(status(&weir, &issuer.token(&new)), 200));
        }
    });
    assert_eq!(status(&weir, &issuer.token(&old)), 200);
    assert_eq!(issuer.fetches(), 2);
    // A reload keeps the keys.
    weir.rewrite_config(&std::fs::read_to_string(weir.config_path()).unwrap().replace("path: /open", "path: /opened"));
    wait::until(DEADLINE, "the reload", || weir.get("/opened").status() == 200);
    assert_eq!(status(&weir, &issuer.token(&new)), 200);
    assert_eq!(issuer.fetches(), 2);
}

#[test]
fn a_storm_of_unknown_keys_is_one_fetch_and_disturbs_nobody() {
    let upstream = Upstream::start(responder::ok("hello"));
    let good = pair("good");
    let issuer = Issuer::start(Mode::Serves(vec![good.clone()]));
    let url = format!("{}/keys", issuer.server.url());
    let weir = gateway(&issuer, &upstream, &url);
    opens(&weir, &issuer.token(&good));
    issuer.now(Mode::Stalls);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (weir, issuer) = (&weir, &issuer);
            scope.spawn(move || {
                for number in 0..20 {
                    assert_eq!(status(weir, &issuer.token(&pair(&format!("forged-{thread}-{number}")))), 401);
                }
            });
        }
        let token = issuer.token(&good);
        for _ in 0..100 {
            assert_eq!(status(&weir, &token), 200);
            assert_eq!(weir.get("/open").status(), 200);
        }
    });
    assert!(issuer.fetches() <= 2 + 4, "{} fetches: one, one for the storm, retries of that", issuer.fetches());
}

#[test]
fn a_broken_issuer_leaves_the_keys_before_in_force() {
    let upstream = Upstream::start(responder::ok("hello"));
    let huge = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", 600 * 1024, " ".repeat(600 * 1024));
    for broken in [
        "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: /evil\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"keys\":[]}",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        "garbage\r\n\r\n",
        &huge,
    ] {
        let good = pair("good");
        let issuer = Issuer::start(Mode::Serves(vec![good.clone()]));
        let weir = gateway(&issuer, &upstream, "discover");
        opens(&weir, &issuer.token(&good));
        issuer.now(Mode::Raw(broken.as_bytes().to_vec()));
        assert_eq!(status(&weir, &issuer.token(&pair("new"))), 401);
        wait::until(DEADLINE, "the failure is logged", || weir.stderr().contains("keys were not fetched"));
        assert_eq!(status(&weir, &issuer.token(&good)), 200);
        assert!(!issuer.server.requests().iter().any(|request| request.head.target() == "/evil"));
    }
}

#[test]
fn without_keys_requests_get_503_until_the_issuer_is_there() {
    let upstream = Upstream::start(responder::ok("hello"));
    let good = pair("good");
    let issuer = Issuer::start(Mode::Raw(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let weir = gateway(&issuer, &upstream, "discover");
    let refused = weir.request("GET", "/a", &[("Authorization", &format!("Bearer {}", issuer.token(&good)))], "");
    assert_eq!((refused.status(), refused.field("retry-after").is_some()), (503, true));
    assert_eq!((status(&weir, "no-token"), weir.get("/open").status()), (503, 200));
    assert_eq!(weir.get("/a").status(), 401);
    issuer.now(Mode::Serves(vec![good.clone()]));
    opens(&weir, &issuer.token(&good));
}

fn resident_kib(weir: &Weir) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", weir.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// The issuer fails, stalls, sends too much and recovers in turn, while thousands of tokens name keys that nobody has, as long as a token may be.
#[test]
fn a_flapping_issuer_and_unknown_keys_cost_neither_memory_nor_other_requests() {
    const EACH: usize = 150;
    let began = std::time::Instant::now();
    let upstream = Upstream::start(responder::ok("hello"));
    let (good, forger) = (pair("good"), pair("forger"));
    let issuer = Issuer::start(Mode::Serves(vec![good.clone()]));
    let weir = gateway(&issuer, &upstream, "discover");
    opens(&weir, &issuer.token(&good));
    let huge = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", 1 << 20, " ".repeat(1 << 20));
    let modes = [
        Mode::Raw(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_vec()),
        Mode::Stalls,
        Mode::Raw(huge.into_bytes()),
        Mode::Serves(vec![good.clone()]),
    ];
    let long = "k".repeat(4000);
    let storm = |round: usize| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (weir, issuer, forger, long) = (&weir, &issuer, &forger, &long);
                scope.spawn(move || {
                    for number in 0..EACH {
                        let token = issuer.token_of(&forger.0, &format!("{round}-{thread}-{number}-{long}"));
                        assert_eq!(status(weir, &token), 401);
                    }
                });
            }
            let token = issuer.token(&good);
            for mode in modes.iter().cycle().take(40) {
                issuer.now(mode.clone());
                assert_eq!((status(&weir, &token), weir.get("/open").status()), (200, 200));
            }
        });
    };
    storm(0);
    let before = resident_kib(&weir);
    storm(1);
    storm(2);
    let grown = resident_kib(&weir).saturating_sub(before);
    // As much as 2,400 names of keys have would be 9 MiB.
    assert!(grown < 6 * 1024, "{grown} KiB more");
    // One for the unknown keys in half a minute, and one a second at most while the issuer fails.
    let most = 4 + began.elapsed().as_secs() as usize;
    assert!(
        issuer.fetches() <= most,
        "{} fetches for {} tokens, expected at most {most}",
        issuer.fetches(),
        3 * 8 * EACH
    );
    issuer.now(Mode::Serves(vec![good.clone()]));
    assert_eq!(status(&weir, &issuer.token(&good)), 200);
}

/// Ends the load of a test, also when the test fails.
struct Load<'a>(&'a AtomicBool);

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The issuer is killed and comes back, three times, while clients of each kind send requests. Only tokens that name a key which was not fetched depend
/// on the issuer, and those get 401.
#[test]
fn an_issuer_killed_under_load_changes_the_response_of_no_request() {
    const KINDS: usize = 5;
    let began = std::time::Instant::now();
    let upstream = Upstream::start(responder::ok("hello"));
    let (good, forger) = (pair("good"), pair("forger"));
    let issuer = Issuer::start(Mode::Serves(vec![good.clone()]));
    let weir = gateway(&issuer, &upstream, "discover");
    opens(&weir, &issuer.token(&good));
    let stop = AtomicBool::new(false);
    let done = [const { AtomicUsize::new(0) }; KINDS];
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let _load = Load(&stop);
        for client in 0..4 * KINDS {
            let (weir, issuer, good, forger, stop, done, wrong) =
                (&weir, &issuer, &good, &forger, &stop, &done, &wrong);
            scope.spawn(move || {
                let (kind, cached) = (client % KINDS, issuer.token(good));
                let mut connection = weir.connect();
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (path, token, expected) = match kind {
                        0 => ("/a", cached.clone(), 200),
                        // Its signature is another one each time, so it is verified.
                        1 => ("/a", issuer.token(good), 200),
                        2 => ("/a", issuer.token_of(&forger.0, &format!("forged-{client}-{number}")), 401),
                        3 => ("/a", String::new(), 401),
                        _ => ("/open", String::new(), 200),
                    };
                    let authorization = format!("Bearer {token}");
                    let fields = [("Authorization", &*authorization)];
                    connection.request("GET", path, if token.is_empty() { &[] } else { &fields }, "");
                    let status = connection.read_response().status();
                    if status != expected {
                        wrong.lock().unwrap().push((kind, status));
                    }
                    done[kind].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let all_go_on = || {
            let before = done.each_ref().map(|count| count.load(Ordering::Relaxed));
            wait::until(DEADLINE, "requests of every kind", || {
                done.iter().zip(before).all(|(count, before)| count.load(Ordering::Relaxed) >= before + 40)
            });
        };
        all_go_on();
        for _ in 0..3 {
            issuer.server.stop();
            all_go_on();
            issuer.server.restart();
            all_go_on();
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "kinds and their wrong statuses: {wrong:?}");
    let most = 4 + began.elapsed().as_secs() as usize;
    assert!(issuer.fetches() <= most, "{} fetches, expected at most {most}", issuer.fetches());
}

#[test]
fn an_oauth_server_describes_itself_elsewhere_and_metrics_count_its_fetches() {
    let (issuer, upstream) = (Issuer::start(Mode::Stalls), Upstream::start(responder::ok("x")));
    let key = pair("a");
    issuer.now(Mode::Raw(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n".to_vec()));
    issuer.is_oauth.store(true, Ordering::Relaxed);
    let weir = gateway(&issuer, &upstream, "discover");
    let metric = |name: &str| {
        let metrics = weir.admin_get("/metrics");
        let line = metrics.text().lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
    };
    let failed = "jwks_refresh_total{auth=\"staff\",outcome=\"failed\"}";
    wait::until(DEADLINE, "a fetch that fails", || metric(failed).is_some_and(|count| count >= 1.0));
    assert_eq!(metric("jwks_age_seconds{"), None, "nothing was fetched");
    issuer.now(Mode::Serves(vec![key.clone()]));
    wait::until(DEADLINE, "the keys", || status(&weir, &issuer.token(&key)) == 200);
    assert_eq!(metric("jwks_refresh_total{auth=\"staff\",outcome=\"ok\"}"), Some(1.0));
    assert!(metric("jwks_age_seconds{auth=\"staff\"}").is_some_and(|age| age < 60.0));
}
