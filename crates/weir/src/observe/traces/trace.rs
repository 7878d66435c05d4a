//! The trace that a request belongs to, from its head to its end.

use std::net::SocketAddr;
use std::sync::Arc;

use h1::{Fields, Known, encode};
use telemetry::context::STATE_BYTES;
use telemetry::{Parent, SpanId, parse, write_traceparent};

/// Names of the fields of W3C Trace Context.
const PARENT: &[u8] = b"traceparent";
const STATE: &[u8] = b"tracestate";

/// The trace of an exchange; memory that is used again.
#[derive(Debug, Default)]
pub struct Trace {
    /// The exchange's own span, and whether it is recorded; `None` where no traces are configured.
    pub(super) own: Option<Parent>,
    /// The client's span.
    pub(super) parent: Option<SpanId>,
    /// The client's span of another trace, which this one is linked to.
    pub(super) link: Option<Parent>,
    /// `tracestate` as it is passed on.
    pub(super) state: Vec<u8>,
    pub(super) attempts: Vec<Attempt>,
    /// Lines for the upstream.
    lines: Vec<u8>,
}

/// An attempt at a target.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) span: SpanId,
    pub(super) target: Option<SocketAddr>,
    pub(super) start_ns: u64,
    /// 0: it ended with the exchange.
    pub(super) end_ns: u64,
    /// 0: there was no response.
    pub(super) status: u16,
    /// The status of a gRPC call.
    pub(super) grpc_status: Option<u8>,
    /// Why it failed.
    pub(super) error: Option<&'static str>,
    /// It calls a model.
    pub(super) generation: Option<Box<Generation>>,
}

/// What the span of an attempt says of a call of a model, in the words of OpenTelemetry's conventions for generative AI.
#[derive(Debug)]
pub struct Generation {
    /// `gen_ai.operation.name`: `chat`, `text_completion`, `embeddings`.
    pub operation: &'static str,
    /// `gen_ai.provider.name`: whose API is spoken.
    pub api: &'static str,
    /// Name of the provider in the configuration.
    pub provider: Arc<str>,
    /// Name of the model at the provider.
    pub model: Arc<str>,
    /// Tokens in, out and read from a cache of the provider, as it counted them.
    pub tokens: Option<[u64; 3]>,
    /// The row of the table of faults: `F5`.
    pub fault: &'static str,
}

impl Trace {
    /// Forgets all.
    pub fn clear(&mut self) {
        if self.own.is_some() {
            self.own = None;
            self.parent = None;
            self.link = None;
            self.state.clear();
            self.attempts.clear();
        }
    }

    /// Whether the exchange is recorded.
    #[inline]
    pub fn is_sampled(&self) -> bool {
        self.own.is_some_and(|own| own.is_sampled)
    }

    /// The exchange's own span.
    pub fn own(&self) -> Option<Parent> {
        self.own
    }

    /// Reads what the client says of its trace, and takes it out of the request: the upstream gets the context of its attempt. Two contexts are as good
    /// as none.
    pub(super) fn take_context(&mut self, fields: &mut Fields, buf: &[u8]) -> Option<Parent> {
        let mut parents = 0;
        let mut parent = None;
        fields.retain(|field| {
            if field.known != Known::Other {
                return true;
            }
            let name = field.name.of_buf(buf);
            if name.eq_ignore_ascii_case(PARENT) {
                parents += 1;
                parent = parse(field.value.of_buf(buf));
                false
            } else if name.eq_ignore_ascii_case(STATE) {
                let value = field.value.of_buf(buf);
                if !self.state.is_empty() && !value.is_empty() {
                    self.state.push(b',');
                }
                self.state.extend_from_slice(value);
                false
            } else {
                true
            }
        });
        let parent = parent.filter(|_| parents == 1);
        // Without a trace it means nothing; cut at any place it could mean something else.
        if parent.is_none() || self.state.len() > STATE_BYTES {
            self.state.clear();
        }
        parent
    }

    /// The trace for an exchange that makes attempts in place of this one; [`take_attempts`](Self::take_attempts) takes them back.
    pub fn for_attempts(&self) -> Self {
        Trace {
            own: self.own,
            parent: self.parent,
            link: self.link,
            state: self.state.clone(),
            attempts: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Takes over the attempts of an exchange that made them in place of this one.
    pub fn take_attempts(&mut self, other: Trace) {
        self.attempts.extend(other.attempts);
    }

    /// Takes the client's context out of a request outside of its trace: a fetch in the background.
    pub fn drop_context(&mut self, fields: &mut Fields, buf: &[u8]) {
        self.take_context(fields, buf);
        self.state.clear();
    }

    /// An attempt begins, with a span of its own.
    pub fn begin_attempt(&mut self, id: u64, target: Option<SocketAddr>, now_ns: u64) {
        if self.own.is_some() {
            let span = SpanId(id | 1);
            let (end_ns, status) = (0, 0);
            self.attempts.push(Attempt {
                span,
                target,
                start_ns: now_ns,
                end_ns,
                status,
                grpc_status: None,
                error: None,
                generation: None,
            });
        }
    }

    /// The attempt called a model.
    pub fn generated(&mut self, generation: Generation) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.generation = Some(Box::new(generation));
        }
    }

    /// The attempt ended.
    pub fn end_attempt(&mut self, status: u16, grpc_status: Option<u8>, error: Option<&'static str>, now_ns: u64) {
        if let Some(attempt) = self.attempts.last_mut() {
            (attempt.end_ns, attempt.status, attempt.error) = (now_ns, status, error);
            attempt.grpc_status = grpc_status;
        }
    }

    /// The lines that carry the context to the upstream of the attempt; none where no traces are configured.
    pub fn lines(&mut self) -> &[u8] {
        self.lines.clear();
        if let (Some(own), Some(attempt)) = (self.own, self.attempts.last()) {
            encode::begin_field(&mut self.lines, b"traceparent");
            write_traceparent(&mut self.lines, &Parent { span: attempt.span, ..own });
            encode::end_field(&mut self.lines);
            if !self.state.is_empty() {
                encode::plain(&mut self.lines, b"tracestate", &self.state);
            }
        }
        &self.lines
    }
}
