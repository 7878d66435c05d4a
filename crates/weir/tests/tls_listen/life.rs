//! Certificates, listeners and processes that change while clients are served.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use testkit::{Certificates, Signal, Upstream, Weir, responder, wait};

use super::client::{Client, DEADLINE, config, trusting};
use super::{ROUTES, certificate, entry, gateway, listener, metric};

/// Puts a certificate where another one was: the key first, as careless tools do.
fn replace(from: &Certificates, cert: &Path, key: &Path) {
    for (from, to) in [(from.key(), key), (from.certificate(), cert)] {
        let new = to.with_extension("new");
        fs::copy(from, &new).unwrap();
        fs::rename(&new, to).unwrap();
    }
}

#[test]
fn changed_files_are_in_force_without_a_failed_request() {
    let (first, second) = (Certificates::for_names("DNS:a.test"), Certificates::for_names("DNS:a.test,DNS:b.test"));
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    replace(&first, &cert, &key);
    let weir = gateway(&[listener(&[entry(&cert, &key, "")], "")], ROUTES);
    let both = config(&trusting(&[&first, &second]));
    let mut old = Client::connect(weir.addr(), &both, "a.test").unwrap();
    assert_eq!(old.get("a.test", "/").status, 200);
    let shown = |client: &Client| client.session().peer.unwrap().sha256;
    let before = shown(&old);
    let (ends, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let mut client = Client::connect(weir.addr(), &both, "a.test").unwrap();
                    assert_eq!(client.get("a.test", "/").status, 200);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        replace(&second, &cert, &key);
        wait::until(DEADLINE, "the new certificate", || {
            shown(&Client::connect(weir.addr(), &config(&trusting(&[&first, &second])), "a.test").unwrap()) != before
        });
        // A broken file changes nothing, and says what is wrong with which file.
        let mark = weir.mark();
        fs::write(&cert, "no certificate").unwrap();
        weir.wait_for_line_after(mark, "the refused reload", DEADLINE, |line| {
            (line.contains("cert.pem") && line.contains("holds no certificate")).then_some(())
        });
        let seen = served.load(Ordering::Relaxed);
        wait::until(DEADLINE, "further requests", || served.load(Ordering::Relaxed) > seen + 10);
        ends.store(true, Ordering::Relaxed);
    });
    let fresh = config(&trusting(&[&first, &second]));
    assert_ne!(shown(&Client::connect(weir.addr(), &fresh, "b.test").unwrap()), before);
    assert_eq!(old.get("a.test", "/").status, 200, "an open connection goes on");
    assert_eq!(old.get("b.test", "/").status, 421, "under its own certificate");
    assert_eq!(metric(&weir, "tls_handshakes_total", "result=\"tls_protocol\""), 0);
}

#[test]
fn a_key_that_does_not_belong_to_its_certificate_is_refused_at_start_and_at_reload() {
    let (one, other) = (Certificates::for_names("DNS:a.test"), Certificates::for_names("DNS:a.test"));
    let wrong = entry(&one.certificate(), &other.key(), "");
    let text = |certificate: &str| format!("listen: [{}]\n{ROUTES}", listener(&[certificate.to_owned()], ""));
    let failed = Weir::builder(super::program()).config(text(&wrong)).run();
    assert_eq!(failed.code, Some(64));
    assert!(failed.stderr.contains("does not belong to the certificate"), "{}", failed.stderr);
    let weir = gateway(&[listener(&[certificate(&one, "")], "")], ROUTES);
    fs::write(weir.config_path(), text(&wrong)).unwrap();
    let mark = weir.mark();
    weir.signal(Signal::HUP);
    weir.wait_for_line_after(mark, "the refused reload", DEADLINE, |line| {
        line.contains("does not belong").then_some(())
    });
    let known = config(&trusting(&[&one]));
    assert_eq!(Client::connect(weir.addr(), &known, "a.test").unwrap().get("a.test", "/").status, 200);
}

