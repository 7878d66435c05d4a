//! Listeners that are Unix sockets: who may connect, who that is, and what is spoken there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use proxy_protocol::Version;
use testkit::{Certificates, RawClient, Upstream, Weir, responder, wait};

use super::{DEADLINE, curl, header, logged, metric, program, seen, tls_option};

/// A gateway with a listener at `path`, `{bind: unix:PATH<more>}`, and one that only the harness uses.
fn gateway(path: &Path, upstream: &Upstream, more: &str, top: &str, route: &str) -> Weir {
    Weir::builder(program()).config(config(path, &upstream.url(), more, top, route)).start()
}

pub(super) fn config(path: &Path, target: &str, more: &str, top: &str, route: &str) -> String {
    format!(
        "listen: [127.0.0.1:0, {{bind: 'unix:{}'{more}}}]\nadmin: 127.0.0.1:0\nworkers: 2\naccess_log: {{path: stdout}}\n{top}\
         upstreams: {{u: {{targets: [{target}]}}}}\nroutes:\n  - {{match: {{path: /*}}, upstream: u{route}}}\n",
        path.display()
    )
}

/// A folder, and the path of a socket in it.
pub(super) fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    (folder, path)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// What a gateway says that cannot listen there.
fn refused(path: &Path) -> String {
    let failed = Weir::builder(program()).config(config(path, "http://127.0.0.1:1", "", "", "")).run();
    assert_eq!(failed.code, Some(69), "{}", failed.stderr);
    let start = format!("weir: cannot listen on unix:{} (`listen`): ", path.display());
    assert!(failed.stderr.contains(&start), "{}", failed.stderr);
    failed.stderr
}

#[test]
fn clients_of_a_path_are_one_client_without_an_address() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    let top = "limits: {each: {key: client_ip, rate: 1/h, burst: 2}}\nserver: {max_connections_per_client: 2}\n";
    let weir = gateway(&path, &upstream, "", top, ", limits: [each]");
    weir.wait_for_line("the path", |line| (line == format!("listening on unix:{}", path.display())).then_some(()));
    let mut one = RawClient::connect(&*path);
    // What it says of others is not believed.
    one.request("GET", "/one", &[("X-Forwarded-For", "6.6.6.6")], "");
    assert_eq!(one.read_response().text(), "hello");
    assert_eq!(seen(&upstream, "x-forwarded-for").unwrap(), "unix:");
    assert_eq!(logged(&weir, "/one")["client"], "unix:");
    let mut other = RawClient::connect(&*path);
    assert_eq!((other.get("/").status(), other.get("/").status()), (200, 429), "they share a limit");
    // A client with an address has its own.
    assert_eq!(weir.get("/").status(), 200);
    let mut third = RawClient::connect(&*path);
    let _ = third.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(third.try_read_response().is_err(), "they share the bound on connections");
}

#[test]
fn trusted_peers_of_a_path_name_their_clients() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    let top = "trusted_proxies: ['unix:']\nlimits: {each: {key: client_ip, rate: 1/h, burst: 1}}\n\
               server: {max_connections_per_client: 1}\n";
    let weir = gateway(&path, &upstream, "", top, ", limits: [each]");
    let _first = RawClient::connect(&*path);
    let mut client = RawClient::connect(&*path);
    for address in ["203.0.113.7", "203.0.113.8"] {
        client.request("GET", "/one", &[("X-Forwarded-For", address)], "");
        assert_eq!(client.read_response().status(), 200, "each has a limit of its own");
        assert_eq!(seen(&upstream, "x-forwarded-for").unwrap(), format!("{address}, unix:"));
    }
    let mut stranger = weir.connect();
    stranger.request("GET", "/two", &[("X-Forwarded-For", "203.0.113.9")], "");
    assert_eq!(stranger.read_response().status(), 200);
    assert_eq!(logged(&weir, "/two")["client"], "127.0.0.1", "peers with an address are not trusted by that");
}

#[test]
fn lists_of_networks_do_not_hold_them() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    for (allow, status) in [("ips: [0.0.0.0/0, '::/0']", 403), ("not_ips: [0.0.0.0/0, '::/0']", 200)] {
        let weir = gateway(&path, &upstream, "", "", &format!(", allow: {{{allow}}}"));
        assert_eq!(RawClient::connect(&*path).get("/").status(), status, "{allow}");
        drop(weir);
    }
}

#[test]
fn a_proxy_header_names_the_client_of_a_path() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&path, &upstream, ", proxy_protocol: any", "trusted_proxies: ['unix:']\n", "");
    for version in [Version::V1, Version::V2] {
        let mut client = RawClient::connect(&*path);
        client.send(header(version, "203.0.113.7:1234"));
        assert_eq!(client.get("/proxied").status(), 200);
        assert_eq!(seen(&upstream, "x-forwarded-for").unwrap(), "203.0.113.7");
    }
    let line = logged(&weir, "/proxied");
    assert_eq!((&line["client"], &line["proxy"]), (&"203.0.113.7".into(), &"unix:".into()), "{line}");
    let mut bare = RawClient::connect(&*path);
    bare.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(bare.read_to_close().is_empty());
    wait::until(DEADLINE, "it to be counted", || metric(&weir, "proxy_protocol_headers_total", "proxy_missing") == 1);
}

