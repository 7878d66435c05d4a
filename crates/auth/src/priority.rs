//! How urgent requests are that wait in a queue.

use serde::{Deserialize, Serialize};

/// Class of a request in a queue that is fair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Somebody looks at it.
    Interactive,
    /// The class of keys that say nothing.
    #[default]
    Standard,
    /// It may take until others are served.
    Batch,
}

impl Priority {
    /// All, the highest first.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Standard, Self::Batch];

    /// Name in key files, request fields and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Standard => "standard",
            Self::Batch => "batch",
        }
    }

    /// The class of this name, in any case.
    #[must_use]
    pub fn of_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|class| name.eq_ignore_ascii_case(class.name().as_bytes()))
    }
}
