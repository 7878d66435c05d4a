//! The access log: one line per request, written by a thread of its own.
//!
//! A worker renders lines into its [`Writer`]'s buffer and hands the buffer over when it holds 64 KiB or is a second
//! old; the thread writes it and gives it back. A worker has four buffers and never waits: when all are with the
//! thread, because the disk or the reader of a pipe is slow, lines are dropped and counted. Errors of writing (a full
//! disk) are counted, logged once a minute, and never stop the gateway; what could not be written is lost, and counted
//! as that.
//!
//! No memory is allocated per line, nor per buffer once the four are there.

mod combined;
mod form;
mod json;
mod line;
mod recent;
mod sink;
mod syslog;
mod template;
mod why;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

pub use line::{Call, Line};
pub use recent::{Notes, Recent};

use super::clock::{Rfc3339, unix_ms};
use super::metrics::{Exposition, Metrics};
use crate::config;

/// A buffer that holds this much is handed over.
const FULL: usize = 64 * 1024;
/// Age of its first line, in milliseconds, at which a buffer is handed over.
const OLD: u64 = 1000;
/// Buffers of one worker: one being filled, the others on their way to the file or back.
const BUFFERS: usize = 4;
/// Buffers that may wait for the thread, of all workers together.
const WAITING: usize = 1024;

/// Counts of the access log over the life of the process, whatever the configuration says in between.
#[derive(Debug, Default)]
pub(super) struct Stats {
    written: AtomicU64,
    /// All buffers of a worker were waiting.
    dropped_queue: AtomicU64,
    /// Writing failed.
    dropped_error: AtomicU64,
    errors: AtomicU64,
}

impl Stats {
    pub(super) fn collect(&self, out: &mut Exposition<'_>) -> std::fmt::Result {
        out.counter("access_log_lines", "Access log lines written", |s| s.add(&[], self.written.load(Relaxed)))?;
        out.counter("access_log_dropped_lines", "Access log lines lost: writer too slow, or writing failed", |s| {
            s.add(&[("reason", "queue_full")], self.dropped_queue.load(Relaxed))?;
            s.add(&[("reason", "write_error")], self.dropped_error.load(Relaxed))
        })?;
        out.counter(
            "access_log_write_errors",
            "Failed writes to the access log, and failed attempts to reopen it",
            |s| s.add(&[], self.errors.load(Relaxed)),
        )
    }
}

/// What the workers and the control thread share with the thread that writes.
#[derive(Debug, Default)]
struct Shared {
    stats: Arc<Stats>,
    /// Set to have the file opened again.
    reopen: AtomicBool,
    /// Set to have the thread end.
    close: AtomicBool,
}

enum Message {
    /// A buffer to write and give back.
    Buffer { text: Vec<u8>, lines: u64, back: SyncSender<Vec<u8>> },
    /// Look at the flags.
    Wake,
}

/// An open access log.
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<Shared>,
    to_thread: SyncSender<Message>,
    ended: Mutex<Receiver<()>>,
    sample: f64,
    format: config::LogFormat,
    fields: config::LogFields,
    only: Option<Arc<config::LogOnly>>,
}

impl AccessLog {
    /// Opens the log and starts its thread.
    ///
    /// # Errors
    /// When the file cannot be opened for appending, or no thread can be started.
    pub fn start(config: &config::AccessLog, metrics: &Metrics) -> io::Result<AccessLog> {
        let shared = Arc::new(Shared { stats: metrics.access_log().clone(), ..Shared::default() });
        let sink = sink::Sink::open(&config.to, shared.stats.clone())?;
        let (to_thread, messages) = sync_channel(WAITING);
        // Nothing is ever sent: that the sender has been dropped is the news.
        let (ending, ended) = sync_channel::<()>(1);
        let thread_shared = shared.clone();
        std::thread::Builder::new().name("access-log".into()).spawn(move || {
            run(sink, &messages, &thread_shared);
            drop(ending);
        })?;
        Ok(AccessLog {
            shared,
            to_thread,
            ended: Mutex::new(ended),
            sample: config.sample,
            format: config.format.clone(),
            fields: config.fields.clone(),
            only: config.only.clone().map(Arc::new),
        })
    }

    /// The writer of one worker.
    pub fn worker(&self) -> Writer {
        let (give_back, returned) = sync_channel(BUFFERS);
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Writer {
            shared: self.shared.clone(),
            to_thread: self.to_thread.clone(),
            give_back,
            returned,
            made: 0,
            buffer: Vec::new(),
            lines: 0,
            oldest_ms: 0,
            clock: Rfc3339::default(),
            sample: Sample::new(self.sample, seed),
            format: self.format.clone(),
            fields: self.fields.clone(),
            template: template::Fields::default(),
            only: self.only.clone(),
        }
    }

    /// Opens the file again, for log rotation by rename. Lines handed over before may still go to the old file. When it
    /// cannot be opened, the old one stays in use, and the error is counted and logged.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Relaxed);
        // A full queue means that the thread is busy; it looks at the flag after every buffer.
        let _ = self.to_thread.try_send(Message::Wake);
    }

    /// Writes out what was handed over and ends the thread; called after every [`Writer`] was flushed or dropped. False
    /// when that took longer than `timeout`, because the disk or the reader of a pipe does not take it.
    pub fn close(&self, timeout: Duration) -> bool {
        self.shared.close.store(true, Relaxed);
        let _ = self.to_thread.try_send(Message::Wake);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(ended.recv_timeout(timeout), Err(std::sync::mpsc::RecvTimeoutError::Disconnected))
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.shared.close.store(true, Relaxed);
        let _ = self.to_thread.try_send(Message::Wake);
    }
}

