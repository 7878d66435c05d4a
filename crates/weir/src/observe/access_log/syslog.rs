//! Lines as messages of syslog (RFC 3164, the form that services on a local socket read), one datagram each.

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Facility `daemon` (3), severity `informational` (6).
const PRIORITY: u8 = 3 << 3 | 6;
/// How long the service may take to accept a line.
const LONGEST: Duration = Duration::from_secs(1);

/// A socket that a syslog service reads.
pub(super) struct Syslog {
    path: PathBuf,
    socket: UnixDatagram,
    message: Vec<u8>,
    /// Bytes of `message` before the line.
    head: usize,
}

impl Syslog {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut message = Vec::new();
        write!(message, "<{PRIORITY}>weir[{}]: ", std::process::id())?;
        let (head, socket) = (message.len(), connect(path)?);
        Ok(Syslog { path: path.to_owned(), socket, message, head })
    }

    /// Connects again: the service has a new socket after it was restarted.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.socket = connect(&self.path)?;
        Ok(())
    }

    /// Sends each line of the text. On an error says how many bytes of it were sent before; the rest is given up.
    pub(super) fn write_lines(&mut self, text: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut done = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            self.message.truncate(self.head);
            self.message.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            self.send().map_err(|error| (done, error))?;
            done += line.len();
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        match self.socket.send(&self.message) {
            Ok(_) => Ok(()),
            // The service was restarted: once more, on its new socket.
            Err(error) if is_disconnected(&error) => {
                self.reopen()?;
                self.socket.send(&self.message).map(drop)
            }
            Err(error) => Err(error),
        }
    }
}

fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let socket = UnixDatagram::unbound()?;
    socket.connect(path).map_err(named)?;
    // A service that does not read must not keep the log's thread: it has other things to do, such as to open the socket of another one.
    socket.set_write_timeout(Some(LONGEST))?;
    Ok(socket)
}

fn is_disconnected(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset | NotConnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("a message");
        String::from_utf8(buffer[..length].to_vec()).expect("UTF-8")
    }

    #[test]
    fn each_line_is_a_message_also_after_the_service_was_restarted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let service = UnixDatagram::bind(&path).expect("a socket");
        let mut syslog = Syslog::open(&path).expect("a connection");
        syslog.write_lines(b"{\"a\":1}\nsecond\n").expect("sent");
        let head = format!("<30>weir[{}]: ", std::process::id());
        assert_eq!(received(&service), format!("{head}{{\"a\":1}}"));
        assert_eq!(received(&service), format!("{head}second"));

        drop(service);
        std::fs::remove_file(&path).expect("its file");
        let (done, error) = syslog.write_lines(b"lost\n").expect_err("nobody reads it");
        assert_eq!((done, error.kind()), (0, io::ErrorKind::NotFound));
        let service = UnixDatagram::bind(&path).expect("a socket");
        syslog.write_lines(b"third\n").expect("sent");
        assert_eq!(received(&service), format!("{head}third"));
    }
}
