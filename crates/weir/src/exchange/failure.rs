//! Responses that the gateway makes in place of the route: refusals and errors.

use super::pages::Page;
use super::{Exchange, SendState, ai, grpc};
use crate::error::{Error, Reason};
use crate::http::response::{self, Members};
use crate::policy::limit::Refusal;
use crate::worker::Scratch;

impl Exchange<'_> {
    /// Sends the response of a limit that refuses the request.
    ///
    /// # Errors
    /// When the client does not take it.
    pub async fn refuse(&mut self, refusal: &Refusal<'_>) -> Result<(), Error> {
        let reason = if refusal.is_exceeded() { Reason::RateLimited } else { Reason::MissingKey };
        self.log.error = Some(reason.into());
        self.log.limit = Some(refusal.limit_name().clone());
        self.worker.metrics.not_served(reason);
        self.ensure_request_id();
        self.skip_body();
        let framing = self.framing();
        if self.is_grpc() {
            grpc::write_error(&mut self.down.out.bytes, reason.into(), &self.scratch.response_lines, framing);
            self.log.status = 200;
            self.log.grpc_status = Some(grpc::status_of(reason));
            return self.flush_response().await;
        }
        let api = self.ingress_api();
        let status = refusal.status();
        if api.is_none() && !refusal.has_own_body() && self.varies_by_accept(status) {
            h1::encode::field(&mut self.scratch.response_lines, b"Vary", b"Accept");
            if let Some(page) = self.page_of(status).await? {
                let mut lines = std::mem::take(&mut self.scratch.response_lines);
                refusal.begin(&mut lines);
                self.write_page(status, &page, &lines);
                self.scratch.response_lines = lines;
                return self.flush_response().await;
            }
        }
        let Scratch { response_lines, body, request_id, .. } = &mut *self.scratch;
        if let Some(api) = api {
            self.log.status =
                ai::write_refusal(&mut self.down.out.bytes, api, refusal, request_id, response_lines, framing);
            return self.flush_response().await;
        }
        self.log.status = refusal.write(&mut self.down.out.bytes, body, response_lines, request_id, framing);
        self.flush_response().await
    }

    /// Sends the response for an error; when a response has begun already, ensures that it cannot pass for complete.
    pub async fn fail(&mut self, error: Error) {
        self.ensure_request_id();
        // To the exchange a request that its connection refused looks like one whose client disconnected.
        let refusal = if error.reason == Reason::ClientDisconnected { self.down.stream.refusal() } else { None };
        let error = refusal.unwrap_or(error);
        self.log.error = Some(error);
        self.log.status = if self.send_state == SendState::None { error.reason.status() } else { self.log.status };
        self.worker.metrics.not_served(error.reason);
        match error.reason {
            _ if error.reason == Reason::ClientDisconnected || refusal.is_some() => self.aborts = true,
            // What was sent ends with a whole chunk. The call ends with a status, so nobody takes it for complete.
            _ if self.send_state == SendState::Begun && self.may_end_with_trailers && self.is_grpc() => {
                let before = self.down.out.bytes.len();
                grpc::write_trailers(&mut self.down.out.bytes, error);
                self.log.grpc_status = Some(grpc::status_of(error.reason));
                self.log.response_bytes = self.log.response_bytes.saturating_sub(before as u64);
                self.aborts = self.flush_response().await.is_err();
            }
            _ if self.send_state != SendState::None => self.aborts = true,
            Reason::AuthDenied if self.denied.is_some() && !self.is_grpc() => self.send_denial().await,
            _ => self.send_error(error).await,
        }
    }

    /// The page for an error of the gateway, where the request has pages.
    async fn page_of(&mut self, status: u16) -> Result<Option<Page>, Error> {
        let config = self.snapshot.config();
        let has_pages = match self.route {
            Some(route) => config.routes[route.0].errors.is_some(),
            None => config.gateway_errors.is_some(),
        };
        if has_pages { Box::pin(self.page(status, false, u64::MAX)).await } else { Ok(None) }
    }

    /// Sends an error in the form that the client's protocol has for one.
    async fn send_error(&mut self, error: Error) {
        // The rest of a broken body cannot be told from a next request.
        if matches!(error.reason, Reason::BadRequest | Reason::BodyTooLarge | Reason::BodyTimeout) {
            self.close = true;
        } else {
            self.skip_body();
        }
        let has_own_form = self.is_grpc() || self.ingress_api().is_some();
        let page = if has_own_form { Ok(None) } else { self.page_of(error.reason.status()).await };
        let Ok(page) = page else {
            self.aborts = true;
            return;
        };
        let mut fields = Vec::new();
        if !has_own_form && self.varies_by_accept(error.reason.status()) {
            h1::encode::field(&mut fields, b"Vary", b"Accept");
        }
        if let Some(allow) = &self.allow {
            h1::encode::field(&mut fields, b"Allow", allow);
        }
        fields.extend_from_slice(&self.challenges);
        fields.extend_from_slice(&self.scratch.response_lines);
        let framing = self.framing();
        self.down.out.clear();
        if self.is_grpc() {
            let is_unknown = self.denied.as_ref().is_some_and(|denied| denied.status == 401);
            let error = if is_unknown { Reason::Unauthenticated.into() } else { error };
            grpc::write_error(&mut self.down.out.bytes, error, &fields, framing);
            self.log.status = 200;
            self.log.grpc_status = Some(grpc::status_of(error.reason));
        } else if let Some(api) = self.ingress_api() {
            let (out, id) = (&mut self.down.out.bytes, &self.scratch.request_id);
            self.log.status = ai::write_problem(out, api, error, id, fields, self.retry_after, framing);
        } else if let Some(page) = page {
            if let Some(seconds) = self.retry_after.or(error.reason.is_temporary().then_some(1)) {
                h1::encode::field(&mut fields, b"Retry-After", seconds.max(1).to_string().as_bytes());
            }
            self.write_page(error.reason.status(), &page, &fields);
        } else {
            let members = Members { request_id: &self.scratch.request_id, errors: &self.violations };
            response::problem(&mut self.down.out.bytes, error, members, &fields, self.retry_after, framing);
        }
        self.aborts |= self.flush_response().await.is_err();
    }
}
