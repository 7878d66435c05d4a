//! What workers need whatever they serve: the clock of the event loop, deadlines, wake-ups, locks.

pub mod clock;
pub mod deadline;
pub mod fingerprint;
pub mod hash;
pub mod lock;
pub mod seldom;
pub mod wakeups;