/// The thread: writes what it is handed until it is told to end and nothing waits any more.
fn run(mut sink: sink::Sink, messages: &Receiver<Message>, shared: &Shared) {
    let mut handle = |message| {
        if let Message::Buffer { mut text, lines, back } = message {
            sink.write(&text, lines);
            text.clear();
            // A worker that ended needs no buffer.
            let _ = back.try_send(text);
        }
        if shared.reopen.swap(false, Relaxed) {
            sink.reopen();
        }
    };
    while let Ok(message) = messages.recv() {
        handle(message);
        if shared.close.load(Relaxed) {
            messages.try_iter().for_each(&mut handle);
            return;
        }
    }
}

/// Chooses the share of requests that is logged, at random and without a clock or a lock (xorshift64*, Vigna 2016).
#[derive(Debug)]
struct Sample {
    /// A draw below this is logged; `None` logs all.
    below: Option<u64>,
    state: u64,
}

impl Sample {
    fn new(share: f64, seed: u64) -> Sample {
        // A float that is too large for the type becomes its largest value, a negative one 0.
        let below = (share < 1.0).then_some((share * u64::MAX as f64) as u64);
        Sample { below, state: seed | 1 }
    }

    fn draw(&mut self) -> bool {
        let Some(below) = self.below else { return true };
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) < below
    }
}

/// A worker's end of the access log.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    to_thread: SyncSender<Message>,
    give_back: SyncSender<Vec<u8>>,
    returned: Receiver<Vec<u8>>,
    /// Buffers made so far, the present one included once it has memory.
    made: usize,
    buffer: Vec<u8>,
    /// Lines in the buffer.
    lines: u64,
    /// Time of the first of them.
    oldest_ms: u64,
    clock: Rfc3339,
    sample: Sample,
    format: config::LogFormat,
    fields: config::LogFields,
    /// Memory for lines by a template.
    template: template::Fields,
    only: Option<Arc<config::LogOnly>>,
}

impl Writer {
    /// Whether a request with this status, that of its gRPC call, and this duration in nanoseconds is to be logged: called once per request, before a [`Line`] is put together.
    pub fn wants(&mut self, status: u16, grpc_status: Option<u8>, duration_ns: u64) -> bool {
        self.only.as_ref().is_none_or(|only| only.takes(status, grpc_status, duration_ns)) && self.sample.draw()
    }

    /// Appends a line. Never blocks; drops the line, and counts that, when the thread is so far behind that no buffer
    /// is left.
    pub fn line(&mut self, line: &Line<'_>) {
        if self.buffer.len() >= FULL && !self.hand_over() {
            self.shared.stats.dropped_queue.fetch_add(1, Relaxed);
            return;
        }
        if self.made == 0 {
            self.made = 1;
            self.buffer = new_buffer();
        }
        if self.lines == 0 {
            self.oldest_ms = line.time_ms;
        }
        line.render(&mut self.buffer, &mut self.clock, (&self.format, &self.fields), &mut self.template);
        self.lines += 1;
        if self.buffer.len() >= FULL {
            self.hand_over();
        } else {
            self.flush_if_old(line.time_ms);
        }
    }

    /// Hands the buffer over when its first line is a second old. A worker calls this about once a second, so that
    /// lines do not wait for the next request.
    pub fn flush_old(&mut self) {
        if self.lines > 0 {
            self.flush_if_old(unix_ms(SystemTime::now()));
        }
    }

    fn flush_if_old(&mut self, now_ms: u64) {
        // The clock may have been set back, hence the distance and not the difference.
        if self.lines > 0 && now_ms.abs_diff(self.oldest_ms) >= OLD {
            self.hand_over();
        }
    }

    /// Hands over what is there, if a buffer is free to go on with.
    pub fn flush(&mut self) {
        self.hand_over();
    }

    /// False when the buffer stays, because there is no other or the thread takes no more.
    fn hand_over(&mut self) -> bool {
        if self.lines == 0 {
            return true;
        }
        let fresh = match self.returned.try_recv() {
            Ok(fresh) => fresh,
            Err(_) if self.made < BUFFERS => {
                self.made += 1;
                new_buffer()
            }
            Err(_) => return false,
        };
        let text = std::mem::replace(&mut self.buffer, fresh);
        let message = Message::Buffer { text, lines: self.lines, back: self.give_back.clone() };
        match self.to_thread.try_send(message) {
            Ok(()) => {
                self.lines = 0;
                true
            }
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => {
                if let Message::Buffer { text, .. } = message {
                    let unused = std::mem::replace(&mut self.buffer, text);
                    let _ = self.give_back.try_send(unused);
                }
                false
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A last buffer may go even if none comes back.
        self.made = 0;
        if !self.hand_over() {
            self.shared.stats.dropped_queue.fetch_add(self.lines, Relaxed);
        }
    }
}

/// Room for a full buffer and the longest line after it, so that it never grows.
fn new_buffer() -> Vec<u8> {
    Vec::with_capacity(FULL + line::LONGEST)
}

#[cfg(test)]
mod tests;
