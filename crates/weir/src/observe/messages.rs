//! The gateway's messages on standard error, written by a thread of their own: whoever has something to say must neither wait for who reads it nor
//! fail because nobody does.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait while nobody reads; later ones are dropped, and counted.
const WAITING: usize = 1024;

/// How long the end of the process waits for lines that were not written yet.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

enum Message {
    Text(Vec<u8>),
    /// Everything before it was written, or could not be.
    Written(SyncSender<()>),
}

/// Where messages go.
#[derive(Debug, Clone)]
pub struct Messages {
    to_thread: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Messages {
    /// Starts the thread, and sends the events of `tracing` there.
    pub fn start() -> Self {
        let messages = Messages::to(io::stderr());
        // What cannot be written is no reason for another message.
        tracing_subscriber::fmt().with_writer(messages.clone()).with_ansi(false).log_internal_errors(false).init();
        messages
    }

    fn to(sink: impl Write + Send + 'static) -> Self {
        let (to_thread, messages) = sync_channel(WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let counted = dropped.clone();
        // Without a thread nothing is written; the gateway can serve all the same.
        let _ = std::thread::Builder::new().name("messages".into()).spawn(move || run(sink, &messages, &counted));
        Messages { to_thread, dropped }
    }

    /// Writes a line.
    pub fn say(&self, text: &str) {
        self.send(format!("{text}\n").into_bytes());
    }

    fn send(&self, text: Vec<u8>) {
        if let Err(TrySendError::Full(_)) = self.to_thread.try_send(Message::Text(text)) {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Waits until everything was written, for a second at most: whoever reads may have stopped.
    pub fn finish(&self) {
        let (done, written) = sync_channel(1);
        if self.to_thread.try_send(Message::Written(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn run(mut sink: impl Write, messages: &Receiver<Message>, dropped: &AtomicU64) {
    // A reader that has ended, or a full disk, costs the message and nothing else.
    let mut write = |text: &[u8]| drop(sink.write_all(text));
    while let Ok(message) = messages.recv() {
        match message {
            Message::Text(text) => write(&text),
            Message::Written(done) => drop(done.try_send(())),
        }
        let count = dropped.swap(0, Relaxed);
        if count > 0 {
            write(format!("weir: {count} messages were dropped, as nobody read those before them\n").as_bytes());
        }
    }
}

impl MakeWriter<'_> for Messages {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// An event of `tracing` comes in one piece.
impl Write for Messages {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.send(text.to_vec());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    #[derive(Default)]
    struct Captured {
        is_open: bool,
        text: Vec<u8>,
    }

    /// Takes nothing until it is opened.
    #[derive(Clone, Default)]
    struct Gate(Arc<(Mutex<Captured>, Condvar)>);

    impl Gate {
        fn open(&self) {
            self.0.0.lock().unwrap().is_open = true;
            self.0.1.notify_all();
        }
    }

    impl Write for Gate {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let mut taken = self.0.1.wait_while(self.0.0.lock().unwrap(), |taken| !taken.is_open).unwrap();
            taken.text.extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_reads_late_gets_the_first_lines_and_the_count_of_the_others() {
        let gate = Gate::default();
        let messages = Messages::to(gate.clone());
        for number in 0..2 * WAITING {
            messages.say(&number.to_string());
        }
        gate.open();
        // The queue may still be full.
        testkit::wait::until(testkit::DEADLINE, "the count of what was dropped", || {
            messages.finish();
            String::from_utf8_lossy(&gate.0.0.lock().unwrap().text).contains("dropped")
        });
        let text = String::from_utf8(gate.0.0.lock().unwrap().text.clone()).unwrap();
        let numbers: Vec<usize> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let dropped: usize =
            text.lines().filter_map(|line| line.strip_prefix("weir: ")?.split(' ').next()?.parse::<usize>().ok()).sum();
        assert_eq!(numbers.len() + dropped, 2 * WAITING, "{text}");
        // The thread may take a line, and so make room for one more, at any moment.
        assert!(numbers.is_sorted(), "{text}");
        assert_eq!(numbers[..WAITING], (0..WAITING).collect::<Vec<_>>());
    }

    #[test]
    fn a_sink_that_fails_costs_nothing_but_the_message() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let messages = Messages::to(Broken);
        for _ in 0..10 {
            messages.say("nobody hears it");
            messages.finish();
        }
        assert_eq!(messages.dropped.load(Relaxed), 0);
    }
}
