//! Every response carries the id of its request, whoever made the response; nobody else's id takes its place.

use testkit::{Message, RawClient, Upstream, Weir, responder};

/// Names that the upstream's response has, and the gateway's configuration for them.
const NAMES: [(&str, &str); 2] = [("X-Request-Id", ""), ("X-Correlation-Id", "request_id: X-Correlation-Id\n")];

fn gateway(upstream: &Upstream, top: &str) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]
workers: 1
{top}limits: {{one: {{algorithm: fixed_window, key: global, quota: 1, window: 24h}}}}
caches: {{ttl: {{mode: ttl, ttl: 1h}}, http: {{mode: http}}}}
upstreams:
  u: {{targets: [{}], retry: {{extra_attempts: 0}}}}
  dead: {{targets: [\"http://127.0.0.1:1\"]}}
routes:
  - {{match: {{path: /p/*}}, upstream: u, upgrade: [websocket]}}
  - {{match: {{path: /ttl/*}}, upstream: u, cache: ttl}}
  - {{match: {{path: /http/*}}, upstream: u, cache: http}}
  - {{match: {{path: /dead/*}}, upstream: dead}}
  - {{match: {{path: /limited}}, limits: [one], respond: {{status: 200, body: x}}}}
  - {{match: {{path: /here, methods: [GET]}}, cors: {{origins: [\"https://a\"]}}, respond: {{status: 200, body: x}}}}
  - {{match: {{path: /moved/*}}, redirect: {{to: /new/*, status: 308}}}}
  - {{match: {{path: /healthz}}, respond: {{builtin: healthz}}}}
",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

/// The one id of a response.
fn id_of(response: &Message, name: &str) -> String {
    let ids = response.head.all(name);
    assert_eq!(ids.len(), 1, "{name} of {response:?}");
    assert!(ids[0].len() == 32 && ids[0].bytes().all(|byte| byte.is_ascii_hexdigit()), "{ids:?}");
    ids[0].to_owned()
}

fn get(client: &mut RawClient, request: &str) -> Message {
    client.send(request);
    client.read_response_to(request.split(' ').next().unwrap())
}

#[test]
fn every_response_has_the_id_of_its_request_and_no_other() {
    for (name, top) in NAMES {
        let upstream = Upstream::start(responder::raw(format!(
            "HTTP/1.1 103 Early Hints\r\n{name}: theirs\r\n\r\nHTTP/1.1 200 OK\r\n{name}: theirs\r\n{}: theirs\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello",
            name.to_lowercase()
        )));
        let weir = gateway(&upstream, top);
        let mut client = weir.connect();
        let mut ids = Vec::new();
        for (request, status) in [
            ("GET /p/1 HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("HEAD /p/1 HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("POST /p/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", 200),
            ("GET /p/1 HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\nX-Correlation-Id: mine\r\n\r\n", 200),
            ("GET /ttl/1 HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET /ttl/1 HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET /ttl/1 HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n", 206),
            ("GET /http/1 HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET /http/1 HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"1\"\r\n\r\n", 304),
            ("GET /http/1 HTTP/1.1\r\nHost: a\r\nCache-Control: no-cache\r\n\r\n", 200),
            ("GET /dead/1 HTTP/1.1\r\nHost: a\r\n\r\n", 502),
            ("GET /limited HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET /limited HTTP/1.1\r\nHost: a\r\n\r\n", 429),
            ("GET /here HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            (
                "OPTIONS /here HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\nAccess-Control-Request-Method: GET\r\n\r\n",
                204,
            ),
            ("POST /here HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("GET /moved/x HTTP/1.1\r\nHost: a\r\n\r\n", 308),
            ("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 200),
            ("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            ("GET /a//b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 204),
            // The last one, which ends the connection.
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        ] {
            let response = get(&mut client, request);
            assert_eq!(response.status(), status, "{request}");
            ids.push(id_of(&response, name));
        }
        let all = ids.len();
        // What went on is what came back.
        for request in upstream.requests() {
            assert!(ids.contains(&request.head.field(name).unwrap().to_owned()));
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "each request has an id of its own");
    }
}

#[test]
fn a_switch_of_protocols_has_the_id_too() {
    let upstream = Upstream::start(responder::raw(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX-Request-Id: theirs\r\n\r\n",
    ));
    let weir = gateway(&upstream, "");
    let mut client = weir.connect();
    client.send("GET /p/1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let head = client.read_head();
    assert_eq!(head.status(), 101);
    assert_eq!(head.all("x-request-id"), [upstream.requests()[0].head.field("x-request-id").unwrap()]);
}

#[test]
fn the_id_of_a_trusted_peer_comes_back() {
    let upstream = Upstream::start(responder::ok("hello"));
    let weir = gateway(&upstream, "trusted_proxies: [127.0.0.0/8]\n");
    let mut client = weir.connect();
    for path in ["/p/1", "/ttl/1", "/ttl/1", "/here"] {
        let response =
            get(&mut client, &format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Request-Id: given-{path}\r\n\r\n"));
        assert_eq!(response.head.all("x-request-id"), [&*format!("given-{path}")]);
    }
}

#[test]
fn without_it_the_field_is_the_upstreams_and_never_stored() {
    let upstream =
        Upstream::start(responder::raw("HTTP/1.1 200 OK\r\nX-Request-Id: theirs\r\nContent-Length: 5\r\n\r\nhello"));
    let weir = gateway(&upstream, "server: {return_request_id: false}\n");
    let mut client = weir.connect();
    for (path, expected) in
        [("/p/1", Some("theirs")), ("/here", None), ("/nothing", None), ("/ttl/1", None), ("/ttl/1", None)]
    {
        let response = get(&mut client, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(response.field("x-request-id"), expected, "{path}");
    }
}
