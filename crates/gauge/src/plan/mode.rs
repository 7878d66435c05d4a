//! Loads by name: phases of users who each send the next request when they have the response.

use std::time::Duration;

use serde::Deserialize;

use crate::load::workload::{Closed, Phase, Span};

/// A load by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Does it work at all: one user, five requests.
    Smoke,
    /// The phases of `full` in seconds instead of minutes: a look, no measurement.
    Short,
    /// 10, 50, 100 and 200 users, for 2, 2, 2 and 5 minutes.
    Full,
    /// 10 to 2,000 users, 2 minutes each.
    Saturation,
}

const MINUTE: u64 = 60;

impl Mode {
    /// All of them, the shortest first.
    pub(crate) const ALL: [Mode; 4] = [Mode::Smoke, Mode::Short, Mode::Full, Mode::Saturation];

    /// The one of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// As evaluations and the history call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Smoke => "smoke",
            Mode::Short => "short",
            Mode::Full => "full",
            Mode::Saturation => "saturation",
        }
    }

    /// Its phases.
    pub(crate) fn phases(self) -> Vec<Phase> {
        let of = |steps: &[(u32, u64)], unit: u64| {
            let phase = |(users, length): &(u32, u64)| timed(*users, Duration::from_secs(length * unit));
            steps.iter().map(phase).collect()
        };
        let full = [(10, 2), (50, 2), (100, 2), (200, 5)];
        match self {
            Mode::Smoke => {
                let closed = Closed { users: Span::Constant(1), iterations: Some(5), duration: None, think: None };
                vec![Phase { name: "1 user".to_owned(), warmup: false, closed: Some(closed), open: None }]
            }
            Mode::Short => of(&full, 1),
            Mode::Full => of(&full, MINUTE),
            Mode::Saturation => of(&[(10, 2), (50, 2), (100, 2), (200, 2), (500, 2), (1000, 2), (2000, 2)], MINUTE),
        }
    }
}

fn timed(users: u32, duration: Duration) -> Phase {
    let closed = Closed { users: Span::Constant(users), iterations: None, duration: Some(duration), think: None };
    Phase { name: format!("{users} users"), warmup: false, closed: Some(closed), open: None }
}
