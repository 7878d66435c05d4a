//! The abuse budget: all that costs the gateway more than the peer is paid from it, and honest work refunds it.

/// What is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// Stream refused above the limit.
    Refused,
    /// Stream reset by the peer before its response head (CVE-2023-44487).
    ClientReset,
    /// Reset that the peer forces (CVE-2025-8671).
    ForcedReset,
    /// SETTINGS after the first two.
    Settings,
    /// PING within a second of the last, with nothing of a message sent in between.
    Ping,
    /// PRIORITY above 100 and the number of streams.
    Priority,
    /// Empty DATA without END_STREAM.
    EmptyData,
    /// Frame of an unknown type.
    UnknownFrame,
    /// WINDOW_UPDATE above ten per DATA frame sent.
    WindowUpdate,
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = 9;

    /// All kinds.
    pub const ALL: [Kind; Self::COUNT] = [
        Kind::Refused,
        Kind::ClientReset,
        Kind::ForcedReset,
        Kind::Settings,
        Kind::Ping,
        Kind::Priority,
        Kind::EmptyData,
        Kind::UnknownFrame,
        Kind::WindowUpdate,
    ];

    /// Name in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Refused => "refused_stream",
            Kind::ClientReset => "client_reset",
            Kind::ForcedReset => "forced_reset",
            Kind::Settings => "settings",
            Kind::Ping => "ping",
            Kind::Priority => "priority",
            Kind::EmptyData => "empty_data",
            Kind::UnknownFrame => "unknown_frame",
            Kind::WindowUpdate => "window_update",
        }
    }

    fn cost(self) -> i64 {
        match self {
            Kind::Refused | Kind::ForcedReset => 2,
            Kind::Settings => 5,
            _ => 1,
        }
    }
}

/// What is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Good,
    /// Time to part in peace.
    Low,
    Exhausted,
}

/// Points of one connection, with a counter per kind.
#[derive(Debug, Clone)]
pub struct Budget {
    points: i64,
    refilled_ms: u64,
    counts: [u64; Kind::COUNT],
}

impl Budget {
    /// Points at the start, and most that there can be.
    pub const FULL: i64 = 200;
    /// Points at which a graceful GOAWAY is sent.
    pub const LOW: i64 = 50;

    pub(crate) fn new(now_ms: u64) -> Self {
        Budget { points: Self::FULL, refilled_ms: now_ms, counts: [0; Kind::COUNT] }
    }

    pub(crate) fn spend(&mut self, kind: Kind, now_ms: u64) -> Level {
        let seconds = now_ms.saturating_sub(self.refilled_ms) / 1000;
        self.refilled_ms += seconds * 1000;
        self.points = (self.points + seconds.min(Self::FULL as u64) as i64).min(Self::FULL) - kind.cost();
        self.counts[kind as usize] += 1;
        match self.points {
            ..=0 => Level::Exhausted,
            1..=Self::LOW => Level::Low,
            _ => Level::Good,
        }
    }

    /// A response below 400 was sent, or received from an upstream.
    pub(crate) fn refund(&mut self) {
        self.points = (self.points + 1).min(Self::FULL);
    }

    /// Points left.
    pub fn points(&self) -> i64 {
        self.points
    }

    /// How often a kind was paid for.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }
}
