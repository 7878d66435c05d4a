//! The real servers, and what tests will do to them.

use std::time::{Duration, Instant};

use testkit::ports::Port;
use testkit::{
    Address, BlackHole, Certificates, DEADLINE, Nginx, Postgres, Process, RawClient, Redis, RedisCluster,
    RedisSentinel, Signal, WireError, wait,
};

/// Whether the port refuses connections.
fn refuses(address: impl Into<Address>) -> bool {
    RawClient::try_connect(address, None).is_err()
}

/// The response of Redis to an inline PING, or why there is none within the time.
fn ping(client: &mut RawClient, time: Duration) -> Result<Vec<u8>, WireError> {
    client.set_deadline(time);
    client.try_send("PING\r\n")?;
    client.try_read_raw(7)
}

#[test]
fn redis_serves_dies_and_comes_back_at_the_same_port() {
    let redis = Redis::start();
    assert_eq!(redis.url(), format!("redis://{}/0", redis.address()));
    assert_eq!(redis.cli(["SET", "a", "b c"]), "OK");
    assert_eq!(redis.cli(["GET", "a"]), "b c");
    let mut client = RawClient::connect(redis.address());
    assert_eq!(ping(&mut client, DEADLINE), Ok(b"+PONG\r\n".to_vec()));
    redis.kill();
    assert!(refuses(redis.address()));
    client.expect_closed();
    redis.restart();
    assert_eq!(redis.cli(["GET", "a"]), "");
    // A restart of a server that runs is a kill and a start.
    let before = redis.process().pid();
    redis.restart();
    assert_ne!(redis.process().pid(), before);
}

#[test]
fn a_paused_redis_keeps_its_connections_and_responds_later() {
    let redis = Redis::start();
    let mut client = RawClient::connect(redis.address());
    assert!(ping(&mut client, DEADLINE).is_ok());
    redis.pause();
    assert_eq!(ping(&mut client, Duration::from_millis(100)), Err(WireError::Deadline));
    assert!(!refuses(redis.address()));
    redis.resume();
    client.set_deadline(DEADLINE);
    assert_eq!(client.try_read_raw(7), Ok(b"+PONG\r\n".to_vec()));
}

#[test]
fn redis_can_keep_its_data_want_a_password_and_speak_tls() {
    let redis = Redis::builder().set("appendonly", "yes").password("secret").tls().start();
    assert_eq!(redis.url(), format!("rediss://:secret@localhost:{}/0", redis.address().port()));
    assert!(redis.authority().expect("a file").exists());
    redis.cli(["SET", "a", "1"]);
    redis.restart();
    assert_eq!(redis.cli(["GET", "a"]), "1");
    let mut client = RawClient::connect(redis.address());
    assert!(ping(&mut client, DEADLINE).is_err(), "plain text on a TLS port");
}

#[test]
fn a_redis_with_a_password_refuses_those_without() {
    let redis = Redis::builder().password("secret").start();
    let mut client = RawClient::connect(redis.address());
    assert_eq!(ping(&mut client, DEADLINE), Ok(b"-NOAUTH".to_vec()));
    assert_eq!(redis.cli(["PING"]), "PONG");
}

#[test]
#[should_panic(expected = "WRONGTYPE")]
fn an_error_of_redis_is_a_panic() {
    let redis = Redis::start();
    redis.cli(["SET", "a", "1"]);
    redis.cli(["LPUSH", "a", "1"]);
}

#[test]
fn a_cluster_shares_the_keys_and_outlives_a_node() {
    let cluster = RedisCluster::start(3);
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 3);
    let holder = cluster.node_of("a");
    assert_eq!(holder.cli(["SET", "a", "1"]), "OK");
    let other = cluster.nodes().iter().find(|node| node.address() != holder.address()).expect("another node");
    let elsewhere = (0..).map(|n| format!("k{n}")).find(|key| cluster.node_of(key).address() == other.address());
    holder.kill();
    let key = elsewhere.expect("a key of another node");
    assert_eq!(other.cli(["SET", &key, "2"]), "OK");
    holder.restart();
    wait::until(DEADLINE, "the node is back", || {
        other.cli(["CLUSTER", "INFO"]).lines().any(|line| line == "cluster_slots_ok:16384")
    });
}

#[test]
fn sentinel_replaces_a_dead_primary() {
    let redis = RedisSentinel::start();
    let (first, second) = (redis.primary().address(), redis.replica().address());
    redis.primary().cli(["SET", "a", "1"]);
    wait::until(DEADLINE, "the replica has it", || redis.replica().cli(["GET", "a"]) == "1");
    redis.fail_over();
    assert_eq!((redis.primary().address(), redis.replica().address()), (second, first));
    assert_eq!(redis.primary().cli(["SET", "a", "2"]), "OK");
}

#[test]
fn postgres_keeps_what_was_committed_through_a_kill() {
    let postgres = Postgres::start();
    let url = postgres.create_database("shop");
    assert_eq!(url, format!("postgresql://postgres:password@127.0.0.1:{}/shop", postgres.port()));
    postgres.query("shop", "CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (2, NULL)");
    postgres.kill();
    assert!(refuses(std::net::SocketAddr::from(([127, 0, 0, 1], postgres.port()))));
    postgres.restart();
    assert_eq!(postgres.query("shop", "SELECT a, b FROM t ORDER BY a"), "1|x\n2|");
}

