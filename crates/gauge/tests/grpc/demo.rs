//! The demonstration, as the documentation loads it: by its own reflection, a method of each kind.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::load_url;

struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_demonstration_has_a_method_of_each_kind() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauge"));
    let command = command.args(["demo", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut demo = Demo(command.spawn().expect("gauge"));
    let mut line = String::new();
    BufReader::new(demo.0.stdout.take().expect("its output")).read_line(&mut line).expect("its address");
    let url = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
    for (method, more, sent, received) in [
        ("Get", &["--body", r#"{"id":7}"#][..], 0, 0),
        ("Add", &["--body", r#"{"name":"a violin"}"#][..], 0, 0),
        ("List", &["--body", r#"{"id":10}"#, "--responses", "10"][..], 20, 200),
        ("AddAll", &["--body", r#"{"name":"a violin"}"#, "--messages", "10"][..], 200, 20),
        ("Talk", &["--body", r#"{"name":"a violin"}"#, "--messages", "10"][..], 200, 200),
    ] {
        let more = [&["-n", "20", "-c", "4"][..], more].concat();
        let (code, said, report) = load_url(&url, &format!("gauge.demo.Items/{method}"), &more);
        assert_eq!(code, Some(0), "{method}: {said}");
        let total = &report["total"];
        assert_eq!((&total["statuses"], &total["errors"]["total"]), (&json!({"200": 20}), &json!(0)), "{method}");
        let streams = &total["grpc"]["streams"];
        let counts = [&streams["sent"], &streams["received"]].map(|count| count.as_u64().unwrap_or(0));
        assert_eq!(counts, [sent, received], "{method}");
    }
    let (code, said, _) = load_url(&url, "gauge.demo.Other/Get", &["-n", "1"]);
    assert!(code == Some(64) && said.contains("it has gauge.demo.Items"), "{code:?} {said}");
}
