//! Requests that are checked against a description, with the real program: what a client is told, and that bodies which are read ahead
//! neither change, nor are lost, nor reach an upstream that must not see them.

use serde_json::{Value, json};
use testkit::responder::Responder;
use testkit::{DEADLINE, Message, Upstream, Weir, responder, wait};

const SPEC: &str = "openapi: 3.1.0
info: {title: Orders, version: '1'}
paths:
  /orders:
    get:
      operationId: listOrders
      parameters: [{name: limit, in: query, schema: {type: integer, maximum: 100}}]
    post: &order
      operationId: createOrder
      parameters: [{name: dry, in: query, schema: {type: boolean}}]
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [items]
              properties:
                note: {type: string}
                items: {type: array, items: {type: object, required: [qty], properties: {qty: {type: integer, minimum: 1}}}}
          text/csv: {}
  /orders/{id}:
    put:
      operationId: putOrder
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      requestBody: {content: {application/json: {schema: {type: object, required: [a]}}}}
  /upload:
    post: {operationId: upload}
";

const JSON: (&str, &str) = ("Content-Type", "application/json");
const GOOD: &str = r#"{"items":[{"qty":1}]}"#;

/// A gateway for [`SPEC`]; `api` are further keys of it, `upstream` those of the upstream, `top` further sections.
fn gateway(upstream: &Upstream, api: &str, of_upstream: &str, top: &str) -> Weir {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    std::fs::write(builder.dir().join("orders.yaml"), SPEC).unwrap();
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\n\
         upstreams: {{u: {{targets: [{url}]{of_upstream}}}}}\n{top}apis:\n  orders: {{spec: orders.yaml, upstream: u{api}}}\nroutes: []\n",
        url = upstream.url()
    );
    builder.config(yaml).start()
}

/// Responds with the body that came.
fn json_body() -> Responder {
    Box::new(|conn, request| conn.respond(200, &[], &request.body))
}

fn problem(message: &Message) -> Value {
    assert_eq!(message.field("Content-Type"), Some("application/problem+json"));
    serde_json::from_slice(&message.body).unwrap()
}

fn post(weir: &Weir, body: &str) -> Message {
    weir.request("POST", "/orders", &[JSON], body)
}

fn chunked(body: &str, size: usize) -> String {
    let mut text = String::new();
    for piece in body.as_bytes().chunks(size) {
        text.push_str(&format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()));
    }
    text + "0\r\n\r\n"
}

