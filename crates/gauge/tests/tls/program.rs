//! The program itself: options, what it prints, targets files, and what it refuses.

use gauge::results::Report;
use testkit::{DEADLINE, Process};

use super::server::Authority;
use super::{good, tls};

fn gauge(args: &[&str]) -> (Option<i32>, String, String) {
    let process = Process::builder(env!("CARGO_BIN_EXE_gauge")).args(args.iter().copied()).start();
    let status = process.wait_for_exit(DEADLINE);
    (status.code(), process.stdout(), process.stderr())
}

#[test]
fn options_reach_the_load_and_the_report_says_what_was_seen() {
    let (authority, server) = good(5);
    let ca = authority.pem();
    let (code, out, err) = gauge(&["load", &server.url(), "-c", "2", "-n", "20", "--ca", &ca]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("2 full handshakes, 0 resumed") && out.contains("TLSv1.3, TLS13_"), "{out}");
    assert!(out.contains("handshake") && !out.contains("NOT verified"), "{out}");

    let json = authority.folder.path().join("report.json").display().to_string();
    let url = server.url();
    let insecure = ["load", &url, "-c", "1", "-n", "20", "--insecure", "--tls", "1.2", "--resume", "--new-connections"];
    let (code, out, err) = gauge(&[&insecure[..], &["--json", &json]].concat());
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("1 full handshakes, 19 resumed") && out.contains("NOT verified"), "{out}");
    assert!(out.contains("\n  connect "), "{out}");
    let report = Report::from_json(&std::fs::read_to_string(json).expect("a file")).expect("a report");
    let seen = tls(&report);
    assert_eq!((seen.full, seen.resumed, seen.verified), (1, 19, false));
    assert_eq!(seen.versions.keys().collect::<Vec<_>>(), ["TLSv1.2"]);
}

#[test]
fn authorities_of_the_system_are_trusted_without_options() {
    let (authority, server) = good(5);
    let process = Process::builder(env!("CARGO_BIN_EXE_gauge"))
        .args(["load", &server.url(), "-c", "1", "-n", "2"])
        .env("SSL_CERT_FILE", authority.pem())
        .start();
    assert!(process.wait_for_exit(DEADLINE).success(), "{}", process.tail());
    assert!(process.stdout().contains("2 requests in"), "{}", process.stdout());
}

#[test]
fn a_refused_certificate_is_told_with_its_reason() {
    let (_, server) = good(5);
    let other = Authority::new();
    let (code, out, _) = gauge(&["load", &server.url(), "-c", "1", "-n", "2", "--ca", &other.pem()]);
    assert_eq!(code, Some(1), "nothing was answered");
    assert!(out.contains("2 of TLS") && out.contains("tls error") && out.contains("--ca FILE"), "{out}");
}

#[test]
fn targets_and_workload_files() {
    let (authority, server) = good(5);
    let ca = authority.pem();
    let targets = authority.file("targets", &format!("GET {}/a\n\nGET {}/b\n", server.url(), server.url()));
    let (code, out, err) = gauge(&["load", "--targets", &targets, "-c", "1", "-n", "4", "--ca", &ca]);
    assert_eq!(code, Some(0), "{out}{err}");

    // The file is looked for beside the workload's, not where the program runs.
    let workload = format!(
        "base: {}\noperations: [{{id: get, path: /x}}]\nload: {{closed: {{users: 1, iterations: 3}}}}\ntls: {{ca: ca.pem}}\n",
        server.url()
    );
    let workload = authority.file("workload.yaml", &workload);
    let (code, out, err) = gauge(&["load", "--workload", &workload]);
    assert_eq!(code, Some(0), "{out}{err}");
    let seen = server.seen.lock().expect("no panic");
    let count = |path: &str| seen.requests.iter().filter(|(head, _)| head.starts_with(&format!("GET {path} "))).count();
    assert_eq!([count("/a"), count("/b"), count("/x")], [2, 2, 3]);
}

#[test]
fn what_cannot_be_is_refused_before_the_load() {
    let authority = Authority::new();
    let (cert, key) = authority.client();
    let other = authority.file("other.key", &rcgen::KeyPair::generate().expect("a key").serialize_pem());
    let url = "https://127.0.0.1:1/";
    for (args, code, expected) in [
        (vec![url, "--ca", "/nowhere.pem"], 66, "/nowhere.pem"),
        (vec![url, "--ca", &key], 64, "holds no certificate"),
        (vec![url, "--insecure", "--cert", &cert], 64, "--key"),
        (vec![url, "--insecure", "--cert", &cert, "--key", &other], 64, "does not belong to the certificate"),
        (vec![url, "--insecure", "--ca", &cert], 64, "cannot be used with"),
        (vec![url, "--insecure", "--tls", "1.1"], 64, "expected 1.2 or 1.3"),
        (vec![url, "--insecure", "--server-name", "a b"], 64, "neither a DNS name"),
        (vec!["http://127.0.0.1:1/", "--insecure"], 64, "for https:// URLs"),
        (vec![url, "--insecure", "--h2", "--new-connections"], 64, "cannot be used with"),
        (vec![url, "--insecure", "--tool", "wrk"], 64, "https"),
        (vec!["--workload", &cert, "--insecure"], 64, "cannot be used with"),
    ] {
        let (got, out, err) = gauge(&[&["load"][..], &args].concat());
        assert_eq!(got, Some(code), "{args:?}\n{out}{err}");
        assert!(err.contains(expected), "{args:?}\n{err}");
    }
}
