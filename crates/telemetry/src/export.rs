//! What is sent to a collector: an `ExportTraceServiceRequest`, and what it responds.

use crate::protobuf::{Fields, Value, bytes, bytes_len, open};

/// The resource and the scope of all spans, encoded once.
#[derive(Debug, Clone)]
pub struct Envelope {
    resource: Vec<u8>,
    scope: Vec<u8>,
}

impl Envelope {
    /// `attributes` say whose spans these are; the scope is what makes them, with its version.
    pub fn new<'a>(attributes: impl IntoIterator<Item = (&'a str, &'a str)>, name: &str, version: &str) -> Self {
        let mut resource = Vec::new();
        for (key, value) in attributes {
            let any = bytes_len(value.len());
            open(&mut resource, 1, bytes_len(key.len()) + bytes_len(any));
            bytes(&mut resource, 1, key.as_bytes());
            open(&mut resource, 2, any);
            bytes(&mut resource, 1, value.as_bytes());
        }
        let mut scope = Vec::new();
        bytes(&mut scope, 1, name.as_bytes());
        bytes(&mut scope, 2, version.as_bytes());
        Envelope { resource, scope }
    }

    /// The request that carries spans of several workers, as [`Spans::swap`](crate::Spans::swap) gave them.
    pub fn request<'b>(&self, batches: impl IntoIterator<Item = &'b [u8]> + Clone) -> Vec<u8> {
        let spans: usize = batches.clone().into_iter().map(<[u8]>::len).sum();
        let scope_spans = bytes_len(self.scope.len()) + spans;
        let resource_spans = bytes_len(self.resource.len()) + bytes_len(scope_spans);
        let mut out = Vec::with_capacity(resource_spans + 8);
        open(&mut out, 1, resource_spans);
        bytes(&mut out, 1, &self.resource);
        open(&mut out, 2, scope_spans);
        bytes(&mut out, 1, &self.scope);
        batches.into_iter().for_each(|batch| out.extend_from_slice(batch));
        out
    }
}

