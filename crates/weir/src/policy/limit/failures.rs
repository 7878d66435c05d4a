//! What each client address has done wrong: whoever guesses credentials is refused before anything is computed for it, and whoever floods over
//! HTTP/2 before anything is read.

use super::{Algorithm, Decision, Key, KeyBytes, Limits, Memory};
use crate::config::{ClientAddress, LimitAlgorithm};

/// Clients that are held; further ones share one count.
const MOST: usize = 1_000_000;

/// Counts by an algorithm; those of the configuration before go on where the numbers are the same.
pub(super) fn memory(algorithm: Option<LimitAlgorithm>, before: Option<&Memory>) -> Option<Memory> {
    let algorithm = Algorithm::new(algorithm?).ok().flatten()?;
    let same = before.filter(|memory| *memory.algorithm() == algorithm);
    Some(same.cloned().unwrap_or_else(|| Memory::new(algorithm, MOST)))
}

impl Limits {
    /// The refusal of a client with too many failed logins.
    pub fn failures_refuse(&self, client: ClientAddress) -> Option<Decision> {
        self.refusal(self.failures.as_ref()?, client, 1)
    }

    /// Counts a failed login.
    pub fn count_failure(&self, client: ClientAddress) {
        if let Some(memory) = &self.failures {
            memory.charge(self.client_key(client), 1, self.now());
        }
    }

    /// Whether the connections of a client have lost so many points of their abuse budgets that it gets no further one, which may lose all that it
    /// begins with.
    pub fn abuse_refuses(&self, client: ClientAddress) -> bool {
        self.abuse.as_ref().is_some_and(|memory| self.refusal(memory, client, http2::Budget::FULL as u64).is_some())
    }

    /// Counts points that a connection has lost.
    pub fn count_abuse(&self, client: ClientAddress, points: u64) {
        if let Some(memory) = &self.abuse {
            memory.charge(self.client_key(client), points, self.now());
        }
    }

    fn refusal(&self, memory: &Memory, client: ClientAddress, cost: u64) -> Option<Decision> {
        Some(memory.peek(self.client_key(client), cost, self.now())).filter(|decision| !decision.allowed)
    }

    fn client_key(&self, client: ClientAddress) -> Key {
        let mut bytes = KeyBytes::default();
        bytes.address(client);
        Key::local(&bytes, &self.secret)
    }
}
