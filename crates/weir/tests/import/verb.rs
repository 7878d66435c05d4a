//! The command line.

use std::path::Path;
use std::process::{Command, Output};

fn import(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("import").args(arguments).current_dir(folder).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const WHOLE: &str = "http { server { listen 127.0.0.1:80; location / { proxy_pass http://127.0.0.1:9; } } }";

#[test]
fn the_exit_code_says_whether_something_was_left_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("whole.conf"), WHOLE).unwrap();
    std::fs::write(folder.path().join("part.conf"), WHOLE.replace("server {", "limit_rate 100k; server {")).unwrap();
    std::fs::write(folder.path().join("bad.conf"), "http {").unwrap();

    let output = import(folder.path(), &["nginx", "whole.conf", "-o", "weir.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(output.stdout.is_empty());
    assert!(told(&output).contains("whole.conf:1: exact: location /"), "{}", told(&output));
    assert!(std::fs::read_to_string(folder.path().join("weir.yaml")).unwrap().contains("listen: 127.0.0.1:80\n"));

    let output = import(folder.path(), &["nginx", "part.conf"]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(told(&output).contains("part.conf:1: left out: limit_rate 100k"), "{}", told(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nroutes:\n"));

    for (file, message) in [
        ("bad.conf", "weir: bad.conf:1: the file ends inside a block"),
        ("absent.conf", "weir: absent.conf: cannot be read: No such file"),
        (".", "cannot be read"),
    ] {
        let output = import(folder.path(), &["nginx", file]);
        assert_eq!(output.status.code(), Some(64), "{}", told(&output));
        assert!(told(&output).contains(message), "{}", told(&output));
        assert!(output.stdout.is_empty());
    }
    assert_eq!(import(folder.path(), &["apache", "whole.conf"]).status.code(), Some(64));
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let (source, output) = (folder.path().join("nginx.conf"), folder.path().join("weir.yaml"));
    std::fs::write(&source, WHOLE).unwrap();
    std::fs::write(&output, "mine").unwrap();
    let refused = import(folder.path(), &["nginx", "nginx.conf", "-o", "weir.yaml"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(told(&refused).contains("--force replaces it"), "{}", told(&refused));
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "mine");
    assert!(import(folder.path(), &["nginx", "nginx.conf", "-o", "weir.yaml", "--force"]).status.success());
    assert_ne!(std::fs::read_to_string(&output).unwrap(), "mine");
}

#[test]
fn the_report_is_json_on_request() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nginx.conf"), WHOLE.replace("server {", "limit_rate 100k;\n server {")).unwrap();
    let output = import(folder.path(), &["nginx", "nginx.conf", "--report", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(report["left_out"], 1);
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"] == "limit_rate 100k").unwrap();
    assert_eq!((&found["kind"], &found["file"], &found["line"]), (&"left_out".into(), &"nginx.conf".into(), &1.into()));
}

#[test]
fn what_check_would_refuse_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = WHOLE.replace("location / {", "location / { auth_basic A; auth_basic_user_file absent;");
    std::fs::write(folder.path().join("nginx.conf"), text).unwrap();
    let output = import(folder.path(), &["nginx", "nginx.conf", "-o", "weir.yaml"]);
    assert!(
        told(&output).contains("`weir check` reports about the written configuration:\nweir.yaml:"),
        "{}",
        told(&output)
    );
    assert!(told(&output).contains("cannot read absent"), "{}", told(&output));
}
