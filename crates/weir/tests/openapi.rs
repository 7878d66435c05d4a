//! APIs that are published from their descriptions, with the real program.

use serde_json::Value;
use testkit::{Message, Upstream, Weir, responder};

/// A description of orders; `operations` are further paths.
fn description(version: &str, operations: &str) -> String {
    format!(
        "openapi: {version}\ninfo: {{title: Orders, version: '1'}}\nservers: [{{url: https://api.example.com/v1}}]\npaths:\n{operations}"
    )
}

const ORDERS: &str = "  /orders:
    get: {operationId: listOrders, responses: {'200': {description: ok}}}
    post: {operationId: createOrder, responses: {'201': {description: made}}}
  /orders/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get: {operationId: getOrder, responses: {'200': {description: ok}}}
    delete: {operationId: deleteOrder, security: [{key: []}], responses: {'204': {description: gone}}}
";

struct Rig {
    weir: Weir,
    upstream: Upstream,
}

/// A gateway for one API; `api` are further keys of it, `top` further sections with their line break, `routes` those of the file.
fn rig(spec: &str, api: &str, top: &str, routes: &str) -> Rig {
    let upstream = Upstream::start(responder::ok("hello"));
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    std::fs::write(builder.dir().join("orders.yaml"), spec).unwrap();
    let keys = builder.dir().join("keys.yaml").display().to_string();
    std::fs::write(&keys, "").unwrap();
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\nupstreams: {{u: {{targets: [{url}]}}}}\n\
         auth:\n  keys: {{api_key: {{store: {{file: {keys}}}}}}}\n{top}apis:\n  orders: {{spec: orders.yaml, upstream: u{api}}}\nroutes: [{routes}]\n",
        url = upstream.url()
    );
    Rig { weir: builder.config(yaml).start(), upstream }
}

impl Rig {
    fn status(&self, method: &str, path: &str) -> u16 {
        self.weir.request(method, path, &[], "").status()
    }

    /// Path of the newest request that the upstream saw.
    fn forwarded(&self) -> String {
        self.upstream.requests().last().unwrap().head.target().to_owned()
    }
}

fn with_key(spec: &str) -> String {
    format!("{spec}components: {{securitySchemes: {{key: {{type: apiKey, in: header, name: X-API-Key}}}}}}\n")
}

fn json(message: &Message) -> Value {
    serde_json::from_slice(&message.body).unwrap()
}

