//! What the scripts are told and what they say.

use std::rc::Rc;
use std::sync::LazyLock;

use tokio::sync::Notify;

use super::super::{Algorithm, Decision, Key, Limit};
use super::hold;
use crate::config::LimitAlgorithm;
use crate::redis::{Client, Cmd, Failure, Script, Value};
use crate::runtime::clock;

/// Counts and charges; all of a request or nothing.
pub(super) static COUNT: LazyLock<Script> = LazyLock::new(|| Script::new("count", include_str!("count.lua")));
/// Takes charges back.
pub(super) static REFUND: LazyLock<Script> = LazyLock::new(|| Script::new("refund", include_str!("refund.lua")));

/// The longest namespace.
const NAMESPACE: usize = 32;
/// Namespace, `:limit:`, half of the limit's identity, `:`, the key, both in hexadecimal digits.
const NAME: usize = NAMESPACE + 7 + 16 + 1 + 32;

/// Name of a count in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Name {
    length: u8,
    bytes: [u8; NAME],
}

impl std::ops::Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

#[cfg(test)]
impl Name {
    /// A name that no limit has.
    pub(super) fn numbered(number: u64) -> Self {
        let mut bytes = [0; NAME];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Name { length: 8, bytes }
    }
}

/// The name of a count: what is limited cannot be read from it.
pub(super) fn name(limit: &Limit, key: Key) -> Name {
    // Configurations with a longer namespace are refused.
    let prefix = limit.store_prefix.as_bytes();
    let prefix = &prefix[..prefix.len().min(NAME - 32)];
    let mut bytes = [0; NAME];
    bytes[..prefix.len()].copy_from_slice(prefix);
    for (index, digit) in bytes[prefix.len()..][..32].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(key.0 >> (4 * (31 - index))) as usize & 15];
    }
    Name { length: (prefix.len() + 32) as u8, bytes }
}

/// An algorithm as the scripts have it: kind, a, b, c, and whether it refuses requests.
pub(super) type Definition = [u64; 5];

/// Times of a bucket that takes longer to fill are in microseconds, else in nanoseconds: scripts calculate with 53 bits.
const LONGEST_IN_NS: u64 = 1 << 50;

/// The numbers of a limit for the scripts; `worker` is the caller.
pub(super) fn definition(limit: &Limit, worker: u64) -> Definition {
    let us = |ns: u64| ns.div_ceil(1_000).max(1);
    let window = us(limit.algorithm.window_ns().unwrap_or(0));
    let most = limit.algorithm.limit();
    let enforced = u64::from(limit.spec.enforce);
    match (&limit.algorithm, limit.spec.algorithm) {
        (Algorithm::TokenBucket(bucket), _) if limit.algorithm.window_ns() > Some(LONGEST_IN_NS) => {
            [4, most, us(bucket.interval_ns()), 1, enforced]
        }
        (Algorithm::TokenBucket(bucket), _) => [4, most, bucket.interval_ns().max(1), 1_000, enforced],
        (Algorithm::SlidingWindow(_), _) => [3, most, window, 0, enforced],
        (_, LimitAlgorithm::FixedWindow { aligned: true, .. }) => [2, most, window, 0, enforced],
        (Algorithm::FixedWindow(_), _) => [1, most, window, 0, enforced],
        (Algorithm::Concurrency(_), _) => [hold::KIND, most, hold::LASTS.as_micros() as u64, worker, enforced],
    }
}

/// One count that a request is checked against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) name: Name,
    pub(super) definition: Definition,
    pub(super) cost: u64,
    /// At least the cost; more is for later requests.
    pub(super) wanted: u64,
}

/// What Redis says to a [`Question`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScriptResult {
    /// Taken; 0: too little is left; less: nothing was taken though there is enough.
    pub(super) taken: i64,
    pub(super) left: u64,
    reset_us: u64,
    /// Until the cost would be there, or the mark of what was taken.
    last: u64,
}

impl ScriptResult {
    pub(super) fn is_refusal(&self) -> bool {
        self.taken == 0
    }

    /// What refunds want to know of it.
    pub(super) fn mark(&self) -> u64 {
        self.last
    }

    pub(super) fn retry_ns(&self) -> u64 {
        if self.is_refusal() { self.last.saturating_mul(1_000) } else { 0 }
    }

