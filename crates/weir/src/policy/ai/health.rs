//! Which keys and candidates rest.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use llm::fault::Fault;

use crate::config::ProviderKey;
use crate::runtime::deadline::nanos;

/// Longest rest of a key that is refused again and again without being told for how long.
const LONGEST_REST: u64 = 60;

/// Health of one key. Times are nanoseconds since process start.
#[derive(Debug, Default)]
pub struct KeyHealth {
    weight: u32,
    out_until: AtomicU64,
    /// Refusals in a row without a time.
    strikes: AtomicU32,
    /// Number of the fault that it is paused for.
    fault: AtomicU8,
}

/// What came of choosing a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChoice {
    /// The provider needs none.
    None,
    /// This one.
    Key(usize),
    /// All are paused; the first is back after this time, and is paused for this fault.
    Resting(Duration, u8),
    /// Those that do not rest were tried.
    Tried,
}

impl KeyHealth {
    /// Health of these keys, none of which rests.
    pub fn of(keys: &[ProviderKey]) -> Vec<KeyHealth> {
        keys.iter().map(|key| KeyHealth { weight: key.weight, ..KeyHealth::default() }).collect()
    }

    /// Chooses a key by weight, of those that do not rest and were not tried in this request.
    pub fn choose(keys: &[KeyHealth], tried: &[usize], now: u64, random: u64) -> KeyChoice {
        if keys.is_empty() {
            return KeyChoice::None;
        }
        let is_fit = |(index, key): &(usize, &KeyHealth)| key.out_until.load(Relaxed) <= now && !tried.contains(index);
        let fit = || keys.iter().enumerate().filter(is_fit);
        let sum: u64 = fit().map(|(_, key)| u64::from(key.weight)).sum();
        let mut draw = random % sum.max(1);
        for (index, key) in fit() {
            if draw < u64::from(key.weight) {
                return KeyChoice::Key(index);
            }
            draw -= u64::from(key.weight);
        }
        match keys.iter().min_by_key(|key| key.out_until.load(Relaxed)) {
            Some(first) if first.out_until.load(Relaxed) > now => {
                let rest = first.out_until.load(Relaxed) - now;
                KeyChoice::Resting(Duration::from_nanos(rest), first.fault.load(Relaxed))
            }
            _ => KeyChoice::Tried,
        }
    }

    /// The provider took it.
    pub fn accepted(&self) {
        self.strikes.store(0, Relaxed);
    }

    /// The provider refused it: it rests, for as long as it was told or the fault says.
    pub fn refused(&self, fault: Fault, hint: Option<Duration>, now: u64) {
        let rest = match (fault, hint) {
            (Fault::QUOTA, _) => Duration::from_secs(600),
            (Fault::UNAUTHORIZED, _) => Duration::from_secs(300),
            (_, Some(hint)) => hint.min(Duration::from_secs(3600)),
            (_, None) => {
                let strikes = self.strikes.fetch_add(1, Relaxed);
                Duration::from_secs((1_u64 << strikes.min(6)).min(LONGEST_REST))
            }
        };
        self.fault.store(fault.number(), Relaxed);
        self.out_until.fetch_max(now.saturating_add(nanos(rest)), Relaxed);
    }

    /// Whether it rests.
    pub fn is_out(&self, now: u64) -> bool {
        self.out_until.load(Relaxed) > now
    }
}

/// Health of one candidate.
#[derive(Debug, Default)]
pub struct CandidateHealth {
    out_until: AtomicU64,
}

impl CandidateHealth {
    /// The provider does not know the model: it gets requests again in a minute.
    pub fn unknown_model(&self, now: u64) {
        self.out_until.store(now.saturating_add(60_000_000_000), Relaxed);
    }

    /// Whether it rests.
    pub fn is_out(&self, now: u64) -> bool {
        self.out_until.load(Relaxed) > now
    }
}
