use super::*;
use crate::response;
use serde_json::{Value, json};

const ERROR: ApiError<'_> =
    ApiError { status: 503, code: "upstream_error", message: "no \"target\"\n left", param: None };

fn body(api: Api, error: &ApiError<'_>) -> Value {
    serde_json::from_slice(&error.body(api, "req_1")).expect("JSON")
}

#[test]
fn bodies_have_the_form_of_the_api() {
    assert_eq!(
        body(Api::Chat, &ERROR),
        json!({"error": {"message": "no \"target\"\n left", "type": "server_error", "param": null, "code": "upstream_error"}})
    );
    assert_eq!(
        body(Api::Messages, &ERROR),
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "no \"target\"\n left"}, "request_id": "req_1"})
    );
    assert_eq!(
        body(Api::Gemini, &ERROR),
        json!({"error": {"code": 503, "message": "no \"target\"\n left", "status": "UNAVAILABLE"}})
    );
    assert_eq!(ERROR.status_for(Api::Messages), 529);
    assert_eq!(ERROR.status_for(Api::Chat), 503);
    let param = ApiError { status: 400, code: "invalid", message: "m", param: Some("tools") };
    assert_eq!(body(Api::Responses, &param)["error"]["param"], "tools");
}

#[test]
fn every_status_has_a_name_in_every_api() {
    for (status, openai, anthropic, gemini) in [
        (400, "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
        (401, "authentication_error", "authentication_error", "UNAUTHENTICATED"),
        (403, "permission_error", "permission_error", "PERMISSION_DENIED"),
        (404, "invalid_request_error", "not_found_error", "NOT_FOUND"),
        (413, "invalid_request_error", "request_too_large", "INVALID_ARGUMENT"),
        (429, "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
        (500, "server_error", "api_error", "INTERNAL"),
        (502, "server_error", "api_error", "INTERNAL"),
        (503, "server_error", "overloaded_error", "UNAVAILABLE"),
        (504, "server_error", "timeout_error", "DEADLINE_EXCEEDED"),
    ] {
        let names = (openai_type(status, ""), anthropic_type(status), gemini_status(status));
        assert_eq!(names, (openai, anthropic, gemini), "{status}");
    }
    assert_eq!(openai_type(429, "insufficient_quota"), "insufficient_quota");
}

#[test]
fn an_error_event_is_one_event_that_every_reader_takes_for_an_error() {
    for api in Api::ALL {
        let event = ERROR.event(api, "req_1", 7);
        assert!(event.ends_with(b"\n\n"));
        assert_eq!(event.windows(2).filter(|pair| pair == b"\n\n").count(), 1);
        let mut reader = crate::stream::EventReader::new(api);
        reader.read(&event);
        let facts = reader.finish();
        assert!(facts.error.is_some_and(|error| error.message.contains("target")), "{api:?}");
        assert!(!facts.malformed);
        let data = event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: ")).expect("data");
        assert!(response::read(api, data).error.is_some());
    }
    let gemini = ERROR.event(Api::Gemini, "", 0);
    assert!(gemini.starts_with(b"data: {\"error\":{"), "the Python client looks for this start");
    let responses = String::from_utf8(ERROR.event(Api::Responses, "", 7)).expect("text");
    assert!(responses.starts_with("event: error\ndata: {\"type\":\"error\",\"code\":\"upstream_error\""));
    assert!(responses.contains("\"sequence_number\":7,\"error\":{"));
}
