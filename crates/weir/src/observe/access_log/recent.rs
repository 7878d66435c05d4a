//! The last requests that were not served, as their lines of the access log, for the console. Whether there is an access log does not matter.
//!
//! Each fault has its own, so that clients that cause errors do not push out those of upstreams; and each worker notes a few per second only, so
//! that a flood of errors costs no more than that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::form::Json;
use super::line::{LONGEST, Line};
use crate::config::FieldSet;
use crate::error::Fault;
use crate::observe::clock::Rfc3339;

/// Lines of each fault.
const LINES: usize = 100;
/// Bytes of each fault: lines may be long on purpose.
const BYTES: usize = 256 * 1024;
/// Lines of each fault that a worker notes within a second.
const PER_SECOND: u32 = 10;

/// All workers' failures.
#[derive(Debug, Default)]
pub struct Recent([Mutex<Lines>; Fault::ALL.len()]);

/// Memory that is there from the start: a request that is refused allocates nothing.
#[derive(Debug)]
struct Lines {
    /// The oldest first, each with its line feed.
    text: VecDeque<u8>,
    count: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Lines { text: VecDeque::with_capacity(BYTES), count: 0 }
    }
}

impl Recent {
    /// The notes of one worker.
    pub fn worker(self: &Arc<Self>) -> Notes {
        Notes {
            recent: self.clone(),
            second: 0,
            left: [PER_SECOND; Fault::ALL.len()],
            text: Vec::with_capacity(LONGEST),
            clock: Rfc3339::default(),
        }
    }

    /// JSON objects, those of each fault in the order in which they were noted.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        let texts = self.0.iter().map(|of_fault| {
            let held = lock(of_fault);
            let (first, rest) = held.text.as_slices();
            [first, rest].concat()
        });
        let lines = |text: Vec<u8>| text.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
        texts.flat_map(lines).collect()
    }

    fn push(&self, fault: Fault, line: &[u8]) {
        let mut held = lock(&self.0[fault as usize]);
        while held.count == LINES || held.text.len() + line.len() > BYTES {
            let Some(end) = held.text.iter().position(|&byte| byte == b'\n') else { return };
            held.text.drain(..=end);
            held.count -= 1;
        }
        held.text.extend(line);
        held.count += 1;
    }
}

fn lock(lines: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker's end.
#[derive(Debug)]
pub struct Notes {
    recent: Arc<Recent>,
    second: u64,
    /// What may still be noted within it.
    left: [u32; Fault::ALL.len()],
    text: Vec<u8>,
    clock: Rfc3339,
}

impl Notes {
    /// Whether a failure at this time of the process's clock is to be noted: called once per failure, before a [`Line`] is put together.
    pub fn wants(&mut self, fault: Fault, now_ns: u64) -> bool {
        let second = now_ns / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.left = [PER_SECOND; Fault::ALL.len()];
        }
        let left = &mut self.left[fault as usize];
        let wants = *left > 0;
        *left -= u32::from(wants);
        wants
    }

    /// Notes a failure.
    pub fn note(&mut self, fault: Fault, line: &Line<'_>) {
        self.text.clear();
        line.fields::<Json>(&mut self.text, &mut self.clock, FieldSet::default(), &[]);
        self.recent.push(fault, &self.text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::error::Reason;

    fn line(path: &[u8]) -> Line<'_> {
        Line { path, error: Some(Reason::ConnectFailed.into()), status: 502, ..Line::default() }
    }

    #[test]
    fn the_newest_failures_of_each_fault_are_kept() {
        let recent = Arc::new(Recent::default());
        let mut notes = recent.worker();
        notes.note(Fault::Gateway, &line(b"/gateway"));
        (0..300).for_each(|number| notes.note(Fault::Upstream, &line(format!("/{number}?x").as_bytes())));
        let paths: Vec<String> = recent
            .lines()
            .iter()
            .map(|line| serde_json::from_slice::<Value>(line).expect("JSON")["path"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(paths.len(), 101);
        assert!(paths.contains(&"/gateway".to_owned()) && paths.contains(&"/299?x".to_owned()));
        assert!(!paths.contains(&"/199?x".to_owned()));
    }

    #[test]
    fn lines_that_are_long_on_purpose_do_not_take_more_memory() {
        let recent = Arc::new(Recent::default());
        let mut notes = recent.worker();
        let long = [1; 4096];
        (0..200).for_each(|_| notes.note(Fault::Client, &line(&long)));
        let bytes: usize = recent.lines().iter().map(|line| line.len()).sum();
        assert!(bytes <= BYTES && !recent.lines().is_empty(), "{bytes}");
    }

    #[test]
    fn a_worker_notes_some_of_each_fault_every_second() {
        let mut notes = Arc::new(Recent::default()).worker();
        let mut noted = |fault, second: u64| (0..1000).filter(|_| notes.wants(fault, second * 1_000_000_000)).count();
        assert_eq!(noted(Fault::Client, 0), 10, "the clock begins at 0");
        assert_eq!(noted(Fault::Client, 7), 10);
        assert_eq!(noted(Fault::Client, 7), 0);
        assert_eq!(noted(Fault::Upstream, 7), 10);
        assert_eq!(noted(Fault::Client, 8), 10);
    }
}
