//! The gateway's own errors on AI routes, in the form of the API that the client speaks.

use std::borrow::Cow;

use h1::encode;
use llm::Api;
use llm::api::StoredOperation;
use llm::error::ApiError;

use super::super::Exchange;
use crate::config::Action;
use crate::error::{Error, Reason};
use crate::http::response::{self, Framing};
use crate::policy::limit::Refusal;

/// Why a call is not served.
#[derive(Debug)]
pub(super) struct Problem {
    /// For log and metrics.
    pub reason: Reason,
    /// Status for the client.
    pub status: u16,
    /// Name for programs.
    pub code: Cow<'static, str>,
    /// Sentence for people: no prompt, no key.
    pub message: String,
    /// Member at fault.
    pub param: Option<String>,
    /// Seconds after which it may be better.
    pub retry_after: Option<u64>,
    /// The same request has the same end: official clients do not repeat it then.
    pub is_final: bool,
}

impl Problem {
    /// A request that cannot be served as it is.
    pub(super) fn request(code: &'static str, message: impl Into<String>, param: Option<&str>) -> Self {
        let param = param.map(str::to_owned);
        let (reason, message) = (Reason::AiRequest, message.into());
        Problem { reason, status: 400, code: code.into(), message, param, retry_after: None, is_final: true }
    }

    /// For the log: a code of a guard's own stays out of it.
    pub(super) fn error(&self) -> Error {
        match self.code {
            Cow::Borrowed(code) => Error::new(self.reason, code),
            Cow::Owned(_) => Error::new(self.reason, "content_filter"),
        }
    }

    /// As clients are told of it.
    pub(super) fn own(&self) -> ApiError<'_> {
        ApiError { status: self.status, code: &self.code, message: &self.message, param: self.param.as_deref() }
    }
}

/// Why a call ends early.
pub(super) enum Stop {
    /// With an error of the exchange.
    Error(Error),
    /// With one that says more.
    Problem(Box<Problem>),
    /// With a response that the client has.
    Sent,
}

impl Stop {
    /// The client has disconnected.
    pub(super) fn is_disconnected(&self) -> bool {
        matches!(self, Stop::Error(Error { reason: Reason::ClientDisconnected, .. }))
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Stop::Error(reason.into())
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Stop::Problem(Box::new(problem))
    }
}

impl Exchange<'_> {
    /// The API in whose form a client of an AI route is told of errors; `None` on other routes.
    pub(crate) fn ingress_api(&self) -> Option<Api> {
        let route = self.route?;
        if !matches!(self.snapshot.config().routes[route.0].action, Action::Ai(_)) {
            return None;
        }
        let path = std::str::from_utf8(&self.scratch.path).ok();
        // Google's client lists models under `/v1` too.
        let is_gemini = || self.scratch.request.fields.get(b"x-goog-api-key", self.down.buffer.whole()).is_some();
        let is_anthropic = || self.scratch.request.fields.get(b"anthropic-version", self.down.buffer.whole()).is_some();
        Some(match path.and_then(Api::of_path) {
            Some(api) => api,
            None if path.is_some_and(|path| StoredOperation::of_path(path).is_some()) => Api::Responses,
            None if path.is_some_and(|path| path.starts_with("/v1beta/")) || is_gemini() => Api::Gemini,
            None if path.is_some_and(|path| path.starts_with("/v1/messages")) || is_anthropic() => Api::Messages,
            None => Api::Chat,
        })
    }

    /// The event that ends a stream with an error, behind `number` events.
    pub(super) fn error_event(&mut self, api: Api, own: &ApiError<'_>, number: u64) -> Vec<u8> {
        self.ensure_request_id();
        own.event(api, &String::from_utf8_lossy(&self.scratch.request_id), number)
    }

    /// Responds with a problem.
    ///
    /// # Errors
    /// When the client does not take it.
    pub(super) async fn refuse_call(&mut self, api: Api, problem: &Problem) -> Result<(), Error> {
        self.log.error = Some(problem.error());
        self.worker.metrics.not_served(problem.reason);
        self.ensure_request_id();
        self.skip_body();
        let mut fields = std::mem::take(&mut self.scratch.response_lines);
        if let Some(seconds) = problem.retry_after {
            encode::field(&mut fields, b"Retry-After", seconds.max(1).to_string().as_bytes());
        }
        let own = problem.own();
        let framing = self.framing();
        self.down.out.clear();
        let out = &mut self.down.out.bytes;
        self.log.status = write(out, api, own, problem.is_final, &self.scratch.request_id, &fields, framing);
        self.flush_response().await
    }
}

/// Appends an error of the exchange; returns its status.
pub fn write_problem(
    out: &mut Vec<u8>,
    api: Api,
    error: Error,
    request_id: &[u8],
    mut fields: Vec<u8>,
    retry_after: Option<u64>,
    framing: Framing,
) -> u16 {
    let reason = error.reason;
    if let Some(seconds) = retry_after.or(reason.is_temporary().then_some(1)) {
        encode::field(&mut fields, b"Retry-After", seconds.max(1).to_string().as_bytes());
    }
    let mut message = reason.title().to_owned();
    if !error.detail.is_empty() {
        message.push_str(": ");
        message.push_str(error.detail);
    }
    let own = ApiError { status: reason.status(), code: reason.label(), message: &message, param: None };
    let is_final = matches!(reason.status(), 400 | 401 | 403 | 404 | 405 | 413);
    write(out, api, own, is_final, request_id, &fields, framing)
}

/// Appends the refusal of a limit; returns its status.
pub fn write_refusal(
    out: &mut Vec<u8>,
    api: Api,
    refusal: &Refusal<'_>,
    request_id: &[u8],
    fields: &mut Vec<u8>,
    framing: Framing,
) -> u16 {
    let status = refusal.begin(fields);
    let (code, message) = match refusal.is_exceeded() {
        true => ("rate_limit_exceeded", format!("The limit `{}` is used up; try again later", refusal.limit_name())),
        false => ("missing_key", "The request lacks the key that it is limited by".to_owned()),
    };
    let own = ApiError { status, code, message: &message, param: None };
    write(out, api, own, false, request_id, fields, framing)
}

fn write(
    out: &mut Vec<u8>,
    api: Api,
    own: ApiError<'_>,
    is_final: bool,
    request_id: &[u8],
    fields: &[u8],
    framing: Framing,
) -> u16 {
    let status = own.status_for(api);
    let body = own.body(api, &String::from_utf8_lossy(request_id));
    let mut lines = fields.to_vec();
    if is_final {
        encode::field(&mut lines, b"x-should-retry", b"false");
    }
    response::write(out, status, "application/json", &lines, &body, framing);
    status
}
