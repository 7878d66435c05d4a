//! `gauge describe` and `gauge convert` as a user runs them.

use std::path::Path;
use std::process::{Command, Output};

use crate::root;

fn gauge(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauge")).args(arguments).current_dir(folder).output().expect("gauge runs")
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

const AUCTION: &str = "services/auction/openapi.yaml";

#[test]
fn describe_writes_every_format_and_reads_it_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let expected = gauge(&["describe", AUCTION, "--format", "table"], &root());
    assert_eq!(expected.status.code(), Some(0), "{}", err(&expected));
    assert_eq!(out(&expected).lines().count(), 8);
    assert!(out(&expected).contains("POST    /active/bid/{auctionID}  http://127.0.0.1:14000  bearer    placeBid\n"));
    for (format, json) in [
        ("records", false),
        ("records", true),
        ("openapi", false),
        ("openapi", true),
        ("swagger2", true),
        ("raml", false),
        ("shorthand", false),
        ("shorthand", true),
    ] {
        let file = folder.path().join(format!("{format}{json}"));
        let file = file.to_string_lossy();
        let mut arguments = vec!["describe", AUCTION, "--format", format, "-o", &file];
        arguments.extend(json.then_some("--json"));
        let written = gauge(&arguments, &root());
        assert_eq!((written.status.code(), out(&written)), (Some(0), ""), "{format}: {}", err(&written));
        let again = gauge(&["describe", &file, "--format", "table", "--quiet"], folder.path());
        assert_eq!(out(&again), out(&expected), "{format}: {}", err(&again));
    }
    let records = gauge(&["describe", AUCTION], &root());
    assert!(out(&records).contains("endpoint_path: /active/bid/{auctionID}"), "{}", out(&records));
}

#[test]
fn faults_have_a_place_and_an_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    file(
        "bad.yaml",
        "openapi: 3.1.0\ninfo: {title: A, version: '1'}\npaths:\n  /a:\n    get: {parameters: [{$ref: '#/nowhere'}], responses: {}}\n",
    );
    file(
        "relative.yaml",
        "openapi: 3.1.0\ninfo: {title: A, version: '1'}\nservers: [{url: /v1}]\npaths: {/a: {get: {operationId: a, responses: {}}}}\n",
    );
    for (arguments, code, said) in [
        (vec!["describe", "absent.yaml"], 66, "absent.yaml: "),
        (vec!["describe", "bad.yaml"], 64, "bad.yaml:5:"),
        (vec!["describe", "bad.yaml"], 64, "(at #/paths/~1a/get/parameters/0"),
        (vec!["describe", "relative.yaml", "--format", "raml", "--json"], 64, "RAML is always YAML"),
        (vec!["describe", "relative.yaml", "--format", "table", "--json"], 64, "a table cannot be JSON"),
        (vec!["describe", "relative.yaml", "-o", "no/where"], 73, "no/where: "),
        (vec!["convert", "absent.yaml", "--to", "weir", "-o", "out"], 66, "absent.yaml: "),
        (
            vec!["convert", "relative.yaml", "--to", "weir", "-o", "out"],
            64,
            "relative.yaml: operation 'a' (GET /a): the description does not say",
        ),
        (vec!["convert", "relative.yaml", "--to", "wier", "-o", "out"], 64, "there are weir, nginx"),
        (
            vec!["convert", "relative.yaml", "--to", "weir", "-o", "out", "--listen", "127.0.0.1:0"],
            64,
            "the port has to be known",
        ),
        (vec!["convert", "relative.yaml", "--to", "weir", "-o", "out", "--upstream", "x"], 64, "want ORIGIN=URL"),
        (
            vec!["convert", "relative.yaml", "--to", "weir", "-o", "bad.yaml", "--upstream", "=http://h:1"],
            73,
            "bad.yaml/weir: ",
        ),
        (
            vec!["convert", "relative.yaml", "--to", "fiber,nginx", "-o", "tls", "--upstream", "=https://h"],
            64,
            "fiber cannot be configured for this description",
        ),
    ] {
        let output = gauge(&arguments, folder.path());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(said), "{arguments:?}: {}\nshould say {said}", err(&output));
    }
    // One that cannot does not keep the others from being written.
    assert!(folder.path().join("tls/nginx/nginx.conf").is_file());
    assert!(!folder.path().join("tls/fiber").exists());
    assert!(!folder.path().join("out").exists());
}

#[test]
fn convert_writes_a_directory_for_each_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().to_string_lossy().into_owned();
    let arguments = ["convert", AUCTION, "--to", "all", "-o", &to, "--cpus", "3", "--listen", "[::1]:9000"];
    let written = gauge(&arguments, &root());
    assert_eq!(written.status.code(), Some(0), "{}", err(&written));
    assert_eq!(out(&written).lines().count(), 11);
    let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).expect(file);
    assert!(read("nginx/nginx.conf").contains("worker_processes 3;"));
    assert!(read("nginx/nginx.conf").contains("listen [::1]:9000 "));
    assert!(read("nginx/README.md").contains("\n    nginx -p . -c nginx.conf -e stderr\n"));
    assert!(read("caddy/README.md").contains("GOMAXPROCS=3 "));
    assert!(read("tyk/README.md").contains("it needs a Redis"));
    assert!(!read("tyk/README.md").contains("lint"), "it has no such command");
    let again = gauge(&arguments, &root());
    assert_eq!(again.status.code(), Some(73));
    assert!(err(&again).contains("weir is not empty"), "{}", err(&again));
    let elsewhere = folder.path().join("b").to_string_lossy().into_owned();
    let arguments = [
        "convert",
        AUCTION,
        "--to",
        "weir,weir",
        "-o",
        &elsewhere,
        "--upstream",
        "http://127.0.0.1:12000/=http://users:80",
    ];
    let written = gauge(&arguments, &root());
    assert_eq!((written.status.code(), out(&written).lines().count()), (Some(0), 1), "{}", err(&written));
    assert!(read("b/weir/weir.yaml").contains("targets: [\"http://users:80\"]"));
}