#[test]
fn each_operation_is_a_route_and_nothing_else_is() {
    let spec = with_key(&description("3.1.0", ORDERS));
    let rig = rig(&spec, ", auth: {key: keys}, validate: {request: none}", "", "");
    assert_eq!(rig.status("GET", "/v1/orders"), 200);
    assert_eq!(rig.forwarded(), "/v1/orders");
    assert_eq!(rig.status("HEAD", "/v1/orders"), 200);
    assert_eq!(rig.status("POST", "/v1/orders"), 200);
    assert_eq!(rig.status("GET", "/v1/orders/7"), 200);
    assert_eq!(rig.status("GET", "/v1/orders/7/items"), 404);
    assert_eq!(rig.status("GET", "/orders"), 404);
    let refused = rig.weir.request("PUT", "/v1/orders", &[], "");
    assert_eq!((refused.status(), refused.field("Allow")), (405, Some("GET, HEAD, POST")));
    // Described as protected, so it is.
    assert_eq!(rig.status("DELETE", "/v1/orders/7"), 401);
    let told = json(&rig.weir.admin_get("/routes"));
    let names: Vec<&str> = told.as_array().unwrap().iter().map(|route| route["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["listOrders", "createOrder", "getOrder", "deleteOrder"]);
}

#[test]
fn routes_of_the_file_come_first() {
    let route = "{name: listOrders, match: {path: /v1/orders, methods: [GET]}, respond: {body: mine}}";
    let rig = rig(
        &description("3.0.3", &ORDERS.replace("security: [{key: []}], ", "")),
        ", validate: {request: none}",
        "",
        route,
    );
    assert_eq!(rig.weir.get("/v1/orders").text(), "mine");
    assert_eq!(rig.weir.request("POST", "/v1/orders", &[], "").text(), "hello");
    let told = json(&rig.weir.admin_get("/routes"));
    let names: Vec<&str> = told.as_array().unwrap().iter().map(|route| route["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["listOrders", "createOrder", "getOrder", "deleteOrder"]);
}

#[test]
fn base_and_upstream_base_move_an_api() {
    let spec = description("3.0.3", &ORDERS.replace("security: [{key: []}], ", ""));
    let rig = rig(&spec, ", base: /shop/, upstream_base: /, validate: {request: none}", "", "");
    assert_eq!(rig.status("GET", "/v1/orders"), 404);
    assert_eq!(rig.status("GET", "/shop/orders/7?a=b"), 200);
    assert_eq!(rig.forwarded(), "/orders/7?a=b");
    assert_eq!(rig.status("GET", "/shop/orders"), 200);
    assert_eq!(rig.forwarded(), "/orders");
}

#[test]
fn an_operation_names_its_own_limits() {
    let spec =
        description("3.1.0", "  /a:\n    get: {operationId: a, x-weir: {limits: [one]}}\n    post: {operationId: b}\n");
    let top = "limits: {one: {key: global, rate: 1/h, burst: 1}}\n";
    let rig = rig(&spec, ", validate: {request: none}", top, "");
    assert_eq!([rig.status("GET", "/v1/a"), rig.status("GET", "/v1/a")], [200, 429]);
    assert_eq!([rig.status("POST", "/v1/a"), rig.status("POST", "/v1/a")], [200, 200]);
}

fn refused(spec: &str, api: &str) -> String {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let folder = builder.dir().join("specs");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("orders.yaml"), spec).unwrap();
    std::fs::write(builder.dir().join("outside.yaml"), "a: {type: string}\n").unwrap();
    let yaml = format!(
        "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: ['http://127.0.0.1:1']}}}}\napis:\n  orders: {{spec: specs/orders.yaml, upstream: u{api}}}\nroutes: []\n"
    );
    let finished = builder.config(yaml).run();
    assert_eq!(finished.code, Some(64), "{}", finished.stdout);
    finished.stderr
}

#[test]
fn a_described_protection_is_never_dropped() {
    let told = refused(&with_key(&description("3.1.0", ORDERS)), "");
    assert!(told.contains("operation `deleteOrder`: it requires `key`") && told.contains("orders.yaml:"), "{told}");
    // One of two alternatives is not enough either.
    let two = "  /a:\n    get: {operationId: a, security: [{key: []}, {other: []}]}\ncomponents: {securitySchemes: {key: {type: http, scheme: basic}, other: {type: http, scheme: bearer}}}\n";
    assert!(refused(&description("3.1.0", two), ", auth: {key: none}").contains("there is no authenticator `none`"));
}

#[test]
fn what_cannot_be_done_is_said_with_its_place() {
    for (operations, api, expected) in [
        (
            "  /a: {get: {operationId: a, parameters: [{$ref: 'https://example.com/a.yaml'}]}}\n",
            "",
            "https://example.com/a.yaml",
        ),
        ("  /a: {get: {operationId: a, parameters: [{$ref: '../outside.yaml#/a'}]}}\n", "", "outside of"),
        ("  /a/{b}.csv: {get: {operationId: a}}\n", "", "a parameter that is a part of a segment is not supported"),
        ("  /a: {get: {operationId: a, x-weir: {limit: [b]}}}\n", "", "operation `a`: `x-weir`: unknown key `limit`"),
        ("  /a: {get: {operationId: a, x-weir: {limits: [b]}}}\n", "", "`x-weir`: there is no limit `b`"),
        ("  /a: {get: {operationId: a}}\n", ", skip: [b]", "there is no operation `b` to skip"),
        ("  /a: {get: {operationId: a}}\n", ", skip: [a]", "describes no operation"),
        ("  /a: {get: {operationId: a}}\n", ", base: v1", "`v1` is not a path"),
        ("  /a: {get: {operationId: a}}\n", ", validate: {response: report}", "`response` is not supported yet"),
        ("  /a/{b}: {get: {operationId: a}}\n  /a/{c}: {get: {operationId: d}}\n", "", "match the same requests"),
    ] {
        let told = refused(&description("3.1.0", operations), api);
        assert!(told.contains(expected), "{operations}{api}\n{told}");
        assert!(told.contains("weir.yaml:4:") || told.contains("weir.yaml:"), "{told}");
    }
}

fn command(arguments: &[&str]) -> testkit::Finished {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).args(arguments.iter().copied()).command()
}

/// A folder with a description and a configuration file; the file's routes are `routes`.
fn folder(spec: &str, api: &str, routes: &str) -> (testkit::WeirBuilder, String) {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    std::fs::write(builder.dir().join("orders.yaml"), spec).unwrap();
    let file = builder.dir().join("weir.yaml");
    let yaml = format!(
        "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: ['http://127.0.0.1:1']}}, v: {{targets: ['http://127.0.0.1:1']}}}}\napis:\n  orders: {{spec: orders.yaml, upstream: u{api}}}\nroutes: [{routes}]\n"
    );
    std::fs::write(&file, yaml).unwrap();
    (builder, file.display().to_string())
}

#[test]
fn the_command_line_tells_what_is_checked_and_held() {
    let operations = "  /orders:\n    get: {operationId: listOrders, parameters: [{name: q, in: query, style: deepObject, schema: {type: object}}]}\n    \
                      post: {operationId: createOrder, requestBody: {content: {application/json: {schema: {type: object}}, text/xml: {schema: {type: object}}}}}\n    put: {operationId: replaceOrders}\n";
    let (_folder, file) = folder(&description("3.1.0", operations), ", validate: {body: 10KiB}", "");
    let checked = command(&["check", &file]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for part in [
        "api orders: 3 operations of ",
        "not streamed, on 1 routes: createOrder\n",
        "`q` is an object",
        "bodies of `text/xml` are not checked",
        "loading took ",
    ] {
        assert!(checked.stdout.contains(part), "{part}\n{}", checked.stdout);
    }
    let listed = command(&["routes", &file]).stdout;
    assert!(listed.contains("u (orders: enforced, bodies held up to 10 KiB)"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("replaceOrders") && line.ends_with(" u")), "{listed}");
    let one = command(&["routes", &file, "POST /v1/orders"]).stdout;
    assert!(one.contains("checked by the description of orders: enforced"), "{one}");
}

#[test]
fn changes_that_break_clients_have_an_exit_code_of_their_own() {
    let (builder, _) = folder(&description("3.1.0", ORDERS.replace("security: [{key: []}], ", "").as_str()), "", "");
    let old = builder.dir().join("orders.yaml").display().to_string();
    let new = builder.dir().join("new.yaml").display().to_string();
    std::fs::write(
        &new,
        description(
            "3.1.0",
            &ORDERS.replace("security: [{key: []}], ", "").replace("type: integer", "type: [integer, string]"),
        ),
    )
    .unwrap();
    let wider = command(&["openapi", "diff", &old, &new]);
    assert_eq!(
        (wider.code, wider.stdout.lines().last()),
        (Some(0), Some("2 changes, 0 of them breaking")),
        "{}",
        wider.stdout
    );
    let narrower = command(&["openapi", "diff", &new, &old]);
    assert_eq!(narrower.code, Some(3), "{}", narrower.stdout);
    assert!(
        narrower.stdout.contains("breaking  GET /v1/orders/{id}: path parameter `segment 2` is no longer `string`"),
        "{}",
        narrower.stdout
    );
    std::fs::write(&new, "openapi: 3.1.0\npaths: 7\n").unwrap();
    assert_eq!(command(&["openapi", "diff", &old, &new]).code, Some(64));
}

#[test]
fn drift_between_routes_and_description_is_found() {
    let spec = description("3.1.0", &ORDERS.replace("security: [{key: []}], ", ""));
    let (_same, file) = folder(&spec, "", "{match: {path: /other/*}, upstream: v}");
    let none = command(&["openapi", "drift", &file]);
    assert_eq!(
        (none.code, none.stdout.as_str()),
        (Some(0), "every route is described, and every described operation has a route")
    );
    let routes = "{match: {path: /v1/orders, methods: [POST, PATCH]}, upstream: u, name: mine}, {match: {path: /v1/hidden}, upstream: u, name: hidden}";
    let (_other, file) = folder(&spec, ", skip: [getOrder]", routes);
    let found = command(&["openapi", "drift", &file]);
    assert_eq!(found.code, Some(3), "{}", found.stderr);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "orders: described, and taken by the route `mine` of the file: POST /v1/orders (`createOrder`)",
            "orders: described, not routed: GET /v1/orders/{id} (`getOrder`)",
            "orders: routed, not described: PATCH /v1/orders (`mine`)",
            "orders: routed, not described: /v1/hidden (`hidden`)",
        ]
    );
}

#[test]
fn upstreams_share_the_requests_of_an_api() {
    let upstreams = [(); 2].map(|()| Upstream::start(responder::ok("hello")));
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let spec = description("3.1.0", "  /a: {get: {operationId: a}}\n");
    std::fs::write(builder.dir().join("orders.yaml"), spec).unwrap();
    let yaml = |split: &str| {
        format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstreams: {{u: {{targets: [{}]}}, v: {{targets: [{}]}}}}\n\
             apis:\n  orders: {{spec: orders.yaml{split}}}\nroutes: []\n",
            upstreams[0].url(),
            upstreams[1].url()
        )
    };
    let weir = builder.config(yaml(", split: {upstreams: {u: 1, v: 1}}")).start();
    assert!((0..100).all(|_| weir.get("/v1/a").status() == 200));
    assert!(upstreams.iter().all(|upstream| upstream.request_count() > 0));
    assert!(
        refused(&description("3.1.0", "  /a: {get: {operationId: a}}\n"), ", split: {upstreams: {u: 1}}")
            .contains("not both")
    );
}