#[test]
fn a_request_that_breaks_the_description_is_refused_and_told_why() {
    let upstream = Upstream::start(json_body());
    let weir = gateway(&upstream, "", "", "");
    let refused = post(&weir, r#"{"items":[{"qty":0},{"qty":"secret"}]}"#);
    assert_eq!(refused.status(), 400);
    let told = problem(&refused);
    assert_eq!(told["error"], "invalid_request");
    assert_eq!(
        told["errors"],
        json!([{"in": "body", "pointer": "/items/0/qty", "rule": "minimum"}, {"in": "body", "pointer": "/items/1/qty", "rule": "type"}])
    );
    assert!(!refused.text().contains("secret"));
    let refused = weir.request("POST", "/orders", &[("Content-Type", "text/plain")], "x");
    assert_eq!((refused.status(), &problem(&refused)["error"]), (415, &json!("unsupported_media_type")));
    let refused = weir.get("/orders?limit=101");
    assert_eq!((refused.status(), &problem(&refused)["errors"][0]["pointer"]), (400, &json!("/limit")));
    assert_eq!(upstream.request_count(), 0);
    assert_eq!(weir.get("/orders?limit=100").status(), 200);
    assert_eq!(post(&weir, GOOD).text(), GOOD);
    assert_eq!(weir.request("POST", "/orders", &[("Content-Type", "text/csv")], "a,b").text(), "a,b");
    let metrics = weir.admin_get("/metrics").text().to_owned();
    for line in [
        "openapi_violations_total{api=\"orders\",operation=\"createOrder\",rule=\"minimum\"} 1",
        "openapi_violations_total{api=\"orders\",operation=\"createOrder\",rule=\"content_type\"} 1",
        "openapi_violations_total{api=\"orders\",operation=\"listOrders\",rule=\"maximum\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[test]
fn report_lets_pass_what_it_counts_and_logs() {
    let upstream = Upstream::start(json_body());
    let weir = gateway(&upstream, ", validate: {request: report}", "", "");
    let bad = r#"{"items":[{"qty":0}]}"#;
    assert_eq!(post(&weir, bad).text(), bad);
    assert_eq!(weir.get("/orders?limit=x").status(), 200);
    let log = wait::some(DEADLINE, "two lines", || {
        let lines: Vec<Value> = weir.stdout().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (lines.len() == 2).then_some(lines)
    });
    assert_eq!(log[0]["violations"], json!([{"in": "body", "pointer": "/items/0/qty", "rule": "minimum"}]));
    assert_eq!(log[1]["violations"], json!([{"in": "query", "pointer": "/limit", "rule": "type"}]));
    assert!(weir.admin_get("/metrics").text().contains("operation=\"createOrder\",rule=\"minimum\"} 1"));
}

#[test]
fn a_connection_goes_on_behind_a_refusal_and_pipelined_requests_keep_their_order() {
    let upstream = Upstream::start(json_body());
    let weir = gateway(&upstream, "", "", "");
    let head = |length: usize| {
        format!(
            "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let coded =
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bad = "{\"items\":7}";
    let all = [
        head(bad.len()) + bad,
        head(GOOD.len()) + GOOD,
        coded.to_owned() + &chunked(bad, 3),
        coded.to_owned() + &chunked(GOOD, 5),
        "GET /orders HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
    ]
    .concat();
    for cut in 0..3 {
        let mut client = weir.connect();
        match cut {
            0 => client.send(&all),
            1 => client.send_bytewise(all.as_bytes()),
            _ => client.send_random_splits(all.as_bytes(), 7),
        }
        let statuses: Vec<u16> = (0..5).map(|_| client.read_response().status()).collect();
        assert_eq!(statuses, [400, 200, 400, 200, 200], "cut {cut}");
    }
    let seen = upstream.requests();
    assert_eq!(seen.len(), 9);
    assert!(seen.iter().all(|one| one.complete && (one.body.is_empty() || one.body == GOOD.as_bytes())));
    assert_eq!(upstream.errors(), Vec::<String>::new());
}

#[test]
fn a_body_is_requested_once_and_only_when_it_will_be_read() {
    let upstream = Upstream::start(json_body());
    let weir = gateway(&upstream, "", "", "");
    let head = |target: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            GOOD.len()
        )
    };
    let mut client = weir.connect();
    client.send(head("/orders"));
    assert_eq!(client.read_raw(25), b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(upstream.accepted(), 0, "the upstream is not contacted before the body is checked");
    client.send(GOOD);
    let response = client.read_response();
    assert_eq!((response.status(), response.interim.len(), response.text()), (200, 0, GOOD));
    // Refused by its head: the body is not read.
    let mut client = weir.connect();
    client.send(head("/orders?dry=maybe"));
    let response = client.read_response();
    assert_eq!((response.status(), response.interim.len()), (400, 0));
    client.expect_closed();
}

#[test]
fn an_upstream_sees_nothing_of_a_body_that_does_not_come() {
    let upstream = Upstream::start(json_body());
    let weir = gateway(&upstream, "", "", "server: {body_idle_timeout: 300ms}\n");
    let head = "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n";
    // The client goes, at every place of the request.
    for sent in 0..12 {
        let mut client = weir.connect();
        client.send([head, &GOOD[..sent]].concat());
        if sent % 2 == 0 { client.reset() } else { client.half_close() }
    }
    // It stalls.
    let mut client = weir.connect();
    client.send([head, "{"].concat());
    let late = client.read_response();
    assert_eq!((late.status(), &problem(&late)["error"]), (408, &json!("body_timeout")));
    client.expect_closed();
    // It breaks the framing.
    let mut client = weir.connect();
    client.send("POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}X");
    assert_eq!(client.read_response().status(), 400);
    client.expect_closed();
    assert_eq!(upstream.accepted(), 0);
    // Those who disconnected are counted as such, once the gateway has seen them.
    wait::until(DEADLINE, "client_disconnected", || {
        weir.admin_get("/metrics").text().contains("reason=\"client_disconnected\"} 12")
    });
}

#[test]
fn the_total_timeout_holds_while_a_body_trickles_in() {
    let upstream = Upstream::start(json_body());
    let weir = gateway(&upstream, ", timeouts: {total: 400ms}", "", "");
    let mut client = weir.connect();
    client.send("POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n");
    wait::until(DEADLINE, "the refusal", || {
        let _ = client.try_send(" ");
        weir.admin_get("/metrics").text().contains("reason=\"body_timeout\"} 1")
    });
    let late = client.read_response();
    assert_eq!((late.status(), upstream.accepted()), (408, 0));
}

#[test]
fn a_body_has_a_size() {
    let upstream = Upstream::start(json_body());
    let weir = gateway(&upstream, ", validate: {body: 300KiB}", "", "");
    let body = |length: usize| format!("{{\"items\":[],\"note\":\"{}\"}}", "x".repeat(length - 22));
    let largest = body(300 * 1024);
    assert_eq!(largest.len(), 300 * 1024);
    assert_eq!(post(&weir, &largest).text(), largest);
    let mut client = weir.connect();
    client.send(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    client.send(chunked(&largest, 4096));
    let response = client.read_response();
    assert_eq!((response.status(), response.text() == largest), (200, true));
    assert_eq!(upstream.requests()[1].body_length, 300 * 1024);

    assert_eq!(post(&weir, &body(300 * 1024 + 1)).status(), 413);
    let mut client = weir.connect();
    client.send(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let _ = client.try_send(chunked(&body(300 * 1024 + 1), 4096));
    assert_eq!(client.read_response().status(), 413);
    // Framing that is far larger than what it carries.
    let mut client = weir.connect();
    client.send(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let _ = client.try_send(chunked(&body(250 * 1024), 1));
    assert_eq!(client.read_response().status(), 413);
    assert_eq!(upstream.request_count(), 2);
    // A body that is not described is not held: it streams, whatever its size.
    let large = "y".repeat(2 << 20);
    assert_eq!(weir.request("POST", "/upload", &[], &large).status(), 200);
    assert_eq!(upstream.requests()[2].body_length, 2 << 20);
}

#[test]
fn a_checked_body_is_sent_again_with_every_attempt() {
    let refusing = Upstream::start(responder::in_order([responder::status(503), responder::status(503), json_body()]));
    let weir = gateway(&refusing, "", ", retry: {extra_attempts: 2, budget: 100%, on: [reset, 503]}", "");
    // Larger than an ordinary buffer: without reading ahead it could not be repeated.
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(200 * 1024));
    for framing in ["length", "chunked"] {
        refusing.set_responder(responder::in_order([responder::status(503), responder::reset(), json_body()]));
        refusing.forget();
        let mut client = weir.connect();
        let head = "PUT /orders/1 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
        match framing {
            "length" => client.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())),
            _ => client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", chunked(&body, 1000))),
        }
        let response = client.read_response();
        assert_eq!((response.status(), response.text() == body), (200, true), "{framing}");
        let seen = refusing.requests();
        assert_eq!(seen.len(), 3, "{framing}");
        assert!(seen.iter().filter(|one| one.complete).all(|one| one.body_length == body.len() as u64), "{framing}");
        assert_eq!(client.get("/orders").status(), 200, "the connection goes on");
    }
}

#[test]
fn checks_stand_behind_credentials_and_limits_and_before_the_cache() {
    let upstream = Upstream::start(responder::ok("stored"));
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let spec = format!(
        "{SPEC}security: [{{key: []}}]\ncomponents: {{securitySchemes: {{key: {{type: apiKey, in: header, name: X-API-Key}}}}}}\n"
    );
    std::fs::write(builder.dir().join("orders.yaml"), spec).unwrap();
    let keys = builder.dir().join("keys.yaml").display().to_string();
    let made = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(["keys", "create", "shop", "--file", &keys]).command();
    let key = made.stdout.trim().to_owned();
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\nupstreams: {{u: {{targets: [{}]}}}}\nauth: {{keys: {{api_key: {{store: {{file: {keys}}}}}}}}}\n\
         limits: {{few: {{key: consumer, rate: 1/h, burst: 4}}}}\napis:\n  orders: {{spec: orders.yaml, upstream: u, auth: {{key: keys}}, limits: [few]}}\nroutes: []\n",
        upstream.url()
    );
    let weir = builder.config(yaml).start();
    let send = |fields: &[(&str, &str)], body: &str| weir.request("POST", "/orders", fields, body).status();
    assert_eq!(send(&[JSON], "{}"), 401, "who is not known learns nothing of the description");
    let key = ("X-API-Key", key.as_str());
    assert_eq!(send(&[JSON, key], "{}"), 400);
    assert_eq!(send(&[JSON, key], GOOD), 200);
    assert_eq!([send(&[JSON, key], "{}"), send(&[JSON, key], "{}")], [400, 400]);
    assert_eq!(send(&[JSON, key], "{}"), 429, "what is refused has counted");
    assert_eq!(upstream.request_count(), 1);

    // A stored response is no way around the description.
    let upstream =
        Upstream::start(responder::raw("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\nx"));
    let weir = gateway(&upstream, ", cache: pages", "", "caches: {pages: {mode: http, post: json}}\n");
    for _ in 0..3 {
        assert_eq!(weir.get("/orders?limit=1").status(), 200);
        assert_eq!(weir.get("/orders?limit=101").status(), 400);
        assert_eq!(post(&weir, GOOD).status(), 200);
        assert_eq!(post(&weir, "{}").status(), 400);
    }
    assert!(upstream.request_count() <= 4, "{}", upstream.request_count());
}

#[test]
fn a_reload_changes_the_description_for_requests_that_come_after() {
    let upstream = Upstream::start(json_body());
    let weir = gateway(&upstream, "", "", "");
    let yaml = std::fs::read_to_string(weir.config_path()).unwrap();
    let mut waiting = weir.connect();
    waiting.send(format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        GOOD.len()
    ));
    waiting.send(&GOOD[..5]);
    assert_eq!(post(&weir, GOOD).status(), 200);
    let reload = || {
        let mut admin = testkit::RawClient::connect(weir.admin_addr());
        admin.send("POST /reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
        admin.read_response()
    };
    std::thread::scope(|scope| {
        // Traffic that is right before and after, all the time.
        let traffic = scope.spawn(|| (0..200).all(|_| weir.get("/orders?limit=1").status() == 200));
        std::fs::write(weir.dir().join("orders.yaml"), SPEC.replace("minimum: 1", "minimum: 2")).unwrap();
        let reloaded = reload();
        assert_eq!(reloaded.status(), 200, "{}", reloaded.text());
        assert!(reloaded.text().contains("route createOrder changed"), "{}", reloaded.text());
        assert!(traffic.join().unwrap());
    });
    assert_eq!(post(&weir, GOOD).status(), 400);
    // It keeps the configuration that it began with.
    waiting.send(&GOOD[5..]);
    assert_eq!(waiting.read_response().status(), 200);
    // A description that is wrong changes nothing.
    std::fs::write(weir.dir().join("orders.yaml"), "openapi: 3.1.0\npaths: 7\n").unwrap();
    assert_eq!(reload().status(), 422);
    assert_eq!(post(&weir, GOOD).status(), 400);
    assert_eq!(weir.get("/orders").status(), 200);
    assert_eq!(std::fs::read_to_string(weir.config_path()).unwrap(), yaml);
}
