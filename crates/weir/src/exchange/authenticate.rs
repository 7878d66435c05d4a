//! The step of the pipeline that determines who sends a request: by credentials that are compared here, or by a call to a service.

use std::sync::Arc;
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{Identity, Refusal};
use h1::BodyKind;

use super::subrequest::{self, Subrequest};
use super::{Exchange, stall::Stall};
use crate::config::{AuthId, AuthorizerForm, RouteAuth};
use crate::error::{Error, Reason};
use crate::http::response;
use crate::observe::metrics::NONE;
use crate::policy::auth::{Called, Head, Passed, Question, Response, Subject, Verdict, WorkerAuth};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::worker::snapshot::Snapshot;

/// Bytes of an authorizer's body that a client gets.
const BODY: usize = 64 * 1024;
/// Requests to an authorizer that one worker has in flight.
const QUESTIONS: usize = 256;

/// Why a request goes no further.
enum Stop {
    /// Its sender is refused.
    Refused(Refusal),
    /// Something else.
    Error(Refusal, Error),
    /// The client disconnected.
    Disconnected,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl Exchange<'_> {
    /// Determines who sends the request, and whether they may.
    ///
    /// # Errors
    /// 400, 401, 403, 429, 500 or 503, or what an authorizer responds.
    pub async fn authenticate(&mut self, snapshot: &Snapshot, demanded: &RouteAuth) -> Result<(), Error> {
        let client = self.down.client.address;
        let failures = &snapshot.limits.shared;
        if let Some(decision) = failures.failures_refuse(client) {
            snapshot.auth.count(demanded, &Refusal::TooManyFailures);
            self.log.auth = Some(Refusal::TooManyFailures.name());
            self.retry_after = Some(decision.retry_after());
            return Err(refused(&Refusal::TooManyFailures));
        }
        let (refusal, error) = match self.find_sender(snapshot, demanded).await {
            Ok(identity) => {
                let route = self.route.map(|route| &snapshot.config().routes[route.0]);
                let allowed = route.map_or(Ok(()), |route| route.allow.rules.admits(&identity));
                self.identity = Some(identity);
                match allowed {
                    Ok(()) => {
                        self.log.auth = Some("ok");
                        return Ok(());
                    }
                    Err(refusal) => {
                        let error = refused(&refusal);
                        (refusal, error)
                    }
                }
            }
            Err(Stop::Refused(refusal)) => {
                let error = refused(&refusal);
                (refusal, error)
            }
            Err(Stop::Error(refusal, error)) => (refusal, error),
            Err(Stop::Disconnected) => return Err(Reason::ClientDisconnected.into()),
        };
        self.changed = None;
        self.log.auth = Some(refusal.name());
        self.log.auth_detail = refusal.detail();
        if refusal.is_failed_login() {
            failures.count_failure(client);
        }
        snapshot.auth.write_challenges(&mut self.challenges, demanded, &refusal);
        Err(error)
    }

    /// The sender, by the first alternative whose credentials are all there; it decides alone.
    async fn find_sender(&mut self, snapshot: &Snapshot, demanded: &RouteAuth) -> Result<Arc<Identity>, Stop> {
        let auth = &snapshot.auth;
        let Some(all) = auth.choose(demanded, self.credentials())? else {
            auth.count(demanded, &Refusal::Missing);
            return Err(Refusal::Missing.into());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut known: Option<Arc<Identity>> = None;
        for id in all {
            self.log.authenticator = Some(*id);
            let identity = if auth.authorizer(*id).is_some() {
                // Seldom, and large.
                Box::pin(self.call_authorizer(snapshot, *id)).await?
            } else {
                let name = self.route.map_or(NONE, |route| &*snapshot.config().routes[route.0].name);
                let result = auth.authenticate(*id, demanded, self.credentials(), name, now).await;
                auth.count_one(*id, result.as_ref().err());
                let identity = result?;
                self.write_identity(auth, *id, &identity);
                identity
            };
            known = Some(match known {
                None => identity,
                Some(first) => crate::policy::auth::merge(&first, &identity),
            });
        }
        Ok(known.ok_or(Refusal::Missing)?)
    }

    /// What one authenticator says of the sender, for the upstream.
    fn write_identity(&mut self, auth: &WorkerAuth, by: AuthId, who: &Identity) {
        let mut lines = std::mem::take(&mut self.scratch.identity_lines);
        auth.write_identity(&mut lines, by, self.credentials(), who);
        self.scratch.identity_lines = lines;
    }

    /// Where the credentials of the request are.
    pub(super) fn credentials(&self) -> Head<'_> {
        let certificate = self.down.client.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
        Head { fields: &self.scratch.request.fields, buf: self.down.buffer.whole(), certificate }
    }

