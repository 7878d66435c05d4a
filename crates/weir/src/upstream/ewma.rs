//! Peak-sensitive moving average of latency (Twitter Finagle's peak EWMA): a slower response counts at once, faster ones win it back over time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::time::Moment;

/// Time in which an old measurement loses all but 1/e of its weight.
const DECAY_MS: f32 = 10_000.0;

/// Latency average of one target, shared by all workers: one word, `f32` microseconds above, `u32` milliseconds of the last update below.
/// All zero means never measured. The stamp wraps after 49 days; a target idle for that long decays a little less, nothing more.
#[derive(Debug, Default)]
pub(super) struct PeakEwma(AtomicU64);

impl PeakEwma {
    /// Takes in one latency. A peak replaces the average; anything else is blended by the time since the last update.
    pub(super) fn observe(&self, latency: Duration, now: Moment) {
        // At least a microsecond, so that a measured zero is not taken for "never measured".
        let sample = (latency.as_secs_f32() * 1e6).max(1.0);
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let decayed = decayed(word, now);
            let average = match decayed {
                Some((value, weight)) if sample < value => value * weight + sample * (1.0 - weight),
                _ => sample,
            };
            match self.0.compare_exchange_weak(word, pack(average.max(1.0), now), Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(current) => word = current,
            }
        }
    }

    /// The average in microseconds, decayed towards zero by the time since the last update: so a target that was slow once, and is avoided
    /// since, is tried again. `None`: never measured.
    pub(super) fn read_us(&self, now: Moment) -> Option<f32> {
        decayed(self.0.load(Ordering::Relaxed), now).map(|(value, weight)| value * weight)
    }

    /// The last average, without decay: what a person wants to see.
    pub(super) fn last_us(&self) -> Option<f32> {
        let word = self.0.load(Ordering::Relaxed);
        (word != 0).then(|| value(word))
    }
}

fn pack(value_us: f32, now: Moment) -> u64 {
    u64::from(value_us.to_bits()) << 32 | u64::from(now.as_millis() as u32)
}

fn value(word: u64) -> f32 {
    f32::from_bits((word >> 32) as u32)
}

/// The stored average and the weight that it has left.
fn decayed(word: u64, now: Moment) -> Option<(f32, f32)> {
    if word == 0 {
        return None;
    }
    let elapsed_ms = (now.as_millis() as u32).wrapping_sub(word as u32);
    // Workers read their clocks at different times: a stamp a little ahead of `now` is no age of 49 days.
    let elapsed_ms = if elapsed_ms > u32::MAX / 2 { 0 } else { elapsed_ms };
    Some((value(word), (-(elapsed_ms as f32) / DECAY_MS).exp()))
}

#[cfg(test)]
mod tests;
