//! Where lines end up: standard output, a file or syslog, with every way that writing can fail.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Stats;
use super::syslog::Syslog;
use crate::config::AccessLogTarget;

/// Errors are logged at most so often: a full disk fails every write.
const SILENCE: Duration = Duration::from_secs(60);
/// Pause before a descriptor that takes nothing now is tried again. Somebody made our standard output non-blocking: a
/// shell, a terminal, a supervisor.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Sink {
    out: Out,
    /// Path that [`Sink::reopen`] opens; standard output has none.
    path: Option<PathBuf>,
    stats: Arc<Stats>,
    logged: Option<Instant>,
}

enum Out {
    File {
        file: File,
        /// The last write ended within a line: the next one starts a new line first.
        broken: bool,
    },
    Syslog(Syslog),
}

impl Sink {
    pub(super) fn open(to: &AccessLogTarget, stats: Arc<Stats>) -> io::Result<Sink> {
        let file = |file| Out::File { file, broken: false };
        let (out, path) = match to {
            // Not `io::stdout()` itself: it would look for line ends and lock for every write.
            AccessLogTarget::Stdout => (file(File::from(io::stdout().as_fd().try_clone_to_owned()?)), None),
            AccessLogTarget::File(path) => (file(append(path)?), Some(path.clone())),
            AccessLogTarget::Syslog(path) => (Out::Syslog(Syslog::open(path)?), Some(path.clone())),
        };
        Ok(Sink { out, path, stats, logged: None })
    }

    /// Opens the file again by its name; keeps the old one when that fails.
    pub(super) fn reopen(&mut self) {
        let Some(path) = &self.path else { return };
        let reopened = match &mut self.out {
            Out::File { file, broken } => append(path).map(|new| (*file, *broken) = (new, false)),
            Out::Syslog(syslog) => syslog.reopen(),
        };
        if let Err(error) = reopened {
            self.failed("cannot be reopened, the old file stays in use", &error);
        }
    }

    /// Writes `lines` lines. On an error the rest of them is given up: the next buffer may fare better, and the writers
    /// must not wait.
    pub(super) fn write(&mut self, text: &[u8], lines: u64) {
        let result = match &mut self.out {
            Out::File { file, broken } => write_lines(file, broken, text),
            Out::Syslog(syslog) => syslog.write_lines(text),
        };
        let written = match result {
            Ok(()) => lines,
            Err((done, error)) => {
                self.failed("cannot be written, lines are lost", &error);
                memchr::memchr_iter(b'\n', &text[..done]).count() as u64
            }
        };
        self.stats.written.fetch_add(written, Relaxed);
        self.stats.dropped_error.fetch_add(lines - written, Relaxed);
    }

    fn failed(&mut self, what: &str, error: &io::Error) {
        self.stats.errors.fetch_add(1, Relaxed);
        if self.logged.is_none_or(|at| at.elapsed() >= SILENCE) {
            self.logged = Some(Instant::now());
            let path = self.path.as_deref().unwrap_or(std::path::Path::new("stdout"));
            tracing::error!("access log {} {what}: {error}", path.display());
        }
    }
}

/// Without `O_NONBLOCK` the open of a FIFO that no process reads would never return, and the gateway never start. Files do not heed it, and
/// writes to a full FIFO are tried again.
fn append(path: &PathBuf) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options().create(true).append(true).custom_flags(flags).open(path);
    opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::new(error.kind(), "no process reads this FIFO; start its reader first"),
        _ => error,
    })
}

/// Writes whole lines, behind a line feed when `broken` says that the file ends within one. On an error says how many
/// bytes of the text were written before.
fn write_lines(file: &mut impl Write, broken: &mut bool, text: &[u8]) -> Result<(), (usize, io::Error)> {
    if *broken {
        write_some(file, b"\n").map_err(|error| (0, error))?;
        *broken = false;
    }
    let mut done = 0;
    while done < text.len() {
        match write_some(file, &text[done..]) {
            Ok(n) => done += n,
            Err(error) => {
                *broken = done > 0 && text[done - 1] != b'\n';
                return Err((done, error));
            }
        }
    }
    Ok(())
}

/// One write that makes progress.
fn write_some(file: &mut impl Write, text: &[u8]) -> io::Result<usize> {
    loop {
        match file.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes and is full then.
    struct Disk {
        room: usize,
        held: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let n = text.len().min(self.room).min(3);
            self.held.extend_from_slice(&text[..n]);
            self.room -= n;
            if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_cut_by_a_full_disk_is_ended_before_the_next_one() {
        let (mut disk, mut broken) = (Disk { room: 8, held: vec![] }, false);
        let (done, error) = write_lines(&mut disk, &mut broken, b"one\ntwo two\n").unwrap_err();
        assert_eq!((done, error.kind(), broken), (8, io::ErrorKind::StorageFull, true));
        assert_eq!(write_lines(&mut disk, &mut broken, b"lost\n").unwrap_err().0, 0);
        assert!(broken);
        disk.room = 100;
        write_lines(&mut disk, &mut broken, b"three\n").unwrap();
        assert_eq!(disk.held, b"one\ntwo \nthree\n");
        assert!(!broken);
    }

    #[test]
    fn a_disk_that_fills_up_between_two_lines_leaves_no_empty_line() {
        let (mut disk, mut broken) = (Disk { room: 4, held: vec![] }, false);
        assert_eq!(write_lines(&mut disk, &mut broken, b"one\ntwo\n").unwrap_err().0, 4);
        disk.room = 100;
        write_lines(&mut disk, &mut broken, b"three\n").unwrap();
        assert_eq!(disk.held, b"one\nthree\n");
    }
}
