//! What a campaign compares: the one place that decides which noun reports use.

use serde::{Deserialize, Serialize};

use super::{Results, Role};

/// What is compared with each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Gateways in front of the same upstreams.
    #[default]
    Gateways,
    /// Services under test.
    Services,
    /// Both.
    Systems,
}

impl Subject {
    /// Of one of them: `gateway`.
    pub fn one(self) -> &'static str {
        match self {
            Subject::Gateways => "gateway",
            Subject::Services => "service",
            Subject::Systems => "system",
        }
    }

    /// Of several: `gateways`.
    pub fn many(self) -> &'static str {
        match self {
            Subject::Gateways => "gateways",
            Subject::Services => "services",
            Subject::Systems => "systems",
        }
    }
}

impl Subject {
    /// By whether there are gateways, and services.
    pub fn of(gateways: bool, services: bool) -> Self {
        match (gateways, services) {
            (true, true) => Subject::Systems,
            (false, true) => Subject::Services,
            (_, false) => Subject::Gateways,
        }
    }

    /// What it means that one of them does not conform.
    pub fn not_conforming(self) -> &'static str {
        match self {
            Subject::Gateways => "its responses are not those of the upstream",
            Subject::Services | Subject::Systems => "it does not do what is required of it",
        }
    }
}

impl Results {
    /// What the campaign compares.
    pub fn subject(&self) -> Subject {
        let has = |role: Role| self.systems.iter().any(|system| system.role == role);
        Subject::of(has(Role::Gateway), has(Role::Service))
    }

    /// The baseline, which has no gateway; none among services.
    pub fn baseline(&self) -> Option<&str> {
        self.systems.iter().find(|system| system.role == Role::Direct).map(|system| system.name.as_str())
    }
}
