//! The gateway's own errors, in the form of the API that the client speaks.

use crate::Api;
use crate::api::Family;
use crate::json::push_escaped;

/// An error of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiError<'a> {
    /// HTTP status.
    pub status: u16,
    /// A name for programs: `upstream_unreachable`, `model_not_found`.
    pub code: &'a str,
    /// A sentence for people; no prompt, no key.
    pub message: &'a str,
    /// The member at fault.
    pub param: Option<&'a str>,
}

impl ApiError<'_> {
    /// The status for a client of this API: Anthropic has one of its own for an overloaded service.
    pub fn status_for(&self, api: Api) -> u16 {
        match (api.family(), self.status) {
            (Family::Anthropic, 503) => 529,
            (_, status) => status,
        }
    }

    /// The body of a response. `request_id` is part of Anthropic's form.
    pub fn body(&self, api: Api, request_id: &str) -> Vec<u8> {
        let mut body = Vec::with_capacity(128 + self.message.len());
        match api.family() {
            Family::OpenAi => {
                body.extend_from_slice(b"{\"error\":");
                self.push_openai(&mut body, openai_type(self.status, self.code));
                body.push(b'}');
            }
            Family::Anthropic => {
                body.extend_from_slice(b"{\"type\":\"error\",\"error\":{\"type\":");
                push_escaped(anthropic_type(self.status), &mut body);
                push_member(",\"message\":", self.message, &mut body);
                body.push(b'}');
                push_member(",\"request_id\":", request_id, &mut body);
                body.push(b'}');
            }
            Family::Gemini => {
                body.extend_from_slice(format!("{{\"error\":{{\"code\":{}", self.status).as_bytes());
                push_member(",\"message\":", self.message, &mut body);
                push_member(",\"status\":", gemini_status(self.status), &mut body);
                body.extend_from_slice(b"}}");
            }
        }
        body
    }

    /// The event that ends a stream after its commit. `sequence_number` is the next of the Responses API.
    pub fn event(&self, api: Api, request_id: &str, sequence_number: u64) -> Vec<u8> {
        let mut event = Vec::with_capacity(192 + self.message.len());
        match (api, api.family()) {
            (Api::Responses, _) => {
                event.extend_from_slice(b"event: error\ndata: {\"type\":\"error\"");
                push_member(",\"code\":", self.code, &mut event);
                push_member(",\"message\":", self.message, &mut event);
                event.extend_from_slice(b",\"param\":");
                push_optional(self.param, &mut event);
                event.extend_from_slice(format!(",\"sequence_number\":{sequence_number},\"error\":").as_bytes());
                self.push_openai(&mut event, openai_type(self.status, self.code));
                event.push(b'}');
            }
            (_, Family::OpenAi) => {
                event.extend_from_slice(b"data: {\"error\":");
                self.push_openai(&mut event, openai_type(self.status, self.code));
                event.push(b'}');
            }
            (_, Family::Anthropic) => {
                event.extend_from_slice(b"event: error\ndata: ");
                event.extend_from_slice(&self.body(api, request_id));
            }
            (_, Family::Gemini) => {
                event.extend_from_slice(b"data: ");
                event.extend_from_slice(&self.body(api, request_id));
            }
        }
        event.extend_from_slice(b"\n\n");
        event
    }

    fn push_openai(&self, body: &mut Vec<u8>, kind: &str) {
        push_member("{\"message\":", self.message, body);
        push_member(",\"type\":", kind, body);
        body.extend_from_slice(b",\"param\":");
        push_optional(self.param, body);
        push_member(",\"code\":", self.code, body);
        body.push(b'}');
    }
}

fn push_member(name: &str, value: &str, body: &mut Vec<u8>) {
    body.extend_from_slice(name.as_bytes());
    push_escaped(value, body);
}

fn push_optional(value: Option<&str>, body: &mut Vec<u8>) {
    match value {
        Some(value) => push_escaped(value, body),
        None => body.extend_from_slice(b"null"),
    }
}

/// OpenAI's `type` for a status.
pub fn openai_type(status: u16, code: &str) -> &'static str {
    match status {
        429 if code == "insufficient_quota" => "insufficient_quota",
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

/// Anthropic's `type` for a status.
pub fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// Gemini's `status` for a status.
pub fn gemini_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests;