#[test]
fn the_target_is_told_by_proxy_header_that_the_client_is_unknown() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    let target = super::gateway(&upstream, ", proxy_protocol: any", "trusted_proxies: [127.0.0.1]\n", "");
    let text = config(&path, &target.url(), "", "", "").replace("]}}\nroutes", "], proxy_protocol: v2}}\nroutes");
    let _weir = Weir::builder(program()).config(text).start();
    let mut client = RawClient::connect(&*path);
    assert_eq!((client.get("/").status(), client.get("/").status()), (200, 200));
    assert_eq!(metric(&target, "proxy_protocol_headers_total", "result=\"v2\""), 1, "one connection for all of them");
}

#[test]
fn tls_and_http2_are_spoken_at_a_path() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    let certificates = Certificates::localhost();
    let tls = tls_option(&certificates.certificate(), &certificates.key());
    let socket = path.to_str().unwrap();
    for (option, url, protocol, version) in [
        (&*tls, "https://localhost/", "--http1.1", "HTTP/1.1"),
        (&*tls, "https://localhost/", "--http2", "HTTP/2"),
        (", http2: prior_knowledge", "http://localhost/", "--http2-prior-knowledge", "HTTP/2"),
        ("", "http://localhost/", "--http1.1", "HTTP/1.1"),
    ] {
        let weir = gateway(&path, &upstream, option, "", "");
        let ca = certificates.authority();
        // Bodies of both kinds, larger than what a socket holds.
        let big = "x".repeat(1 << 20);
        let body = curl(&["--unix-socket", socket, protocol, "--cacert", ca.to_str().unwrap(), url]);
        assert_eq!(body, "hello", "{version}");
        let file = weir.dir().join("big");
        fs::write(&file, &big).unwrap();
        let data = format!("@{}", file.display());
        let sent = ["--unix-socket", socket, protocol, "-k", "--data-binary", &data, url];
        assert_eq!(curl(&sent), "hello");
        assert_eq!(upstream.requests().last().unwrap().body.len(), big.len());
        let line = logged(&weir, "/");
        assert_eq!((&line["client"], &line["protocol"]), (&"unix:".into(), &version.into()), "{line}");
        assert_eq!(line["tls_version"].is_string(), url.starts_with("https"), "{line}");
        weir.stop(DEADLINE);
    }
}

#[test]
fn all_workers_serve_the_connections_of_a_path() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    let text = config(&path, &upstream.url(), "", "", "").replace("workers: 2", "workers: 4");
    let weir = Weir::builder(program()).config(text).start();
    let clients: Vec<_> = std::iter::repeat_with(|| {
        let mut client = RawClient::connect(&*path);
        assert_eq!(client.get("/").status(), 200);
        client
    })
    .take(8)
    .collect();
    // A worker keeps its connections to the target for itself, so these tell how many of them served.
    assert_eq!(upstream.accepted(), 4);
    drop(clients);
    wait::until(DEADLINE, "no connection left", || metric(&weir, "client_connections_open", "") == 0);
}

#[test]
fn the_file_has_the_permissions_that_are_configured() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    for (option, expected) in [("", 0o660), (", mode: 0600", 0o600), (", mode: '0666'", 0o666), (", mode: 620", 0o620)]
    {
        let weir = gateway(&path, &upstream, option, "", "");
        assert_eq!(mode(&path), expected, "{option}");
        weir.stop(DEADLINE);
        assert!(!path.exists(), "it is gone with the process");
    }
    let weir = gateway(&path, &upstream, ", mode: 0600", "", "");
    weir.rewrite_config(&config(&path, &upstream.url(), ", mode: 0666", "", ""));
    weir.wait_for_line("the reload", |line| line.contains("configuration reloaded").then_some(()));
    assert_eq!(mode(&path), 0o666);
}

#[test]
fn a_socket_left_behind_is_replaced() {
    let (_folder, path) = folder();
    let upstream = Upstream::start(responder::ok("hello"));
    let killed = gateway(&path, &upstream, "", "", "");
    killed.kill();
    assert!(path.exists());
    let weir = gateway(&path, &upstream, "", "", "");
    assert_eq!(RawClient::connect(&*path).get("/").text(), "hello");
    // And one that is served is not.
    let said = refused(&path);
    assert!(said.contains("another process listens there already"), "{said}");
    assert_eq!(RawClient::connect(&*path).get("/").text(), "hello");
    drop(weir);
}

#[test]
fn what_stands_in_the_way_stays_and_is_named() {
    let (folder, path) = folder();
    fs::write(&path, "mine").unwrap();
    assert!(refused(&path).contains("another kind of file is there already"));
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/nonexistent", &path).unwrap();
    assert!(refused(&path).contains("another kind of file is there already"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refused(&path).contains("another kind of file is there already"));
    fs::remove_dir(&path).unwrap();
    let missing = folder.path().join("missing");
    let said = refused(&missing.join("http.sock"));
    assert!(said.contains(&format!("the folder {} does not exist", missing.display())), "{said}");
    // Sockets of another kind, and one that listens and accepts nothing.
    let datagrams = UnixDatagram::bind(&path).unwrap();
    assert!(refused(&path).contains("another process listens there already"));
    fs::remove_file(&path).unwrap();
    drop(datagrams);
    let _listener = UnixListener::bind(&path).unwrap();
    assert!(refused(&path).contains("another process listens there already"));
    assert!(path.exists());
}

#[test]
fn a_start_that_fails_later_leaves_no_file() {
    let (_folder, path) = folder();
    let text = config(&path, "http://127.0.0.1:1", "", "", "").replace("path: stdout", "path: /nonexistent/folder/log");
    let failed = Weir::builder(program()).config(text).run();
    assert_eq!(failed.code, Some(71), "{}", failed.stderr);
    assert!(!path.exists());
}
