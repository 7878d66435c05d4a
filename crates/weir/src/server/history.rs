//! What became of the last reloads, for the console: a file that was refused is not seen anywhere else but in the log.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::admin::{ReloadError, ReloadEvent, Reloaded};
use crate::observe::clock::unix_ms;
use crate::runtime::lock::lock;

/// Reloads that are kept.
const EVENTS: usize = 20;

/// The newest first.
#[derive(Default)]
pub struct History(Mutex<VecDeque<ReloadEvent>>);

impl History {
    /// Adds what came of a reload.
    pub fn add(&self, why: &str, result: &Result<Reloaded, ReloadError>) {
        let (error, changes) = match result {
            Ok(reloaded) => (None, reloaded.changes.clone()),
            Err(error) => (Some(error.to_string()), Vec::new()),
        };
        let mut events = lock(&self.0);
        events.truncate(EVENTS - 1);
        events.push_front(ReloadEvent { at_ms: unix_ms(SystemTime::now()), why: why.to_owned(), error, changes });
    }

    /// All of them.
    pub fn events(&self) -> Vec<ReloadEvent> {
        lock(&self.0).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let history = History::default();
        for number in 0..30 {
            let result = match number % 2 {
                0 => Ok(Reloaded { changes: vec![format!("route {number} added")] }),
                _ => Err(ReloadError::Invalid(format!("weir.yaml:{number}"))),
            };
            history.add("test", &result);
        }
        let events = history.events();
        assert_eq!(events.len(), EVENTS);
        assert_eq!(events[0].error.as_deref(), Some("weir.yaml:29"));
        assert_eq!((&*events[19].changes[0], &events[19].error), ("route 10 added", &None));
    }
}