    /// The verdict of the service: one that is stored, or that of a call.
    async fn call_authorizer(&mut self, snapshot: &Snapshot, id: AuthId) -> Result<Arc<Identity>, Stop> {
        let auth = &snapshot.auth;
        let (Some((spec, verdicts)), Some(choices)) = (auth.authorizer(id), snapshot.authorizers.get(id.0)) else {
            return Err(Refusal::Missing.into());
        };
        let question = Question::new(
            spec,
            &Subject {
                head: &self.scratch.request,
                buf: self.down.buffer.whole(),
                path: &self.scratch.path,
                client: self.down.client.address,
                peer_is_trusted: self.down.client.peer_is_trusted,
                scheme: self.down.client.scheme(),
                protocol: self.down.stream.protocol().unwrap_or(self.scratch.request.version.text()),
                request_id: &self.scratch.request_id,
            },
        );
        let began_ns = clock::now_ns();
        if let Some(key) = &question.key {
            let verified = verdicts.get(key, began_ns);
            auth.count_cached(id, verified.is_some());
            if let Some(passed) = verified {
                auth.count_one(id, None);
                return Ok(self.pass(passed));
            }
        }
        let key = question.key;
        let request = Subrequest {
            service: &snapshot.config().auth[id.0].name,
            choices,
            action: &spec.action,
            head: question.head,
            body: question.body,
            lines: question.lines,
            client: self.down.client.clone(),
            origin: self.down.origin.clone(),
            body_bytes: BODY,
            is_repeatable: false,
            most: QUESTIONS,
        };
        self.stalls.change(Stall::Gateway);
        let mut sent = std::pin::pin!(subrequest::send(self.worker, self.snapshot.clone(), request));
        let has_body = self.scratch.request.body != BodyKind::None;
        let (down, buffers) = (&mut *self.down, &self.worker.buffers);
        let result = std::future::poll_fn(|cx| {
            if let Poll::Ready(result) = sent.as_mut().poll(cx) {
                return Poll::Ready(Some(result));
            }
            // A client that disconnected does not wait for the verdict. While its body is on the way, only a reset shows that.
            let is_disconnected = down.stream.is_reset() || (!has_body && down.poll_disconnect(cx, buffers).is_ready());
            if is_disconnected { Poll::Ready(None) } else { Poll::Pending }
        })
        .await;
        let Some(result) = result else { return Err(Stop::Disconnected) };
        let now_ns = clock::now_ns();
        auth.count_duration(id, now_ns.saturating_sub(began_ns));
        let verdict = result.map(|response| match spec.form {
            AuthorizerForm::EnvoyGrpc => {
                let body = response.is_whole.then_some(&*response.body);
                Called { status: response.head.status, grpc_status: response.grpc_status(), body }.verdict(spec)
            }
            _ => {
                let body = if response.is_whole { &*response.body } else { &[] };
                Response { status: response.head.status, fields: &response.head.fields, buf: &response.bytes, body }
                    .verdict(spec)
            }
        });
        match verdict {
            Ok(Verdict::Allowed(passed)) => {
                auth.count_one(id, None);
                if let (Some(key), Some(cache), true) = (key, &spec.cache, passed.may_be_cached()) {
                    verdicts.insert(key, passed.clone(), began_ns.saturating_add(nanos(cache.ttl)), now_ns);
                }
                Ok(self.pass(passed))
            }
            Ok(Verdict::Denied(denied)) => {
                auth.count_one(id, Some(&Refusal::Denied));
                self.denied = Some(Box::new(denied));
                Err(Refusal::Denied.into())
            }
            Ok(Verdict::Unsupported(why)) => {
                let refusal = Refusal::Unavailable(why);
                auth.count_one(id, Some(&refusal));
                Err(refusal.into())
            }
            Ok(Verdict::None(why)) if spec.is_nginx() => {
                let refusal = Refusal::Unavailable(why);
                auth.count_one(id, Some(&refusal));
                Err(Stop::Error(refusal, Reason::AuthorizerFailed.into()))
            }
            Ok(Verdict::None(_)) | Err(_) if spec.fails_open => {
                auth.count_failed_open(id);
                Ok(Arc::default())
            }
            no_verdict => {
                let why = match no_verdict {
                    Ok(Verdict::None(why)) => why,
                    _ => "the authorizer gave no response",
                };
                let refusal = Refusal::Unavailable(why);
                auth.count_one(id, Some(&refusal));
                Err(refusal.into())
            }
        }
    }

    fn pass(&mut self, passed: Passed) -> Arc<Identity> {
        self.scratch.identity_lines.extend_from_slice(&passed.lines);
        if let Some(changes) = passed.changes {
            self.changed.get_or_insert_default().changes.merge(*changes);
        }
        passed.identity
    }

    /// Sends the client what the authorizer responded.
    pub(super) async fn send_denial(&mut self) {
        let Some(denied) = self.denied.take() else { return };
        self.skip_body();
        let mut lines = denied.lines;
        lines.extend_from_slice(&self.scratch.response_lines);
        let framing = self.framing();
        self.log.status = denied.status;
        self.down.out.clear();
        let out = &mut self.down.out.bytes;
        response::write(out, denied.status, &denied.content_type, &lines, &denied.body, framing);
        if self.flush_response().await.is_err() {
            self.aborts = true;
        }
    }
}

/// What a client, the metrics and the log learn of a refusal. The detail of a credential that does not hold is for the log alone: a
/// problem document has the class.
fn refused(refusal: &Refusal) -> Error {
    match refusal {
        Refusal::Malformed(why) => Error::new(Reason::BadCredentials, why),
        Refusal::Missing => Error::new(Reason::Unauthenticated, ""),
        Refusal::Invalid(_) | Refusal::Expired | Refusal::Revoked => Reason::Unauthenticated.into(),
        Refusal::ScopeMissing(_) | Refusal::Forbidden(_) => Reason::Forbidden.into(),
        Refusal::IpDenied => Reason::IpDenied.into(),
        Refusal::Denied => Reason::AuthDenied.into(),
        Refusal::Unavailable(why) => Error::new(Reason::AuthUnavailable, why),
        Refusal::TooManyFailures => Error::new(Reason::RateLimited, "too many failed logins from this address"),
    }
}