fn unix_seconds() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The state of a process and of its children, as /proc has it: `T` is stopped.
fn states_below(pid: u32) -> Vec<char> {
    let stats = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let is_it = name.split(' ').next()?.parse() == Ok(pid) || fields.next()?.parse() == Ok(pid);
        is_it.then_some(state)
    });
    stats.collect()
}

#[test]
fn a_paused_postgres_pauses_its_backends_too() {
    let postgres = Postgres::start();
    let url = postgres.url("postgres");
    let loop_sql = "DO $$ BEGIN LOOP RAISE NOTICE 'tick %', extract(epoch FROM clock_timestamp()); PERFORM pg_sleep(0.01); END LOOP; END $$";
    let psql = Process::builder("psql").args(["-d", &url, "-c", loop_sql]).start();
    psql.wait_for_line("a tick", |line| line.contains("tick").then_some(()));
    postgres.pause();
    // A backend that is stopped sends nothing, however long one waits.
    let pid = postgres.process().pid();
    let (mut backends, mut running) = (0, 0);
    wait::until(DEADLINE, "all of them to stand still", || {
        let states = states_below(pid);
        backends = states.len();
        running = states.iter().filter(|&&state| state != 'T').count();
        running == 0
    });
    assert!(backends >= 5, "the background processes and the backend of psql, not {backends}");
    let stopped = unix_seconds();
    // PostgreSQL responds to this (SSLRequest) with a letter; the kernel takes it meanwhile.
    let mut client = RawClient::connect(std::net::SocketAddr::from(([127, 0, 0, 1], postgres.port())));
    client.send([0, 0, 0, 8, 4, 210, 22, 47]);
    client.expect_silence(Duration::from_millis(100));
    let resumed = unix_seconds();
    postgres.resume();
    assert_eq!(client.read_raw(1), b"N");
    let mut ticks = Vec::new();
    psql.wait_for_line("a tick after the pause", |line| {
        let tick: f64 = line.rsplit_once("tick ")?.1.parse().ok()?;
        ticks.push(tick);
        (tick > resumed).then_some(())
    });
    let within = ticks.iter().filter(|&&tick| tick > stopped && tick < resumed).count();
    assert!(ticks[0] < stopped && within == 0, "{within} ticks in the pause of {ticks:?}");
}

#[test]
#[should_panic(expected = "syntax error")]
fn an_error_of_postgres_is_a_panic() {
    Postgres::start().query("postgres", "SELEKT 1");
}

#[test]
fn nginx_serves_reloads_dies_and_comes_back() {
    let nginx = Nginx::start("location / { return 200 one; } location /files/ { root .; }");
    let get = |target: &str| RawClient::connect(nginx.address()).get(target);
    assert_eq!(get("/").text(), "one");
    std::fs::create_dir(nginx.dir().join("files")).expect("a directory");
    std::fs::write(nginx.dir().join("files/a"), "from a file").expect("a file");
    assert_eq!(get("/files/a").text(), "from a file");
    nginx.configure("location / { return 200 two; }");
    nginx.process().signal(Signal::HUP);
    wait::until(DEADLINE, "the new configuration", || get("/").text() == "two");
    nginx.kill();
    assert!(refuses(nginx.address()));
    nginx.restart();
    assert_eq!(get("/").text(), "two");
    nginx.pause();
    let mut client = RawClient::connect(nginx.address());
    client.request("GET", "/", &[], "");
    client.expect_silence(Duration::from_millis(100));
    nginx.resume();
    assert_eq!(client.read_response().text(), "two");
}

#[test]
#[should_panic(expected = "unknown directive \"nonsense\"")]
fn a_bad_nginx_configuration_is_a_panic() {
    Nginx::start("nonsense on;");
}

#[test]
fn a_certificate_is_for_localhost_and_comes_from_its_authority() {
    let certificates = Certificates::localhost();
    let openssl = |args: &[&str]| {
        let process = Process::builder("openssl").args(args).arg(certificates.certificate()).start();
        assert!(process.wait_for_exit(DEADLINE).success(), "{}", process.tail());
        process.stdout()
    };
    let authority = certificates.authority();
    let authority = authority.to_str().expect("a path of text");
    openssl(&["verify", "-verify_hostname", "localhost", "-purpose", "sslserver", "-CAfile", authority]);
    // Strict clients refuse an authority's certificate as a server's.
    assert!(openssl(&["x509", "-noout", "-ext", "basicConstraints", "-in"]).contains("CA:FALSE"));
}

#[test]
fn a_black_hole_lets_no_connection_in() {
    let hole = BlackHole::open();
    let outcome = std::net::TcpStream::connect_timeout(&hole.address(), Duration::from_millis(300));
    assert_eq!(outcome.expect_err("no connection").kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn a_reserved_port_is_given_to_nobody_but_who_names_it() {
    let ports: Vec<Port> = (0..200).map(|_| Port::free()).collect();
    let started = Instant::now();
    for _ in 0..2000 {
        let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let number = other.local_addr().expect("an address").port();
        assert!(ports.iter().all(|port| port.number() != number));
    }
    assert!(started.elapsed() < DEADLINE);
    for port in &ports {
        drop(std::net::TcpListener::bind(port.address()).expect("the port is free for who names it"));
    }
}