const SHOP: &str = crate::policies::API;

#[test]
fn convert_says_what_it_set_and_what_it_could_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (keys, set, to) = (path("keys.txt"), path("jwks.json"), path("out"));
    std::fs::write(&keys, "# the shop\n3f1c9a7d2b8e4f60a5c1 shop\n").expect("a file");
    std::fs::write(&set, gauge::profile::token::Jwt::default().key_set()).expect("a file");
    let written = gauge(
        &[
            "convert",
            SHOP,
            "--to",
            "weir,nginx",
            "-o",
            &to,
            "--cors",
            "https://app.example.com",
            "--cors",
            "http://localhost:3000",
            "--api-keys",
            &keys,
            "--jwks",
            &set,
            "--jwt-issuer",
            "https://id.example.com/",
            "--jwt-audience",
            "orders",
            "--limit",
            "1000/min",
            "--retries",
            "2",
            "--metrics",
            "127.0.0.1:9901",
        ],
        &root(),
    );
    assert_eq!(written.status.code(), Some(0), "{}", err(&written));
    let read = |file: &str| std::fs::read_to_string(folder.path().join("out").join(file)).expect(file);
    let weir = read("weir/README.md");
    for line in [
        "- pages of https://app.example.com, http://localhost:3000 may use the API without cookies",
        "- operations that need an API key get 401 without one of those given (1); ",
        "- operations that need a bearer token get 401 without one of the issuer https://id.example.com/ for the audience orders",
        "- each client consumer, or address where no credentials are checked, may send 1000 requests a minute",
        "- a request is sent again up to 2 times",
        "- metrics for Prometheus: http://127.0.0.1:9901/metrics",
    ] {
        assert!(weir.lines().any(|said| said.starts_with(line)), "{line}\n{weir}");
    }
    assert!(!read("weir/keys.yaml").contains("3f1c9a7d2b8e4f60a5c1"), "Weir has the hash only");
    let mode = |file: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(folder.path().join("out").join(file)).expect(file).permissions().mode() & 0o777
    };
    assert_eq!(mode("nginx/keys.map"), 0o600, "others cannot read the keys");
    let nginx = read("nginx/README.md");
    assert!(!nginx.contains("\n- metrics for") && nginx.contains("\n- --metrics: nginx has no metrics"), "{nginx}");
    assert!(err(&written).contains("note: nginx: --jwks: tokens are checked by NGINX Plus"), "{}", err(&written));
    assert!(err(&written).contains("note: weir: without a check pass 1 operation (getBasket)"), "{}", err(&written));
    // Nothing is checked, and a note says so.
    let plain = gauge(&["convert", SHOP, "--to", "weir", "-o", &path("plain")], &root());
    assert!(err(&plain).contains("need credentials, which the gateways pass on without a check"), "{}", err(&plain));
}

#[test]
fn options_that_cannot_be_right_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (keys, bad, set, to) = (path("keys.txt"), path("bad.txt"), path("jwks.json"), path("out"));
    std::fs::write(&keys, "3f1c9a7d2b8e4f60a5c1 shop\n").expect("a file");
    std::fs::write(&bad, "secret shop\n").expect("a file");
    std::fs::write(&set, "{}").expect("a file");
    for (options, said) in [
        (vec!["--cors", "null"], "sandboxed pages"),
        (vec!["--cors", "app.example.com"], "want an origin"),
        (vec!["--limit", "5"], "such as 100/s"),
        (vec!["--retries", "11"], "0..=10"),
        (vec!["--metrics", "127.0.0.1:8080"], "another port"),
        (vec!["--metrics", "9901"], "want an IP address and a port"),
        (vec!["--api-keys", &bad], "bad.txt: line 1: a key has 20 to 256"),
        (vec!["--api-keys", "/no/where"], "/no/where: "),
        (vec!["--jwks", &set], "--jwt-issuer"),
        (vec!["--jwks", &set, "--jwt-issuer", "a", "--jwt-audience", "b"], "jwks.json: it is not a JSON Web Key Set"),
        (vec!["--jwt-issuer", "a"], "--jwks"),
    ] {
        let output = gauge(&[vec!["convert", SHOP, "--to", "weir", "-o", &to], options.clone()].concat(), &root());
        assert_eq!(output.status.code(), Some(64), "{options:?}: {}", err(&output));
        assert!(err(&output).contains(said), "{options:?}: {}", err(&output));
        assert!(!err(&output).contains("secret"), "{}", err(&output));
    }
    // The auction platform has no API keys.
    let output = gauge(&["convert", AUCTION, "--to", "weir", "-o", &to, "--api-keys", &keys], &root());
    assert_eq!(output.status.code(), Some(64), "{}", err(&output));
    assert!(err(&output).contains("--api-keys: no operation needs an API key"), "{}", err(&output));
    assert!(!folder.path().join("out").exists());
}
