//! Responses that the gateway makes in place of the route: refusals and errors.

use super::reply::{self, Members};
use super::{Answer, Exchange, ai, grpc};
use crate::error::{Error, Reason};
use crate::policy::limit::Refusal;
use crate::server::worker::Scratch;

impl Exchange<'_> {
    /// Sends the response of a limit that refuses the request.
    ///
    /// # Errors
    /// When the client does not take it.
    pub async fn refuse(&mut self, refusal: &Refusal<'_>) -> Result<(), Error> {
        let reason = if refusal.is_exceeded() { Reason::RateLimited } else { Reason::MissingKey };
        self.log.error = Some(reason.into());
        self.worker.metrics.not_served(reason);
        self.ensure_request_id();
        self.skip_body();
        let framing = self.framing();
        if self.is_grpc() {
            grpc::write_error(&mut self.down.out.bytes, reason.into(), &self.scratch.answer_lines, framing);
            self.log.status = 200;
            return self.send_answer().await;
        }
        let api = self.ingress_api();
        let Scratch { answer_lines, body, request_id, .. } = &mut *self.scratch;
        if let Some(api) = api {
            self.log.status =
                ai::write_refusal(&mut self.down.out.bytes, api, refusal, request_id, answer_lines, framing);
            return self.send_answer().await;
        }
        self.log.status = refusal.write(&mut self.down.out.bytes, body, answer_lines, request_id, framing);
        self.send_answer().await
    }

    /// Sends the response for an error; when a response has begun already, ensures that it cannot pass for complete.
    pub async fn fail(&mut self, error: Error) {
        self.ensure_request_id();
        // To the exchange a request that its connection refused looks like one whose client disconnected.
        let refusal = if error.reason == Reason::ClientGone { self.down.stream.refusal() } else { None };
        let error = refusal.unwrap_or(error);
        self.log.error = Some(error);
        self.log.status = if self.answer == Answer::None { error.reason.status() } else { self.log.status };
        self.worker.metrics.not_served(error.reason);
        match error.reason {
            _ if error.reason == Reason::ClientGone || refusal.is_some() => self.aborts = true,
            // What was sent ends with a whole chunk. The call ends with a status, so nobody takes it for complete.
            _ if self.answer == Answer::Begun && self.may_end_with_trailers && self.is_grpc() => {
                let before = self.down.out.bytes.len();
                grpc::write_trailers(&mut self.down.out.bytes, error);
                self.log.response_bytes = self.log.response_bytes.saturating_sub(before as u64);
                self.aborts = self.send_answer().await.is_err();
            }
            _ if self.answer != Answer::None => self.aborts = true,
            Reason::AuthDenied if self.denied.is_some() && !self.is_grpc() => self.send_denial().await,
            _ => self.send_error(error).await,
        }
    }

    /// Sends an error in the form that the client's protocol has for one.
    async fn send_error(&mut self, error: Error) {
        // The rest of a broken body cannot be told from a next request.
        if matches!(error.reason, Reason::BadRequest | Reason::BodyTooLarge | Reason::BodyTimeout) {
            self.close = true;
        } else {
            self.skip_body();
        }
        let mut fields = Vec::new();
        if let Some(allow) = &self.allow {
            h1::encode::field(&mut fields, b"Allow", allow);
        }
        fields.extend_from_slice(&self.challenges);
        fields.extend_from_slice(&self.scratch.answer_lines);
        let framing = self.framing();
        self.down.out.clear();
        if self.is_grpc() {
            let is_unknown = self.denied.as_ref().is_some_and(|denied| denied.status == 401);
            let error = if is_unknown { Reason::Unauthenticated.into() } else { error };
            grpc::write_error(&mut self.down.out.bytes, error, &fields, framing);
            self.log.status = 200;
        } else if let Some(api) = self.ingress_api() {
            let (out, id) = (&mut self.down.out.bytes, &self.scratch.request_id);
            self.log.status = ai::write_problem(out, api, error, id, fields, self.retry_after, framing);
        } else {
            let members = Members { request_id: &self.scratch.request_id, errors: &self.violations };
            reply::problem(&mut self.down.out.bytes, error, members, &fields, self.retry_after, framing);
        }
        self.aborts |= self.send_answer().await.is_err();
    }
}
