//! Real peers that speak the PROXY protocol.

use std::fmt::Write;

use testkit::{Certificates, Process, Upstream, responder, wait};

use super::{DEADLINE, curl, gateway, logged, metric, seen, tls_option};

/// Whether a program is there; says so when it is not.
fn is_installed(program: &str) -> bool {
    let is_there = std::process::Command::new(program).arg("-v").output().is_ok();
    if !is_there {
        eprintln!("skipped: {program} is not installed");
    }
    is_there
}

#[test]
fn haproxy_before_weir_in_both_versions_with_tls_through_and_health_checks() {
    if !is_installed("haproxy") {
        return;
    }
    let upstream = Upstream::start(responder::ok("hello"));
    let certificates = Certificates::localhost();
    let tls = tls_option(&certificates.certificate(), &certificates.key());
    let weir = gateway(&upstream, &format!("{tls}, proxy_protocol: any"), "trusted_proxies: [127.0.0.0/8]\n", "");
    // Clients come from another address than the proxy's.
    let ports: Vec<u16> = (0..2).map(|_| free_port()).collect();
    let mut text = String::from("defaults\n mode tcp\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n");
    for (port, option) in ports.iter().zip(["send-proxy", "send-proxy-v2 proxy-v2-options crc32c,unique-id,authority"])
    {
        writeln!(
            text,
            "listen l{port}\n bind 127.0.0.1:{port}\n unique-id-format id-%[src]\n server weir {} {option} check inter 100ms source 127.0.0.1",
            weir.addr()
        )
        .unwrap();
    }
    let file = weir.dir().join("haproxy.cfg");
    std::fs::write(&file, text).unwrap();
    let _haproxy = Process::builder("haproxy").args(["-db", "-f", file.to_str().unwrap()]).start();
    let ca = certificates.authority();
    for (port, version) in ports.iter().zip(["v1", "v2"]) {
        wait::until(DEADLINE, "HAProxy", || std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok());
        for protocol in ["--http1.1", "--http2"] {
            let path = format!("/{version}{protocol}");
            let url = format!("https://127.0.0.1:{port}{path}");
            let body = curl(&[
                "--interface",
                "127.0.0.9",
                "--retry",
                "5",
                "--retry-all-errors",
                protocol,
                "--cacert",
                ca.to_str().unwrap(),
                &url,
            ]);
            assert_eq!(body, "hello", "{path}");
            assert_eq!(seen(&upstream, "x-forwarded-for").as_deref(), Some("127.0.0.9"), "{path}");
            let line = logged(&weir, &path);
            assert_eq!((&line["client"], &line["proxy_protocol"]), (&"127.0.0.9".into(), &version.into()), "{line}");
            assert_eq!(line["proxy_unique_id"].is_string(), version == "v2", "{line}");
        }
    }
    // Its checks are connections of its own, and none of them is refused.
    wait::until(DEADLINE, "checks", || metric(&weir, "proxy_protocol_headers_total", "local") > 0);
    for reason in ["malformed", "checksum", "missing", "version", "timeout", "untrusted"] {
        assert_eq!(metric(&weir, "proxy_protocol_headers_total", reason), 0, "{reason}");
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
