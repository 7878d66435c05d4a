//! Routes by regular expression and query, with their neighbours: cache, limits, HTTP/2, reload, the command line.

use testkit::{RawClient, Upstream, Weir, responder};

fn gateway_text(top: &str, routes: &str) -> String {
    format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\n{top}routes:\n{routes}"
    )
}

fn gateway(top: &str, routes: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(gateway_text(top, routes)).start()
}

/// Two upstreams, the second one with this body, and a cache for both.
fn cached(body: &'static str, settings: &str) -> (Upstream, Upstream, String) {
    let (one, two) = (Upstream::start(responder::ok("one")), Upstream::start(responder::ok(body)));
    let top = format!(
        "caches: {{c: {{mode: ttl, ttl: 5m{settings}}}}}\nupstreams: {{one: {{targets: [{}]}}, two: {{targets: [{}]}}}}\n",
        one.url(),
        two.url()
    );
    (one, two, top)
}

fn reload(weir: &Weir) {
    let addr = weir.admin_addr();
    let mut admin = RawClient::connect(addr);
    admin.request("POST", "/reload", &[("Host", &addr.to_string())], "");
    assert_eq!(admin.read_response().status(), 200);
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
    let (one, two, top) = cached("two", ", query: []");
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
    reload(&weir);
    testkit::wait::until(testkit::DEADLINE, "the new expression is in force", || weir.get("/v1").text() == "rest");
}

/// The names of routes depend on their order, and a cache outlives a reload.
#[test]
fn a_cached_response_stays_with_what_its_request_had_to_match_after_a_reload_too() {
    let (one, two, top) = cached("two", "");
    let route = |value: &str, upstream: &str| {
        format!("  - {{match: {{path: /v/*, headers: {{X-V: {value}}}}}, upstream: {upstream}, cache: c}}\n")
    };
    let weir = gateway(&top, &(route("a", "one") + &route("b", "two")));
    let bodies = || ["a", "b"].map(|value| name(&weir, "/v/x", &[("X-V", value)]));
    assert_eq!(bodies(), ["one", "two"]);
    let swapped = gateway_text(&top, &(route("new", "one") + &route("b", "two") + &route("a", "one")));
    weir.rewrite_config(&swapped);
    reload(&weir);
    testkit::wait::until(testkit::DEADLINE, "the new route", || name(&weir, "/v/x", &[("X-V", "new")]) == "one");
    assert_eq!(bodies(), ["one", "two"]);
    assert_eq!(name(&weir, "/v/x", &[("X-V", "new")]), "one");
    assert_eq!(
        (one.request_count(), two.request_count()),
        (2, 1),
        "what was stored is found, and by its own route only"
    );
}

#[test]
fn a_route_of_another_method_or_without_authentication_finds_no_stored_response() {
    let (_one, _two, top) = cached("two, longer", "");
    let route = |method: &str, upstream: &str| {
        format!("  - {{match: {{path: '~/r/.*', methods: [{method}]}}, upstream: {upstream}, cache: c}}\n")
    };
    let weir = gateway(&top, &(route("GET", "one") + &route("HEAD", "two")));
    assert_eq!(weir.get("/r/x").text(), "one");
    let response = weir.request("HEAD", "/r/x", &[], "");
    assert_eq!(response.field("content-length"), Some("11"), "{response:?}");
}

#[test]
fn no_spelling_and_no_length_leaves_a_condition_behind() {
    let routes = [
        respond("rest", "path: /*"),
        respond("delete", "path: /x, query: {action: {regex: 'delete.*'}}"),
        respond("tier", "path: /x, headers: {X-Tier: {present: true}}"),
        respond("agent", "path: /x, headers: {User-Agent: {regex: 'bot.*'}}"),
    ];
    let weir = gateway("", &routes.concat());
    assert_eq!(name(&weir, "/x?action=delete%0A", &[]), "delete");
    assert_eq!(name(&weir, "/x", &[("X-Tier", "gold")]), "tier");
    let long = "b".repeat(9000);
    assert_eq!(weir.request("GET", "/x", &[("User-Agent", &long)], "").status(), 431);
    assert_eq!(weir.get(&format!("/x?action={}", &long[..8200])).status(), 414);
    assert_eq!(weir.request("GET", "/x", &[("X-Other", &long)], "").status(), 200);
}

/// Servers that make variables of names take `X_Tier` for `X-Tier`: where the one chooses a route, the other does not reach the upstream.
#[test]
fn upstreams_see_no_other_spelling_of_a_field_that_chooses_a_route() {
    let upstream = Upstream::start(responder::ok("open"));
    let top = format!("upstreams: {{u: {{targets: [{}]}}}}\n", upstream.url());
    let weir = gateway(
        &top,
        &("  - {match: {path: /*}, upstream: u}\n".to_owned() + &respond("tier", "path: /*, headers: {X-Tier: gold}")),
    );
    for spelling in ["X_Tier", "x.tier", "X_TIER"] {
        assert_eq!(name(&weir, "/", &[(spelling, "gold")]), "open");
        assert!(upstream.requests().pop().unwrap().head.all(spelling).is_empty(), "{spelling}");
    }
    assert_eq!(name(&weir, "/", &[("X-Tier", "other"), ("X-Other_Field", "kept")]), "open");
    let seen = upstream.requests().pop().unwrap();
    assert_eq!((seen.head.all("x-tier"), seen.head.all("x-other_field")), (vec!["other"], vec!["kept"]));
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
