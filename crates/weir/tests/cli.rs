//! The verbs of the command line, run as a user would.

use std::process::{Command, Output};

use tempfile::NamedTempFile;

/// Runs the program with nothing in its environment but these variables.
fn weir(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_clear().envs(variables.iter().copied()).args(arguments);
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

const GOOD: &str = "\
listen: 127.0.0.1:0
upstreams:
  app: {targets: [http://127.0.0.1:8001/base, http://127.0.0.1:8002/base]}
  other: {targets: [http://127.0.0.1:8003]}
routes:
  - name: users
    match: {host: api.example.com, path: '/users/{id}', methods: [GET, PUT]}
    upstream: app
    fallback: [other]
    rewrite: {prefix: /people}
  - name: gold
    match: {path: /*, headers: {X-Tier: gold}}
    upstream: other
  - match: {path: /old/*}
    redirect: {to: /new/*}
  - match: {path: /gates, methods: [GET]}
    respond: {body: ok}
";

#[test]
fn check_says_that_a_file_is_good() {
    let file = file(GOOD);
    let path = file.path().to_str().unwrap();
    let output = weir(&[], &["check", path]);
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    assert_eq!(stdout(&output), format!("{path}: ok (4 routes, 2 upstreams, 3 targets)\n"));
}

#[test]
fn check_says_everything_that_is_wrong_and_exits_64() {
    let file = file("listen: 127.0.0.1:0\nworkrs: 2\nroutes:\n  - match: {path: /}\n    respond: {status: ok}\n");
    let path = file.path().to_str().unwrap();
    let output = weir(&[], &["check", path]);
    assert_eq!((code(&output), stdout(&output).as_str()), (64, ""));
    assert_eq!(
        stderr(&output),
        format!(
            "{path}:2:1: unknown key `workrs`; did you mean `workers`?\n  2 | workrs: 2\n    | ^\n\
             {path}:5:23: expected a whole number, found `ok`\n  5 |     respond: {{status: ok}}\n    |                       ^\n"
        )
    );
}

#[test]
fn a_file_that_cannot_be_read_exits_66() {
    let output = weir(&[], &["check", "/does/not/exist.yaml"]);
    assert_eq!(code(&output), 66);
    assert!(stderr(&output).starts_with("cannot read /does/not/exist.yaml: "), "{}", stderr(&output));

    let binary = NamedTempFile::new().unwrap();
    std::fs::write(binary.path(), b"listen: \xff\xfe").unwrap();
    let output = weir(&[], &["check", binary.path().to_str().unwrap()]);
    assert_eq!(code(&output), 66);
    assert!(stderr(&output).ends_with("it is not UTF-8 text\n"), "{}", stderr(&output));
}

#[test]
fn check_takes_variables_from_the_environment() {
    let file = file("listen: \"127.0.0.1:${MY_PORT}\"\nroutes: [{match: {path: /}, respond: {body: x}}]\n");
    let path = file.path().to_str().unwrap();
    assert_eq!(code(&weir(&[("MY_PORT", "8080")], &["check", path])), 0);
    let output = weir(&[], &["check", path]);
    assert_eq!(code(&output), 64);
    assert!(stderr(&output).contains(":1:9: the environment variable `MY_PORT` is not set"), "{}", stderr(&output));
}

#[test]
fn without_a_file_the_environment_is_checked() {
    let output = weir(&[], &["check"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "environment: ok (9 routes, 3 upstreams, 3 targets)\n"));
    let output = weir(&[("PORT", "eighty"), ("CACHE_ENABLED", "perhaps")], &["check"]);
    assert_eq!(code(&output), 64);
    let text = stderr(&output);
    assert!(text.contains("PORT: `eighty` is not a port") && text.contains("CACHE_ENABLED: expected"), "{text}");
}

#[test]
fn what_check_prints_is_a_file_that_means_the_same() {
    let printed = stdout(&weir(&[("PY_SERVICE_URL", "http://127.0.0.1:8001")], &["check", "--print"]));
    let file = file(&printed);
    let again = weir(&[], &["check", file.path().to_str().unwrap(), "--print"]);
    assert_eq!((code(&again), stdout(&again)), (0, printed));
}

#[test]
fn secrets_are_printed_only_on_request() {
    let file = file(
        "listen: 127.0.0.1:0\nupstreams: {a: {targets: [http://a]}}\nroutes:\n  - match: {path: /}\n    upstream: a\n    headers: {request: {set: {Authorization: \"Bearer ${TOKEN}\"}}}\n",
    );
    let path = file.path().to_str().unwrap();
    let variables = [("TOKEN", "s3cr3t")];
    let shown = stdout(&weir(&variables, &["check", path, "--print"]));
    assert!(!shown.contains("s3cr3t") && shown.contains("Authorization: \"***\""), "{shown}");
    assert!(stdout(&weir(&variables, &["check", path, "--print", "--show-secrets"])).contains("Bearer s3cr3t"));
}

#[test]
fn routes_are_listed_in_columns() {
    let file = file(GOOD);
    let output = weir(&[], &["routes", file.path().to_str().unwrap()]);
    assert_eq!(
        stdout(&output),
        "\
NAME    METHODS       HOST             PATH         CONDITIONS   GOES TO
users   GET,PUT,HEAD  api.example.com  /users/{id}  -            app, else other
gold    any           any              /*           x-tier=gold  other
/old/*  any           any              /old/*       -            308 /new/*
/gates  GET,HEAD      any              /gates       -            respond 200
"
    );
}

#[test]
fn a_request_is_explained() {
    let file = file(GOOD);
    let path = file.path().to_str().unwrap();
    let explain = |arguments: &[&str]| {
        let output = weir(&[], &[&["routes", path], arguments].concat());
        (code(&output), stdout(&output))
    };
    assert_eq!(
        explain(&["GET api.example.com/users/7?full=1", "-H", "X-Tier: gold"]),
        (
            0,
            "\
`users`: app, else other
  because of path /users/{id}, host api.example.com, method GET or PUT or HEAD
  forwards to `app` as /base/people/7?full=1, rewritten
  not `gold`: /* comes after
"
            .to_owned()
        )
    );
    assert_eq!(
        explain(&["http://www.example.com/old/../old/%61?b"]),
        (
            0,
            "\
`/old/*`: 308 /new/*
  because of path /old/*
  sends the client to /new/a?b
  the path is matched as /old/a
  not `gold`: it wants x-tier=gold
"
            .to_owned()
        )
    );
    assert_eq!(
        explain(&["delete /gates"]),
        (
            1,
            "\
405: routes match, but none takes DELETE; Allow: GET, HEAD
  not `gold`: it wants x-tier=gold
  not `/gates`: it takes GET, HEAD only
"
            .to_owned()
        )
    );
    assert_eq!(explain(&["GET other.example/users/7"]).0, 1);
    assert!(explain(&["GET other.example/users/7"]).1.contains("not `users`: it is for the host api.example.com"));
    assert_eq!(explain(&["/a//b"]), (1, "400: the path holds `//` (path_empty_segment)\n".to_owned()));
}

#[test]
fn a_request_that_makes_no_sense_is_refused() {
    let file = file(GOOD);
    let path = file.path().to_str().unwrap();
    let output = weir(&[], &["routes", path, " "]);
    assert_eq!(code(&output), 64);
    let output = weir(&[], &["routes", path, "/", "-H", "no colon"]);
    assert_eq!(
        (code(&output), stderr(&output).as_str()),
        (64, "weir: `no colon` is not a header field; write 'X-Tier: gold'\n")
    );
}

#[test]
fn the_schema_that_is_printed_is_the_published_one() {
    let published = include_str!("../../../docs/weir.schema.json");
    assert!(stdout(&weir(&[], &["schema"])) == published, "`weir schema` and docs/weir.schema.json differ");
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = weir(&[], &["completions", shell]);
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains("show-secrets"), "{shell}");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let output = weir(&[], &["--version"]);
    assert_eq!((code(&output), stdout(&output)), (0, format!("weir {}\n", env!("CARGO_PKG_VERSION"))));
    let output = weir(&[], &["--help"]);
    assert_eq!(code(&output), 0);
    assert!(stdout(&output).contains("weir check --print > weir.yaml"));
}

#[test]
fn a_mistake_on_the_command_line_exits_64() {
    let output = weir(&[], &["chek"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (64, ""));
    assert!(stderr(&output).contains("check"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let script = format!("{} schema | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_weir"));
    let status = Command::new("bash").args(["-c", &script]).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn probe_tells_a_good_status_from_all_else() {
    let server = testkit::Upstream::start(testkit::responder::ok("fine"));
    let port = server.address().to_string().rsplit(':').next().unwrap().to_owned();
    let probe = |arguments: &[&str]| weir(&[("HEALTH_PORT", &port)], &[&["probe"], arguments].concat());
    assert_eq!(code(&probe(&[])), 0);
    assert_eq!(code(&probe(&[&format!("http://127.0.0.1:{port}/any")])), 0);
    server.set_responder(testkit::responder::status(503));
    assert_eq!((code(&probe(&[])), stderr(&probe(&[])).contains("status 503")), (1, true));
    server.stop();
    assert_eq!(code(&probe(&["--timeout", "1"])), 1);
    assert!(stderr(&probe(&["https://127.0.0.1/"])).contains("invalid URL"));
}