/// How many spans a collector refused, by its `ExportTraceServiceResponse`.
pub fn rejected(response: &[u8]) -> u64 {
    let partial = Fields(response).find_map(|(field, value)| match (field, value) {
        (1, Value::Bytes(partial)) => Some(partial),
        _ => None,
    });
    let count = Fields(partial.unwrap_or_default()).find_map(|(field, value)| match (field, value) {
        (1, Value::Number(count)) => Some(count),
        _ => None,
    });
    // A negative count would be nonsense.
    count.filter(|count| i64::try_from(*count).is_ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    };
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;
    use crate::{Head, Kind, SpanId, Spans, Status, TraceId};

    fn head(start_ns: u64, end_ns: u64) -> Head<'static> {
        Head {
            trace: TraceId(7 << 64 | 9),
            span: SpanId(3),
            parent: Some(SpanId(4)),
            parent_is_remote: true,
            state: b"a=1,b=2",
            kind: Kind::Server,
            name: (b"GET", b"/items/{id}"),
            start_ns,
            end_ns,
        }
    }

    /// As the published messages read it.
    fn read(batches: &[&[u8]]) -> ExportTraceServiceRequest {
        let envelope = Envelope::new([("service.name", "weir"), ("empty", "")], "weir", "1.2.3");
        ExportTraceServiceRequest::decode(&*envelope.request(batches.iter().copied())).expect("a message")
    }

    #[test]
    fn a_span_is_what_the_published_messages_read() {
        let mut spans = Spans::default();
        let mut span = spans.begin(&head(1_000, 2_000));
        span.text("http.route", "/items/{id}".as_bytes())
            .number("http.response.status_code", 503)
            .text("left.out", b"");
        span.one_of("http.request.header.x", b"v").event("queued", 1_500).link(TraceId(5), SpanId(6));
        span.end(Status::Error);
        spans
            .begin(&Head {
                parent: None,
                parent_is_remote: false,
                state: b"",
                name: (b"GET", b""),
                kind: Kind::Client,
                ..head(5, 4)
            })
            .end(Status::Unset);
        assert_eq!(spans.count(), 2);
        let first = spans.swap(Vec::new());
        assert_eq!((spans.count(), spans.bytes().len()), (0, 0));
        let request = read(&[&first, &first]);
        let resource = &request.resource_spans[0];
        let named: Vec<_> = resource.resource.as_ref().unwrap().attributes.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(named, ["service.name", "empty"]);
        let scope = &resource.scope_spans[0];
        assert_eq!(scope.scope.as_ref().unwrap().version, "1.2.3");
        assert_eq!(scope.spans.len(), 4);
        assert_eq!(scope.spans[..2], scope.spans[2..]);
        let [span, other] = &scope.spans[..2] else { panic!() };
        assert_eq!(span.trace_id, (7u128 << 64 | 9).to_be_bytes());
        assert_eq!((&*span.span_id, &*span.parent_span_id), (&3u64.to_be_bytes()[..], &4u64.to_be_bytes()[..]));
        assert_eq!((&*span.name, &*span.trace_state, span.kind), ("GET /items/{id}", "a=1,b=2", 2));
        assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano, span.flags), (1_000, 2_000, 0x301));
        assert_eq!(span.status.as_ref().unwrap().code, 2);
        assert_eq!((&*span.events[0].name, span.events[0].time_unix_nano), ("queued", 1_500));
        let values: Vec<_> =
            span.attributes.iter().map(|one| (&*one.key, one.value.clone().unwrap().value.unwrap())).collect();
        assert_eq!(values[0], ("http.route", Any::StringValue("/items/{id}".to_owned())));
        assert_eq!(values[1], ("http.response.status_code", Any::IntValue(503)));
        let Any::ArrayValue(list) = &values[2].1 else { panic!("{values:?}") };
        assert_eq!(list.values[0].value, Some(Any::StringValue("v".to_owned())));
        assert_eq!(values.len(), 3);
        assert_eq!((&*other.name, other.kind, &*other.parent_span_id, other.flags), ("GET", 3, &[][..], 0x101));
        assert_eq!((other.start_time_unix_nano, other.end_time_unix_nano), (5, 5), "never of negative length");
        assert_eq!(other.status, None);
    }

    #[test]
    fn the_refused_are_counted() {
        for count in [0, 1, 300] {
            let partial = ExportTracePartialSuccess { rejected_spans: count, error_message: "why".to_owned() };
            let response = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
            assert_eq!(rejected(&response), count as u64);
        }
        assert_eq!(rejected(b""), 0);
        assert_eq!(rejected(b"<html>"), 0);
    }

    proptest! {
        #[test]
        fn whatever_is_recorded_is_a_message(values: Vec<Vec<u8>>, numbers: Vec<u64>, name: Vec<u8>, state: Vec<u8>) {
            let mut spans = Spans::default();
            let mut span = spans.begin(&Head { name: (&name, &state), state: &state, ..head(1, 2) });
            for value in &values {
                span.text("k", value);
            }
            for number in &numbers {
                span.number("n", *number);
            }
            span.end(Status::Error);
            let encoded = spans.swap(Vec::new());
            let request = read(&[&encoded]);
            let there = values.iter().filter(|value| !value.is_empty()).count() + numbers.len();
            prop_assert_eq!(request.resource_spans[0].scope_spans[0].spans[0].attributes.len(), there);
        }

        #[test]
        fn no_response_panics(bytes: Vec<u8>) {
            let _ = rejected(&bytes);
        }

        #[test]
        fn long_text_is_cut_at_a_character(text in "\\PC{0,400}") {
            let mut spans = Spans::default();
            let mut span = spans.begin(&head(1, 2));
            span.text("k", text.as_bytes());
            span.end(Status::Unset);
            let encoded = spans.swap(Vec::new());
            let read = read(&[&encoded]);
            let span = &read.resource_spans[0].scope_spans[0].spans[0];
            let value = span.attributes.first().map(|one| one.value.clone().unwrap().value.unwrap());
            if let Some(Any::StringValue(value)) = value {
                prop_assert!(text.starts_with(&value) && value.len() <= crate::span::VALUE_BYTES);
                prop_assert!(text.len() == value.len() || value.len() > crate::span::VALUE_BYTES - 4);
            }
        }
    }
}
