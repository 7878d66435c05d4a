//! What the events of a stream mean for the response.

use crate::Api;
use crate::response::{EndReason, Facts, UpstreamError, Usage};

/// How a stream failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The body ended, or was marked as done, before every choice had an end reason.
    Cut,
    /// No event arrived within the idle timeout.
    Stalled,
    /// An event is not JSON.
    Malformed,
    /// The provider reported an error.
    Error(UpstreamError),
}

impl Failure {
    /// The `code` of the error event that the client gets.
    pub fn code(&self) -> &'static str {
        match self {
            Failure::Cut => "upstream_cut",
            Failure::Stalled => "upstream_stalled",
            Failure::Malformed => "upstream_malformed",
            Failure::Error(_) => "upstream_error",
        }
    }
}

/// What to do with an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handling {
    /// Nothing is committed yet: hold it, with those before it.
    Hold,
    /// Send it, and before it what is held.
    Pass,
    /// The response has ended: drop it and close the connection.
    Drop,
    /// The chunk that the gateway requested and the client did not: take it out.
    Remove,
    /// The stream has failed; the event is not sent, unless it is the provider's own error event.
    Fail(Failure),
}

/// How the body of the upstream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// By its framing.
    Proper,
    /// Before the end of its framing: closed, reset.
    Cut,
    /// By the idle timeout.
    Idle,
}

/// How the stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every choice has an end reason and the body ended properly.
    Complete {
        /// The last event, which the upstream did not send.
        missing: &'static [u8],
    },
    /// Before any content: another attempt may take its place.
    Uncommitted(Failure),
    /// After content: an error event must follow, or another attempt goes on from here.
    Failed(Failure),
}

/// The state of one streamed response.
#[derive(Debug, Clone)]
pub struct StreamState {
    api: Api,
    /// Choices that the request requires.
    expected: u32,
    /// Take the usage chunk out.
    remove_usage: bool,
    committed: bool,
    ended: u128,
    done: bool,
    dropped: u64,
    failure: Option<Failure>,
    end_reason: Option<EndReason>,
    usage: Usage,
    /// A tool call was begun and its choice has not ended.
    tool_call: bool,
}

impl StreamState {
    /// `choices`: as many as the request requires. `remove_usage`: the gateway spliced `include_usage` into a request without it.
    pub fn new(api: Api, choices: u64, remove_usage: bool) -> Self {
        StreamState {
            api,
            expected: choices.clamp(1, 128) as u32,
            remove_usage,
            committed: false,
            ended: 0,
            done: false,
            dropped: 0,
            failure: None,
            end_reason: None,
            usage: Usage::default(),
            tool_call: false,
        }
    }

    /// Reads what an event said. `size` is its length in bytes.
    pub fn event(&mut self, facts: &Facts, size: u64) -> Handling {
        if self.done || self.failure.is_some() {
            self.dropped += size;
            return Handling::Drop;
        }
        self.usage.update(&facts.usage);
        self.end_reason = facts.end_reason.or(self.end_reason);
        if facts.malformed {
            return self.fail(Failure::Malformed);
        }
        if let Some(error) = &facts.error {
            return self.fail(Failure::Error(error.clone()));
        }
        self.ended |= facts.ended;
        self.tool_call = (self.tool_call || facts.tool_call) && !self.has_ended();
        if facts.done {
            if !self.has_ended() {
                return self.fail(Failure::Cut);
            }
            self.done = true;
        }
        if self.remove_usage && facts.is_usage_chunk() {
            return Handling::Remove;
        }
        self.committed |= facts.content;
        if self.committed { Handling::Pass } else { Handling::Hold }
    }

    /// A piece of an event too large to be held: it is content, and what is held leaves before it.
    pub fn large_piece(&mut self) -> Handling {
        if self.done || self.failure.is_some() {
            return Handling::Drop;
        }
        self.committed = true;
        Handling::Pass
    }

    /// The end of the upstream's body. `in_event`: bytes of an event are left that its blank line has not ended.
    pub fn end(&mut self, end: BodyEnd, in_event: bool) -> Outcome {
        let failure = match (&self.failure, end) {
            (Some(failure), _) => Some(failure.clone()),
            // what follows the last event changes nothing
            (None, _) if self.done => None,
            (None, BodyEnd::Idle) => Some(Failure::Stalled),
            (None, BodyEnd::Cut) => Some(Failure::Cut),
            (None, BodyEnd::Proper) if in_event || !self.has_ended() => Some(Failure::Cut),
            (None, BodyEnd::Proper) => None,
        };
        match failure {
            Some(failure) if self.committed => Outcome::Failed(failure),
            Some(failure) => Outcome::Uncommitted(failure),
            None => Outcome::Complete { missing: if self.done { b"" } else { last_event(self.api) } },
        }
    }

    fn fail(&mut self, failure: Failure) -> Handling {
        self.failure = Some(failure.clone());
        Handling::Fail(failure)
    }

    /// Every requested choice has an end reason.
    pub fn has_ended(&self) -> bool {
        self.ended.count_ones() >= self.expected
    }

    /// Content was seen: what the client gets can no longer be replaced.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// The last event was seen: nothing more belongs to the response.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Inside a tool call: nobody can go on from here.
    pub fn in_tool_call(&self) -> bool {
        self.tool_call
    }

    /// Bytes of events behind the end.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped
    }

    /// The last end reason.
    pub fn end_reason(&self) -> Option<EndReason> {
        self.end_reason
    }

    /// Counts so far.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }
}

/// The event that ends a complete stream, for upstreams that leave it out.
fn last_event(api: Api) -> &'static [u8] {
    match api {
        Api::Chat | Api::Completions => b"data: [DONE]\n\n",
        Api::Messages => b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        // The others have none.
        _ => b"",
    }
}
