//! Which traces are recorded: a share of them, chosen by the trace's id, so that every program that samples so chooses the same ones.

use super::context::TraceId;

/// A share of traces, from none to all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Of 2^56 values, how many are chosen.
    below: u64,
}

/// Values of the random part of a trace id: its low 56 bits (W3C Trace Context level 2, section 3.2.2.3.1).
const VALUES: u64 = 1 << 56;

impl Ratio {
    /// `share` is from 0 to 1; what lies outside counts as the nearer of them.
    pub fn new(share: f64) -> Self {
        // Exact: 2^56 is a power of two, and the product rounds to a whole number of steps.
        Ratio { below: (share.clamp(0.0, 1.0) * VALUES as f64) as u64 }
    }

    /// Whether a trace is recorded. The highest values are chosen first, as OpenTelemetry's consistent sampling does: a program with a larger
    /// share records whatever one with a smaller share does.
    pub fn admits(&self, trace: TraceId) -> bool {
        let value = trace.0 as u64 & (VALUES - 1);
        value >= VALUES - self.below
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn none_and_all_are_exact() {
        for trace in [0, 1, u128::MAX, 1 << 56, (1 << 56) - 1] {
            assert!(!Ratio::new(0.0).admits(TraceId(trace)));
            assert!(Ratio::new(1.0).admits(TraceId(trace)));
        }
        assert!(!Ratio::new(f64::NAN).admits(TraceId(7)));
    }

    proptest! {
        #[test]
        fn a_larger_share_chooses_what_a_smaller_one_does(trace: u128, one in 0.0..1.0f64, other in 0.0..1.0f64) {
            let (less, more) = (one.min(other), one.max(other));
            prop_assert!(!Ratio::new(less).admits(TraceId(trace)) || Ratio::new(more).admits(TraceId(trace)));
        }
    }

    #[test]
    fn the_share_is_kept() {
        // Steps of an odd constant visit values evenly.
        let chosen = (0..100_000u64)
            .filter(|n| Ratio::new(0.1).admits(TraceId(u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))))
            .count();
        assert!((9_900..=10_100).contains(&chosen), "{chosen}");
    }
}
