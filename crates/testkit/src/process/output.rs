//! What a child has printed.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A load test with an access log on stdout must not fill the memory.
const KEPT_LINES: usize = 100_000;

/// A place in the output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

impl Mark {
    /// The beginning of the output.
    pub const START: Self = Self(0);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Output {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<(Stream, String)>,
    /// Lines that were dropped in front of `kept`.
    dropped: usize,
    /// Streams that are still open.
    open: usize,
}

impl Lines {
    fn end(&self) -> usize {
        self.dropped + self.kept.len()
    }
}

impl Output {
    pub(super) fn read(stdout: Option<ChildStdout>, stderr: Option<ChildStderr>) -> Self {
        let output = Self::default();
        output.lock().open = usize::from(stdout.is_some()) + usize::from(stderr.is_some());
        if let Some(stdout) = stdout {
            output.follow(Stream::Stdout, stdout);
        }
        if let Some(stderr) = stderr {
            output.follow(Stream::Stderr, stderr);
        }
        output
    }

    fn follow(&self, stream: Stream, pipe: impl Read + Send + 'static) {
        let output = self.clone();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while matches!(pipe.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                line.clear();
                let mut lines = output.lock();
                lines.kept.push_back((stream, text));
                if lines.kept.len() > KEPT_LINES {
                    lines.kept.pop_front();
                    lines.dropped += 1;
                }
                output.shared.news.notify_all();
            }
            output.lock().open -= 1;
            output.shared.news.notify_all();
        });
    }

    /// The first value that `find` makes of a line from `mark` on, and the place behind the last line that was looked at.
    pub(super) fn find_from<T>(&self, mark: Mark, find: &mut impl FnMut(&str) -> Option<T>) -> (Option<T>, Mark) {
        let lines = self.lock();
        let found = lines.kept.iter().skip(mark.0.saturating_sub(lines.dropped)).find_map(|(_, text)| find(text));
        (found, Mark(lines.end()))
    }

    /// Returns when there is a line behind `mark`, when a stream was closed, or after `timeout`.
    pub(super) fn wait_for_news(&self, mark: Mark, timeout: Duration) {
        let lines = self.lock();
        if lines.end() <= mark.0 {
            drop(self.shared.news.wait_timeout(lines, timeout));
        }
    }

    /// Both streams have ended: every line is here.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().open == 0
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.lock().end())
    }

    pub(super) fn lines_after(&self, mark: Mark, only: Option<Stream>) -> Vec<String> {
        let lines = self.lock();
        let wanted = lines.kept.iter().skip(mark.0.saturating_sub(lines.dropped));
        wanted.filter(|(stream, _)| only.is_none_or(|only| only == *stream)).map(|(_, text)| text.clone()).collect()
    }

    pub(super) fn tail(&self, count: usize) -> String {
        let lines = self.lock();
        let skipped = lines.kept.len().saturating_sub(count);
        let tail: Vec<&str> = lines.kept.iter().skip(skipped).map(|(_, text)| text.as_str()).collect();
        tail.join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
