//! What the gateway makes of the status that a target ends a call with: calls that are made again, failures of targets, the log and metrics.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::ports::Port;
use testkit::{DEADLINE, Weir, wait};
use tokio::time::timeout;
use tonic::metadata::{AsciiMetadataValue, MetadataValue};
use tonic::{Code, Request};

use crate::service::{Client, text};
use crate::target::{Call, Says, Target};

/// Statuses that `retry.on` knows, with their names there.
const NAMED: [(u8, &str); 5] = [
    (1, "grpc_cancelled"),
    (4, "grpc_deadline_exceeded"),
    (8, "grpc_resource_exhausted"),
    (13, "grpc_internal"),
    (14, "grpc_unavailable"),
];

/// A gateway in front of targets; `upstream` and `route` are more keys of the one, and lines of the other.
fn gateway_of(targets: &[SocketAddr], upstream: &str, route: &str) -> Weir {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let urls: Vec<_> = targets.iter().map(|target| format!("http://{target}")).collect();
    let log = builder.dir().join("access.log");
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: {}}}\nupstreams:\n  u: {{targets: [{}], protocol: http2{upstream}}}\nroutes:\n  - name: r\n    match: {{path: /*}}\n    upstream: u\n{route}",
        log.display(),
        urls.join(", "),
    );
    builder.config(yaml).start()
}

/// Retries after this status, as often as it is needed, and ejects nothing.
fn on(names: &str) -> String {
    format!(", eject: none, retry: {{extra_attempts: 1, budget: 100%, on: [{names}]}}")
}

/// Sum of a metric over the samples that have all of these labels.
fn metric(weir: &Weir, name: &str, labels: &[&str]) -> u64 {
    let text = weir.admin_get("/metrics").text().to_owned();
    let samples = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let fitting = samples.filter(|line| labels.iter().all(|label| line.contains(label)));
    fitting.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

/// The lines of the access log, once there are so many.
fn log_lines(weir: &Weir, count: usize) -> Vec<String> {
    let path = weir.dir().join("access.log");
    wait::some(DEADLINE, "the lines of the log", || {
        let lines: Vec<_> = std::fs::read_to_string(&path).ok()?.lines().map(str::to_owned).collect();
        (lines.len() >= count).then_some(lines)
    })
}

/// The first call fails and the next does not.
fn once(says: Says) -> Target {
    Target::start(move |_, before| if before == 0 { says.clone() } else { Says::Echo })
}

fn value(text: &str) -> AsciiMetadataValue {
    text.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_made_again_after_the_named_statuses_and_no_other() {
    // Each call says how it is to end the first time; the second attempt says how often it was made before.
    let script = |call: &Call, _: usize| match (call.field("grpc-previous-rpc-attempts"), call.field("x-say")) {
        (None, Some(status)) => Says::head(status.parse().unwrap()),
        _ => Says::Echo,
    };
    for (named, name) in NAMED.into_iter().chain([(255, "connect, reset, try_timeout")]) {
        let target = Target::start(script);
        let weir = gateway_of(&[target.address], &on(name), "");
        let client = Client::connect(weir.addr()).await;
        for status in 1..=16u8 {
            let before = target.calls();
            let mut request = Request::new(text("x"));
            request.metadata_mut().insert("x-say", value(&status.to_string()));
            let result = client.unary(request).await;
            if status == named {
                assert_eq!(result.unwrap().get_ref().text, "x", "{name} after {status}");
            } else {
                let error = result.unwrap_err();
                assert_eq!(
                    (error.code(), error.message()),
                    (Code::from(i32::from(status)), &*format!("said {status}"))
                );
            }
            assert_eq!(target.calls() - before, 1 + usize::from(status == named), "{name} after {status}");
        }
        let repeated = u64::from(named != 255);
        assert_eq!(metric(&weir, "upstream_retries_total", &[]), repeated);
        assert_eq!(metric(&weir, "grpc_responses_total", &["route=\"r\"", "upstream=\"u\""]), 16);
        assert_eq!(metric(&weir, "grpc_responses_total", &["code=\"0\""]), repeated);
        assert_eq!(metric(&weir, "upstream_target_failures_total", &["kind=\"grpc_unavailable\""]), 1);
        assert_eq!(metric(&weir, "upstream_target_failures_total", &[]), 1, "the others are responses");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_has_begun_to_respond_is_never_made_again() {
    let target = Target::start(|_, _| Says::Trailers(14));
    let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
    let client = Client::connect(weir.addr()).await;
    for _ in 0..3 {
        let error = client.unary(Request::new(text("x"))).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Unavailable, "said 14"));
    }
    assert_eq!(target.calls(), 3);
    assert_eq!(metric(&weir, "upstream_target_failures_total", &["kind=\"grpc_unavailable\""]), 3);
    for line in log_lines(&weir, 3) {
        assert!(line.contains("\"status\":200,\"grpc_status\":14,"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_again_is_what_was_sent() {
    for size in [0, 1, 1000, 12_000] {
        let target = once(Says::head(14));
        let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
        let client = Client::connect(weir.addr()).await;
        let mut request = Request::new(text("y".repeat(size)));
        request.metadata_mut().insert("x-custom", MetadataValue::from_static("kept"));
        request.metadata_mut().insert("grpc-previous-rpc-attempts", MetadataValue::from_static("2"));
        assert_eq!(client.unary(request).await.unwrap().get_ref().text.len(), size);
        let seen = target.seen();
        assert_eq!(seen.len(), 2, "{size}");
        assert!(seen[0].body.len() >= size && seen[0].body == seen[1].body, "{size}");
        assert_eq!(seen[1].field("x-custom"), Some("kept"));
        let attempts = seen.iter().map(|call| call.field("grpc-previous-rpc-attempts")).collect::<Vec<_>>();
        assert_eq!(attempts, [Some("2"), Some("3")], "the client's own attempts count too");
        assert_eq!(seen[1].fields.get_all("grpc-previous-rpc-attempts").iter().count(), 1);
        assert!(log_lines(&weir, 1)[0].contains("\"attempts\":2"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_comes_in_pieces_is_held_as_long_as_it_fits() {
    let target = once(Says::head(14));
    let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
    let client = Client::connect(weir.addr()).await;
    let (send, chat) = tokio::sync::mpsc::channel(1);
    let call = tokio::spawn(async move { client.collect_from(chat).await });
    for number in 0..5 {
        let before = target.body_bytes();
        send.send(text(format!("piece {number}"))).await.unwrap();
        wait::until(DEADLINE, "the piece to arrive by itself", || target.body_bytes() > before);
    }
    drop(send);
    timeout(DEADLINE, call).await.unwrap().unwrap().unwrap();
    let seen = target.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
    assert!(seen[0].body.len() > 5 * 7);
    // 100 messages of 1 KB do not.
    let target = once(Says::head(14));
    let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
    let client = Client::connect(weir.addr()).await;
    let error = client.collect((0..100).map(|_| text("z".repeat(1000))).collect()).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::Unavailable, "said 14"));
    assert_eq!(target.calls(), 1, "what is not at hand any more is not sent again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_does_not_wait_for_the_request_is_another_to_the_next() {
    let (early, good) = (Target::start(|_, _| Says::AtOnce(14)), Target::start(|_, _| Says::Echo));
    let weir = gateway_of(&[early.address, good.address], &on("grpc_unavailable"), "");
    let client = Client::connect(weir.addr()).await;
    for number in 0..10 {
        let said = format!("call {number}");
        assert_eq!(client.unary(Request::new(text(said.clone()))).await.unwrap().get_ref().text, said);
    }
    assert_eq!(good.calls(), 10);
    assert_eq!(metric(&weir, "upstream_retries_total", &[]), early.calls() as u64);
    assert!(early.calls() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_says_whether_and_when_its_call_may_come_again() {
    let head = |value: &str| Says::Head(14, vec![("grpc-retry-pushback-ms", value.to_owned())]);
    for value in ["-1", "soon", ""] {
        let target = once(head(value));
        let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
        let error = Client::connect(weir.addr()).await.unary(Request::new(text("x"))).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Unavailable, "said 14"), "{value}");
        assert_eq!(error.metadata().get("grpc-retry-pushback-ms").map(|value| value.to_str().unwrap()), Some(value));
        assert_eq!(target.calls(), 1, "{value}");
    }
    let target = once(head("150"));
    let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
    let client = Client::connect(weir.addr()).await;
    client.unary(Request::new(text("x"))).await.unwrap();
    let seen = target.seen();
    assert!(seen[1].at - seen[0].at >= Duration::from_millis(140), "{:?}", seen[1].at - seen[0].at);
    // Longer than the client waits, or than the gateway waits for any head: the client learns at once.
    for (wait, upstream) in [("20000", ""), ("500", ", timeouts: {first_byte: 300ms}")] {
        let target = once(head(wait));
        let weir = gateway_of(&[target.address], &format!("{}{upstream}", on("grpc_unavailable")), "");
        let mut request = Request::new(text("x"));
        request.metadata_mut().insert("grpc-timeout", MetadataValue::from_static("10S"));
        let error = Client::connect(weir.addr()).await.unary(request).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Unavailable, "said 14"));
        assert_eq!(target.calls(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_disconnects_while_a_retry_waits_ends_the_call() {
    let target = once(Says::Head(14, vec![("grpc-retry-pushback-ms", "20000".to_owned())]));
    let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
    let client = Client::connect(weir.addr()).await;
    let other = client.clone();
    let call = tokio::spawn(async move { other.unary(Request::new(text("x"))).await });
    wait::until(DEADLINE, "the call", || target.calls() == 1);
    call.abort();
    let line = log_lines(&weir, 1).remove(0);
    assert!(line.contains("\"reason\":\"client_disconnected\"") && !line.contains("grpc_status"), "{line}");
    assert_eq!(target.calls(), 1);
    client.unary(Request::new(text("y"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_response_comes_through_if_no_attempt_ends_better() {
    let target = Target::start(|_, before| {
        Says::Head(14, vec![("x-attempt", before.to_string()), ("x-why-bin", "AP8".to_owned())])
    });
    let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
    let error = Client::connect(weir.addr()).await.unary(Request::new(text("x"))).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::Unavailable, "said 14"));
    assert_eq!(error.metadata().get("x-attempt").unwrap(), "1", "the response of the last attempt");
    assert_eq!(&*error.metadata().get_bin("x-why-bin").unwrap().to_bytes().unwrap(), [0, 255]);
    assert!(error.metadata().get("content-length").is_none());
    let line = log_lines(&weir, 1).remove(0);
    assert!(line.contains("\"grpc_status\":14,") && !line.contains("\"reason\""), "{line}");
    // The other target cannot be reached, whichever is first.
    let (target, dead) = (Target::with_status(14), Port::free());
    let weir = gateway_of(&[target.address, dead.address()], &on("grpc_unavailable, connect"), "");
    let client = Client::connect(weir.addr()).await;
    for _ in 0..4 {
        let error = client.unary(Request::new(text("x"))).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Unavailable, "said 14"));
    }
    assert_eq!(target.calls(), 4);
    for line in log_lines(&weir, 4) {
        let names_it = line.contains(&format!("\"target\":\"{}\"", target.address));
        assert!(names_it && line.contains("\"attempts\":2") && line.contains("\"grpc_status\":14"), "{line}");
    }
    assert_eq!(metric(&weir, "request_errors_total", &[]), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_ejects_a_target_and_a_response_of_the_application_does_not() {
    let eject = ", eject: {after: 3, for: 1h, max: 100%}";
    for (says, kind) in [
        (Says::head(14), "ejected"),
        (Says::Trailers(14), "ejected"),
        (Says::head(5), "ready"),
        (Says::Trailers(5), "ready"),
        (Says::head(8), "ready"),
        (Says::Nothing, "ready"),
        // A client takes it for UNAVAILABLE, but the target did not say so.
        (Says::Http(429), "ready"),
    ] {
        let scripted = says.clone();
        let target = Target::start(move |_, _| scripted.clone());
        let weir = gateway_of(&[target.address], eject, "");
        let client = Client::connect(weir.addr()).await;
        for _ in 0..3 {
            client.unary(Request::new(text("x"))).await.unwrap_err();
        }
        let shown = weir.admin_get("/upstreams").text().to_owned();
        assert!(shown.contains(&format!("\"state\":\"{kind}\"")), "{says:?}: {shown}");
        let failures = if kind == "ejected" { 3 } else { 0 };
        assert!(shown.contains(&format!("\"grpc_unavailable\":{failures}")), "{says:?}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_opens_a_breaker() {
    let target = Target::with_status(14);
    let breaker = ", eject: none, breaker: {failures: 50%, of_last: 4, open_for: 1h}";
    let weir = gateway_of(&[target.address], breaker, "");
    let client = Client::connect(weir.addr()).await;
    let mut messages = Vec::new();
    for _ in 0..8 {
        messages.push(client.unary(Request::new(text("x"))).await.unwrap_err().message().to_owned());
    }
    assert_eq!(target.calls(), 4, "{messages:?}");
    assert!(messages[..4].iter().all(|message| message == "said 14"), "{messages:?}");
    assert!(messages[4..].iter().all(|message| message != "said 14"), "{messages:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_without_a_status_is_unknown() {
    let target = Target::start(|_, _| Says::Nothing);
    let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
    Client::connect(weir.addr()).await.unary(Request::new(text("x"))).await.unwrap_err();
    let line = log_lines(&weir, 1).remove(0);
    assert!(line.contains("\"grpc_status\":2,"), "{line}");
    assert_eq!(metric(&weir, "grpc_responses_total", &["code=\"2\""]), 1);
    assert_eq!(metric(&weir, "upstream_target_failures_total", &[]), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_keep_to_the_budget() {
    let target = Target::with_status(14);
    let upstream = ", eject: none, retry: {extra_attempts: 3, budget: 10%, on: [grpc_unavailable]}";
    let weir = gateway_of(&[target.address], upstream, "");
    let client = Client::connect(weir.addr()).await;
    let count = 200;
    for _ in 0..count {
        let error = client.unary(Request::new(text("x"))).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Unavailable, "said 14"));
    }
    let (retries, denied) =
        (metric(&weir, "upstream_retries_total", &[]), metric(&weir, "upstream_retries_denied_total", &[]));
    assert_eq!(target.calls() as u64, count + retries);
    // 100 in ten seconds, and a tenth; a slow machine may have begun the next ten seconds.
    assert!((100..3 * count).contains(&retries), "{retries}");
    assert!(denied > 0 && denied <= count, "each call is refused once at most: {denied}");
    // Without attempts there are none.
    let target = Target::with_status(14);
    let upstream = ", eject: none, retry: {extra_attempts: 0, on: [grpc_unavailable]}";
    let weir = gateway_of(&[target.address], upstream, "");
    Client::connect(weir.addr()).await.unary(Request::new(text("x"))).await.unwrap_err();
    assert_eq!(target.calls(), 1);
}

/// A route with a second upstream in reserve.
fn with_fallback(first: &Target, second: SocketAddr, upstream: &str) -> Weir {
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let log = builder.dir().join("access.log");
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: {}}}\nupstreams:\n  u: {{targets: [http://{}], protocol: http2, eject: none{upstream}}}\n  v: {{targets: [http://{second}], protocol: http2, eject: none}}\nroutes:\n  - name: r\n    match: {{path: /*}}\n    upstream: u\n    fallback: [v]\n",
        log.display(),
        first.address,
    );
    builder.config(yaml).start()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fallback_upstream_takes_over() {
    let named = ", retry: {extra_attempts: 1, budget: 100%, on: [grpc_unavailable]}";
    let (first, second) = (Target::with_status(14), Target::start(|_, _| Says::Echo));
    let weir = with_fallback(&first, second.address, named);
    let response = Client::connect(weir.addr()).await.unary(Request::new(text("x"))).await.unwrap();
    assert_eq!(response.metadata().get("x-fallback").unwrap(), "v");
    assert_eq!((first.calls(), second.calls()), (2, 1));
    assert_eq!(second.seen()[0].field("grpc-previous-rpc-attempts"), Some("2"));
    assert_eq!(metric(&weir, "grpc_responses_total", &["upstream=\"v\"", "code=\"0\""]), 1);
    assert_eq!(metric(&weir, "upstream_retries_denied_total", &[]), 0);
    // One that has a status of its own to say.
    let (first, second) = (Target::with_status(14), Target::with_status(5));
    let weir = with_fallback(&first, second.address, named);
    let error = Client::connect(weir.addr()).await.unary(Request::new(text("x"))).await.unwrap_err();
    assert_eq!((error.code(), first.calls(), second.calls()), (Code::NotFound, 2, 1));
    // One that cannot be reached: what the first said, without a word of the fallback.
    let (first, dead) = (Target::with_status(14), Port::free());
    let weir = with_fallback(&first, dead.address(), named);
    let error = Client::connect(weir.addr()).await.unary(Request::new(text("x"))).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::Unavailable, "said 14"));
    assert!(error.metadata().get("x-fallback").is_none());
    assert!(log_lines(&weir, 1)[0].contains("\"upstream\":\"u\""));
    // Without the name, and with a status that is not named, nothing takes over.
    for (status, upstream) in [(14, ""), (8, named)] {
        let (first, second) = (Target::with_status(status), Target::start(|_, _| Says::Echo));
        let weir = with_fallback(&first, second.address, upstream);
        Client::connect(weir.addr()).await.unary(Request::new(text("x"))).await.unwrap_err();
        assert_eq!((first.calls(), second.calls()), (1, 0), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_holds_over_all_attempts() {
    let target = Target::start(|_, before| if before == 0 { Says::head(14) } else { Says::Silence });
    let weir = gateway_of(&[target.address], &on("grpc_unavailable"), "");
    let client = Client::connect(weir.addr()).await;
    let mut request = Request::new(text("x"));
    request.metadata_mut().insert("grpc-timeout", MetadataValue::from_static("400m"));
    let error = timeout(DEADLINE, client.unary(request)).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error:?}");
    let left: Vec<u64> = target
        .seen()
        .iter()
        .map(|call| {
            let left = call.field("grpc-timeout").unwrap();
            let (number, unit) = left.split_at(left.len() - 1);
            number.parse::<u64>().unwrap() * if unit == "u" { 1000 } else { 1 }
        })
        .collect();
    assert_eq!(left.len(), 2);
    assert!(left[1] <= left[0] && left[0] <= 400_000_000, "{left:?}");
    let line = log_lines(&weir, 1).remove(0);
    assert!(line.contains("\"grpc_status\":4,") && line.contains("\"reason\":\"total_timeout\""), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_count_a_call_once_however_often_it_is_made() {
    let target = Target::start(|call, _| match call.field("grpc-previous-rpc-attempts") {
        None => Says::head(14),
        Some(_) => Says::Echo,
    });
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let (keys, log) = (builder.dir().join("keys.yaml"), builder.dir().join("access.log"));
    let file = keys.display().to_string();
    let made = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(["keys", "create", "one", "--file", &file]).command();
    let key = made.stdout.trim().to_owned();
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: {}, format: logfmt, only: {{grpc_status: [1-16]}}}}\nauth: {{keys: {{api_key: {{store: {{file: {}}}}}}}}}\nlimits: {{few: {{key: consumer, algorithm: fixed_window, quota: 3, window: 1h}}}}\nupstreams: {{u: {{targets: [http://{}], protocol: http2{}}}}}\nroutes:\n  - {{name: r, match: {{path: /*}}, upstream: u, auth: [keys], limits: [few], headers: {{request: {{set: {{x-set: \"1\"}}}}}}}}\n",
        log.display(),
        keys.display(),
        target.address,
        on("grpc_unavailable"),
    );
    let weir = builder.config(yaml).start();
    let client = Client::connect(weir.addr()).await;
    let request = || {
        let mut request = Request::new(text("x"));
        request.metadata_mut().insert("x-api-key", value(&key));
        request
    };
    for _ in 0..3 {
        client.unary(request()).await.unwrap();
    }
    assert_eq!(client.unary(request()).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(client.unary(Request::new(text("x"))).await.unwrap_err().code(), Code::Unauthenticated);
    let seen = target.seen();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|call| call.field("x-set") == Some("1") && call.field("x-api-key").is_none()));
    let lines = log_lines(&weir, 2);
    assert!(lines[0].contains(" grpc_status=8 ") && lines[1].contains(" grpc_status=16 "), "{lines:?}");
    assert_eq!(lines.len(), 2, "calls that succeeded are not asked for: {lines:?}");
    for (code, count) in [("0", 3), ("8", 1), ("16", 1)] {
        assert_eq!(metric(&weir, "grpc_responses_total", &[&format!("code=\"{code}\"")]), count, "{code}");
    }
    assert_eq!(metric(&weir, "grpc_responses_total", &["upstream=\"-\""]), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_one_of_two_targets_is_unavailable() {
    let (bad, good) = (Target::with_status(14), Target::start(|_, _| Says::Echo));
    let weir = gateway_of(&[bad.address, good.address], &on("grpc_unavailable"), "");
    let (clients, each) = (8, 50);
    let mut tasks = Vec::new();
    for number in 0..clients {
        let client = Client::connect(weir.addr()).await;
        for call in 0..each {
            let (client, said) = (client.clone(), format!("{number}-{call}-{}", "p".repeat(call * 100)));
            tasks.push(tokio::spawn(async move {
                let response = timeout(DEADLINE, client.unary(Request::new(text(said.clone())))).await.unwrap();
                assert!(response.unwrap().get_ref().text == said);
            }));
        }
    }
    let count = tasks.len();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(good.calls(), count);
    assert!(bad.calls() > 0);
    let bad = bad.calls() as u64;
    assert_eq!(metric(&weir, "upstream_retries_total", &[]), bad);
    assert_eq!(metric(&weir, "upstream_target_failures_total", &["kind=\"grpc_unavailable\""]), bad);
    assert_eq!(metric(&weir, "grpc_responses_total", &["code=\"0\""]), count as u64);
    assert_eq!(metric(&weir, "grpc_responses_total", &[]), count as u64);
    let attempts: u64 = log_lines(&weir, count)
        .iter()
        .map(|line| line.split("\"attempts\":").nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(attempts, count as u64 + bad);
}