    /// As a limit says it. `spent` of what was taken is for this request.
    pub(super) fn decision(&self, limit: u64, spent: u64) -> Decision {
        let spare = u64::try_from(self.taken).unwrap_or(0).saturating_sub(spent);
        Decision {
            allowed: !self.is_refusal(),
            limit,
            remaining: self.left.saturating_add(spare),
            reset_ns: self.reset_us.saturating_mul(1_000),
            retry_ns: self.retry_ns(),
        }
    }
}

/// Questions of some requests, sent together: Redis starts the script once for all of them.
#[derive(Default)]
pub(super) struct Call {
    names: Vec<Name>,
    definitions: Vec<Definition>,
    /// Of each request: how many counts; of each: definition (from 1), cost, wanted.
    requests: Vec<u64>,
}

/// A call on its way, shared by the requests in it.
pub(super) struct Sent {
    results: std::cell::OnceCell<Result<BatchResults, Failure>>,
    arrived: Notify,
}

/// The response to a call.
pub(super) struct BatchResults {
    list: Vec<ScriptResult>,
    /// Before it was sent, in nanoseconds of the process: what Redis says lasts some time ends no earlier than that much later.
    pub(super) since_ns: u64,
}

impl BatchResults {
    /// Those of the questions from `first` on.
    pub(super) fn from(&self, first: usize) -> &[ScriptResult] {
        &self.list[first..]
    }
}

impl Call {
    /// Adds the counts of a request; returns where their results will be.
    pub(super) fn add(&mut self, questions: &[Question]) -> usize {
        let first = self.names.len();
        self.requests.push(questions.len() as u64);
        for question in questions {
            let known = self.definitions.iter().position(|definition| *definition == question.definition);
            let index = known.unwrap_or_else(|| {
                self.definitions.push(question.definition);
                self.definitions.len() - 1
            });
            self.requests.extend([index as u64 + 1, question.cost, question.wanted]);
            self.names.push(question.name);
        }
        first
    }

    /// Number of questions.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Sends the call to Redis.
    pub(super) async fn send(self, client: &Client) -> Result<BatchResults, Failure> {
        self.send_by(&COUNT, client, &|_| ()).await
    }

    /// Sends the call with this script, with further arguments at the end.
    pub(super) async fn send_by(
        self,
        script: &Script,
        client: &Client,
        more: &dyn Fn(&mut Cmd),
    ) -> Result<BatchResults, Failure> {
        let names: Vec<&[u8]> = self.names.iter().map(|name| &name[..]).collect();
        let since_ns = clock::now_ns();
        let value = client.script_with(script, &names, |cmd| {
            cmd.arg(self.definitions.len());
            for number in self.definitions.iter().flatten().chain(&self.requests) {
                cmd.arg(*number);
            }
            more(cmd);
        });
        let list = results(&value.await?).filter(|list| list.len() == names.len());
        let list =
            list.ok_or_else(|| Failure::Refused("the script returned something other than numbers".to_owned()))?;
        Ok(BatchResults { list, since_ns })
    }
}

impl Sent {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Sent { results: std::cell::OnceCell::new(), arrived: Notify::new() })
    }

    /// Called once.
    pub(super) fn arrive(&self, results: Result<BatchResults, Failure>) {
        let _ = self.results.set(results);
        self.arrived.notify_waiters();
    }

    /// Waits for the response.
    pub(super) async fn results(&self) -> Result<&BatchResults, &Failure> {
        loop {
            let arrived = self.arrived.notified();
            if let Some(results) = self.results.get() {
                return results.as_ref();
            }
            arrived.await;
        }
    }
}

fn results(value: &Value) -> Option<Vec<ScriptResult>> {
    let Value::Array(numbers) = value else { return None };
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let unsigned = |value: &Value| u64::try_from(number(value)?).ok();
    let (groups, []) = numbers.as_chunks::<4>() else { return None };
    let result = |[taken, left, reset, last]: &[Value; 4]| {
        Some(ScriptResult {
            taken: number(taken)?,
            left: unsigned(left)?,
            reset_us: unsigned(reset)?,
            last: unsigned(last)?,
        })
    };
    groups.iter().map(result).collect()
}