#[test]
fn ends_are_said_and_broken_responses_are_not_ended() {
    let upstream = Upstream::start(responder::ok("hello"));
    let certificates = Certificates::for_names("DNS:a.test");
    let rest = format!(
        "server: {{keep_alive: 300ms}}\nupstreams: {{u: {{targets: [{}], retry: none}}}}\nroutes:\n  - {{match: {{path: /*}}, upstream: u}}\n",
        upstream.url()
    );
    let weir = gateway(&[listener(&[certificate(&certificates, "")], "")], &rest);
    let known = config(&trusting(&[&certificates]));
    let connect = || Client::connect(weir.addr(), &known, "a.test").unwrap();
    let mut closing = connect();
    closing.send(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let all = String::from_utf8(closing.read_to_end().expect("close_notify")).unwrap();
    assert!(all.ends_with("hello"), "{all}");
    let mut refused = connect();
    refused.send(b"GET / HTTP/9.9\r\n\r\n");
    let all = String::from_utf8(refused.read_to_end().expect("close_notify")).unwrap();
    assert!(all.starts_with("HTTP/1.1 505"), "{all}");
    let mut idle = connect();
    assert_eq!(idle.get("a.test", "/").status, 200);
    assert!(idle.read_to_end().expect("close_notify").is_empty());
    upstream.set_responder(|conn, _| {
        conn.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")?;
        conn.close()
    });
    let mut broken = connect();
    broken.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    broken.read_to_end().expect_err("a response that broke off has no orderly end");
}

#[test]
fn another_process_takes_over_under_load() {
    let certificates = Certificates::for_names("DNS:a.test");
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "listen: [{}]\nadmin: 127.0.0.1:0\nworkers: 2\ntakeover: {}\n{ROUTES}",
        listener(&[certificate(&certificates, "")], ""),
        directory.path().join("takeover.sock").display()
    );
    let mut running = Weir::builder(super::program()).config(text.clone()).start();
    let (address, known) = (running.addr(), config(&trusting(&[&certificates])));
    let (ends, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let mut client = Client::connect(address, &known, "a.test").expect("every handshake succeeds");
                    for _ in 0..5 {
                        let response = client.get("a.test", "/");
                        assert_eq!(response.status, 200);
                        served.fetch_add(1, Ordering::Relaxed);
                        if response.field("connection").is_some() {
                            break;
                        }
                    }
                }
            });
        }
        for _ in 0..2 {
            let seen = served.load(Ordering::Relaxed);
            wait::until(DEADLINE, "load", || served.load(Ordering::Relaxed) > seen + 20);
            let next = Weir::builder(super::program()).config(text.clone()).start();
            assert_eq!(next.addr(), address);
            assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0), "{}", running.tail());
            running = next;
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(running.stop(DEADLINE).code(), Some(0));
}

#[test]
fn a_listener_becomes_secure_by_a_reload_and_back() {
    let certificates = Certificates::for_names("DNS:a.test");
    let weir = gateway(&["127.0.0.1:0".to_owned()], ROUTES);
    let mut plain = weir.connect();
    assert_eq!(plain.get("/").status(), 200);
    let bind = weir.addr().to_string();
    let secure = listener(&[certificate(&certificates, "")], "").replace("127.0.0.1:0", &bind);
    let known = config(&trusting(&[&certificates]));
    let admin = weir.admin_addr();
    let reload = |listener: &str| {
        let mark = weir.mark();
        fs::write(weir.config_path(), format!("listen: [{listener}]\nadmin: {admin}\nworkers: 2\n{ROUTES}")).unwrap();
        weir.signal(Signal::HUP);
        // The file is watched too: a reload that changes nothing may come before or behind.
        let changed = format!("listen {bind} changed");
        weir.wait_for_line_after(mark, "the reload", DEADLINE, |line| {
            (line.contains("configuration reloaded") && line.contains(&changed)).then_some(())
        });
    };
    reload(&secure);
    assert_eq!(Client::connect(weir.addr(), &known, "a.test").unwrap().get("a.test", "/").status, 200);
    assert_eq!(plain.get("/").status(), 200, "what is there goes on");
    reload(&bind);
    assert_eq!(weir.get("/").status(), 200);
}

#[test]
fn development_needs_no_files() {
    let weir = Weir::builder(super::program())
        .config(format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n{ROUTES}"))
        .args(["--tls-self-signed"])
        .start();
    assert!(weir.stdout().contains("listening on https://"), "{}", weir.stdout());
    let unverified = config(&tls::client::Options { verify: false, ..Default::default() });
    let shown = || {
        let mut client = Client::connect(weir.addr(), &unverified, "localhost").unwrap();
        assert_eq!(client.get("localhost", "/").status, 200);
        client.session().peer.unwrap().sha256
    };
    let first = shown();
    let mark = weir.mark();
    weir.signal(Signal::HUP);
    weir.wait_for_line_after(mark, "the reload", DEADLINE, |line| {
        line.contains("configuration reloaded").then_some(())
    });
    assert_eq!(shown(), first, "a browser asks once");
}
