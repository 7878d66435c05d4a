//! Failed logins of each client address: whoever guesses is refused before anything is computed for it.

use super::{Algorithm, Decision, Key, KeyBytes, Limits, Memory};
use crate::config::ClientAddress;
use crate::config::Config;

/// Clients that are held; further ones share one count.
const MOST: usize = 1_000_000;

/// Counts of failed logins; those of the configuration before go on where the numbers are the same.
pub(super) fn memory(config: &Config, before: Option<&Limits>) -> Option<Memory> {
    let algorithm = Algorithm::new(config.server.auth_failures?).ok().flatten()?;
    let same = before.and_then(|before| before.failures.as_ref()).filter(|memory| *memory.algorithm() == algorithm);
    Some(same.cloned().unwrap_or_else(|| Memory::new(algorithm, MOST)))
}

impl Limits {
    /// The refusal of a client with too many failed logins.
    pub fn failures_refuse(&self, client: ClientAddress) -> Option<Decision> {
        let memory = self.failures.as_ref()?;
        Some(memory.peek(self.client_key(client), 1, self.now())).filter(|decision| !decision.allowed)
    }

    /// Counts a failed login.
    pub fn count_failure(&self, client: ClientAddress) {
        if let Some(memory) = &self.failures {
            memory.charge(self.client_key(client), 1, self.now());
        }
    }

    fn client_key(&self, client: ClientAddress) -> Key {
        let mut bytes = KeyBytes::default();
        bytes.address(client);
        Key::local(&bytes, &self.secret)
    }
}
