//! What spans say of the status of calls.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use testkit::{DEADLINE, Upstream, Weir, responder, wait};
use tonic::Request;
use tonic::metadata::MetadataValue;

use crate::service::{Client, text};
use crate::target::{Says, Target};

const SERVER: i32 = 2;

fn spans(collector: &Upstream) -> Vec<Span> {
    let requests = collector.requests();
    let calls = requests.iter().filter(|call| call.complete);
    calls
        .flat_map(|call| ExportTraceServiceRequest::decode(&*call.body).expect("an OTLP message").resource_spans)
        .flat_map(|one| one.scope_spans)
        .flat_map(|one| one.spans)
        .collect()
}

/// Status of the call, whether it is an error, and its type.
fn outcome(span: &Span) -> (Option<i64>, bool, Option<&str>) {
    let of = |key: &str| {
        span.attributes.iter().find(|one| one.key == key).and_then(|one| one.value.as_ref()?.value.as_ref())
    };
    let status = match of("rpc.grpc.status_code") {
        Some(Value::IntValue(status)) => Some(*status),
        _ => None,
    };
    let kind = match of("error.type") {
        Some(Value::StringValue(kind)) => Some(&**kind),
        _ => None,
    };
    assert_eq!(of("rpc.system").is_some(), status.is_some());
    (status, span.status.as_ref().is_some_and(|status| status.code == 2), kind)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_have_the_status_of_the_call_and_of_each_attempt() {
    let collector = Upstream::builder().record_limit(8 << 20).start(responder::ok(""));
    let target = Target::start(|call, _| match (call.field("grpc-previous-rpc-attempts"), call.field("x-say")) {
        (None, None) => Says::head(14),
        (_, Some("5")) => Says::Trailers(5),
        (_, Some(_)) => Says::Trailers(13),
        _ => Says::Echo,
    });
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nworkers: 1\ntelemetry: {{traces: {{endpoint: '{}/v1/traces', sample: 100%, every: 50ms}}}}\nupstreams: {{u: {{targets: [http://{}], protocol: http2, eject: none, retry: {{on: [grpc_unavailable]}}}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        collector.url(),
        target.address,
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let client = Client::connect(weir.addr()).await;
    client.unary(Request::new(text("x"))).await.unwrap();
    for say in ["5", "13"] {
        let mut request = Request::new(text("x"));
        request.metadata_mut().insert("x-say", MetadataValue::from_static(say));
        client.unary(request).await.unwrap_err();
    }
    wait::until(DEADLINE, "the spans", || spans(&collector).len() >= 7);
    let spans = spans(&collector);
    let of = |is_server: bool| {
        let mut found: Vec<_> = spans.iter().filter(|span| (span.kind == SERVER) == is_server).map(outcome).collect();
        found.sort_unstable();
        found
    };
    assert_eq!(of(true), [(Some(0), false, None), (Some(5), false, None), (Some(13), true, Some("13"))]);
    let attempts = of(false);
    let errors = [(Some(5), true, Some("5")), (Some(13), true, Some("13")), (Some(14), true, Some("14"))];
    assert_eq!((&attempts[0], &attempts[1..]), (&(Some(0), false, None), &errors[..]));
}
