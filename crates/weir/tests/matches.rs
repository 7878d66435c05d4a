//! Routes by regular expression and query, with their neighbours: cache, limits, HTTP/2, reload, the command line.

use testkit::{RawClient, Upstream, Weir, answer};

fn gateway(top: &str, routes: &str) -> Weir {
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\n{top}routes:\n{routes}"
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn respond(name: &str, matcher: &str) -> String {
    format!("  - {{name: {name}, match: {{{matcher}}}, respond: {{body: {name}}}}}\n")
}

fn routes() -> String {
    [
        respond("rest", "path: /*"),
        respond("version", r"path: '~/v[0-9]+/.*'"),
        respond("images", r"path: '~(?i).*\.(png|jpe?g)'"),
        respond("exact", "path: /v1/a"),
        respond("second", "path: /page, query: {version: '2'}"),
        respond("debug", "path: /page, query: {debug: {present: true}}"),
        respond(
            "mobile",
            "path: /page, headers: {User-Agent: {regex: '.*(iPhone|Android).*'}, X-Desktop: {present: false}}",
        ),
        respond("page", "path: /page"),
    ]
    .concat()
}

fn name(weir: &Weir, target: &str, fields: &[(&str, &str)]) -> String {
    weir.request("GET", target, fields, "").text().to_owned()
}

#[test]
fn requests_find_their_routes() {
    let weir = gateway("", &routes());
    for (target, fields, expected) in [
        ("/v12/x", &[][..], "version"),
        ("/v1/a", &[], "exact"),
        // Of two expressions the first of the file.
        ("/v1/a.png", &[], "version"),
        ("/x/A.JPG", &[], "images"),
        ("/x/v1/a", &[], "rest"),
        // The path is matched in its one form.
        ("/x/../v1/b", &[], "version"),
        ("/%76%31/b", &[], "version"),
        ("/page", &[], "page"),
        ("/page?version=2", &[], "second"),
        ("/page?a=b&version=%32", &[], "second"),
        ("/page?version=20", &[], "page"),
        ("/page?debug", &[], "debug"),
        ("/page", &[("User-Agent", "Mozilla/5.0 (iPhone)")], "mobile"),
        ("/page", &[("User-Agent", "Mozilla/5.0 (iPhone)"), ("X-Desktop", "1")], "page"),
    ] {
        assert_eq!(name(&weir, target, fields), expected, "{target} {fields:?}");
    }
}

#[test]
fn http2_finds_the_same_routes() {
    let weir = gateway("", &routes());
    for (target, expected) in [("/v12/x", "version"), ("/page?version=2", "second"), ("/other", "rest")] {
        let output = std::process::Command::new("curl")
            .args(["-sS", "-m", "20", "--http2-prior-knowledge", &format!("{}{target}", weir.url())])
            .output();
        let Ok(output) = output else {
            eprintln!("skipped: curl is not installed");
            return;
        };
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    }
}

#[test]
fn routes_of_one_path_share_no_cached_response() {
    let (one, two) = (Upstream::start(answer::ok("one")), Upstream::start(answer::ok("two")));
    let top = format!(
        "caches: {{c: {{mode: ttl, ttl: 5m, query: []}}}}\nupstreams: {{one: {{targets: [{}]}}, two: {{targets: [{}]}}}}\n",
        one.url(),
        two.url()
    );
    let weir = gateway(
        &top,
        "  - {match: {path: '~/a+'}, upstream: one, cache: c}\n  - {match: {path: '~/a+', query: {v: '2'}}, upstream: two, cache: c}\n",
    );
    for _ in 0..3 {
        assert_eq!(name(&weir, "/aa?v=1", &[]), "one");
        assert_eq!(name(&weir, "/aa?v=2", &[]), "two");
    }
    assert_eq!((one.requests().len(), two.requests().len()), (1, 1), "each is stored");
}

#[test]
fn limits_and_names_belong_to_the_route_that_takes_the_request_also_after_a_reload() {
    let limits = "limits: {few: {algorithm: fixed_window, key: client_ip, quota: 2, window: 1h}}\n";
    let limited = "  - {match: {path: '~/v[0-9]+'}, respond: {body: limited}, limits: [few]}\n";
    let weir = gateway(limits, &(limited.to_owned() + &respond("rest", "path: /*")));
    let statuses = |target: &str| (0..3).map(|_| weir.get(target).status()).collect::<Vec<_>>();
    assert_eq!(statuses("/v1"), [200, 200, 429]);
    assert_eq!(statuses("/vx"), [200; 3]);
    let changed = std::fs::read_to_string(weir.config_path()).unwrap().replace("~/v[0-9]+", "~/w[0-9]+");
    weir.rewrite_config(&changed);
    let addr = weir.admin_addr();
    let mut admin = RawClient::connect(addr);
    admin.request("POST", "/reload", &[("Host", &addr.to_string())], "");
    assert_eq!(admin.read_response().status(), 200);
    testkit::wait::until(testkit::DEADLINE, "the new expression is in force", || weir.get("/v1").text() == "rest");
}

#[test]
fn the_command_line_explains_them() {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let path = builder.dir().join("weir.yaml");
    std::fs::write(&path, format!("listen: 127.0.0.1:0\nroutes:\n{}", routes())).unwrap();
    let args = ["routes", path.to_str().unwrap(), "/page?version=2"].map(str::to_owned);
    let text = builder.args(args).command().stdout;
    for part in [
        "because of path /page, query version=2",
        "not `debug`: it wants ?debug=(present)",
        "not `mobile`: it wants user-agent=~.*(iPhone|Android).*,x-desktop=(absent)",
        "not `page`: /page comes after",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}
