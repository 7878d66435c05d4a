//! Take-over: a newly started process receives the listening sockets of the running one, which then drains.
//!
//! The sockets themselves change hands over a Unix socket (SCM_RIGHTS): those for clients, the admin listener's, and the Unix socket
//! itself. Binding new ones beside the old and closing those would reset what waits in their queues: the kernel does not move it to
//! the other members of a SO_REUSEPORT group. Nor could the new process bind the admin address while the old one holds it.
//!
//! ```text
//!   new                                   old
//!    connect  ------------------------>
//!             <-- lines with sockets --    "listen ADDRESS COUNT\n", "unix - 1\n", "fd NAME COUNT\n", "admin ADDRESS 1\n", "control - 1\n", "end\n"
//!    all that can fail is done
//!             --- "ready\n" ---------->
//!             <-- "draining\n" --------    stops accepting
//!    begins to accept, connections in the shared queues too
//! ```
//!
//! An old process that drains already, after a signal, has closed its listeners: it gives the admin listener and the Unix socket.
//!
//! Until "draining" the old process serves as before, whatever becomes of the new one. A line of a kind that is not known is skipped, with its
//! sockets. A Unix socket knows its path itself; its file stays, and belongs to the process that serves.
//!
//! # Which of the two serves
//!
//! The take-over has happened once "draining" is in the new process' receive queue, and then only. A side that has waited for [`STEP_TIMEOUT`] closes
//! its direction of reading, after which the other side's write fails, and reads what arrived before that. So both sides always come to the same
//! result: the new process serves and the old one drains, or the old one goes on and the new one ends. An old process that gives up says "withdrawn",
//! because the end of the stream alone means that it has ended, and then the new one serves.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::inherited::Inherited;
use super::listen::Group;
use super::socket_file::SocketFile;
use crate::config::{Bind, InheritedSocket};
use crate::io::listening::ListeningSocket;

/// Most descriptors in one message; the kernel's own bound is 253.
const DESCRIPTORS: usize = 128;
/// How long either side waits for the other.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the sockets of a process are requested that ends the stream before it has given them, and the time between.
const ATTEMPTS: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(200);

/// All listening sockets of a process.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Those for clients, by address.
    pub groups: Vec<Group>,
    /// The admin listener.
    pub admin: Option<TcpListener>,
    /// The Unix socket of take-overs.
    pub control: Option<UnixListener>,
}

impl Sockets {
    /// Duplicates: the same sockets under other descriptors.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Sockets> {
        Ok(Sockets {
            groups: self.groups.iter().map(Group::try_clone).collect::<io::Result<_>>()?,
            admin: self.admin.as_ref().map(TcpListener::try_clone).transpose()?,
            control: self.control.as_ref().map(UnixListener::try_clone).transpose()?,
        })
    }
}

/// The way back to the process that gave its sockets.
pub struct OldProcess(UnixStream);

/// Requests the sockets of the process that listens on `path`. `None` when there is none, also when it ends meanwhile.
///
/// # Errors
/// When there is one and it does not keep to the protocol.
pub fn request(path: &Path) -> io::Result<Option<(Sockets, OldProcess)>> {
    let mut attempts = 1;
    loop {
        match request_once(path) {
            // It has ended, which the next attempt shows, or it could not give them.
            Err(error) if is_end(&error) && attempts < ATTEMPTS => std::thread::sleep(BETWEEN_ATTEMPTS),
            result => return result,
        }
        attempts += 1;
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn request_once(path: &Path) -> io::Result<Option<(Sockets, OldProcess)>> {
    let old = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    old.set_read_timeout(Some(STEP_TIMEOUT))?;
    old.set_write_timeout(Some(STEP_TIMEOUT))?;
    let mut sockets = Sockets::default();
    loop {
        let (line, mut descriptors) = receive(&old).map_err(|error| match is_timeout(&error) {
            true => io::Error::new(
                io::ErrorKind::TimedOut,
                "the running process did not respond within the deadline; it was left as it is",
            ),
            false => error,
        })?;
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, address, count] = words[..] else {
            if line == "end" {
                return Ok(Some((sockets, OldProcess(old))));
            }
            return Err(protocol("a kind, an address and a count"));
        };
        if count.parse() != Ok(descriptors.len()) {
            return Err(protocol("the descriptors that were announced"));
        }
        match kind {
            "listen" => {
                let bind = Bind::Tcp(address.parse().map_err(|_| protocol("an address"))?);
                let received = descriptors.into_iter().map(|socket| ListeningSocket::Tcp(socket.into()));
                match sockets.groups.iter_mut().find(|group| group.bind == bind) {
                    Some(group) => group.sockets.extend(received),
                    None => {
                        let local = bind.clone();
                        sockets.groups.push(Group { bind, local, sockets: received.collect(), file: None });
                    }
                }
            }
            "unix" => sockets.groups.push(unix(descriptors.pop().ok_or_else(|| protocol("a socket"))?.into())?),
            "fd" => {
                let which: InheritedSocket = address.parse().map_err(|_| protocol("the name of a socket"))?;
                let mut given = Inherited::default();
                given.give(&which, descriptors);
                sockets.groups.push(given.open(&which)?);
            }
            "admin" => sockets.admin = descriptors.pop().map(TcpListener::from),
            "control" => sockets.control = descriptors.pop().map(UnixListener::from),
            _ => {}
        }
    }
}

/// The listener whose socket this is.
fn unix(socket: UnixListener) -> io::Result<Group> {
    let path: Arc<Path> = match socket.local_addr()?.as_pathname() {
        Some(path) => path.into(),
        None => return Err(protocol("a socket with a path")),
    };
    let file = Some(SocketFile::of_other(path.clone()));
    let bind = Bind::Unix(path);
    Ok(Group { local: bind.clone(), bind, sockets: vec![ListeningSocket::Unix(socket)], file })
}

/// What came of a take-over, as the new process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The old process drains.
    Draining,
    /// The old process has ended.
    Ended,
    /// The old process goes on: it had waited for too long.
    Withdrawn,
    /// The old process goes on: it did not respond within the timeout.
    Silent,
}

impl OldProcess {
    /// Tells the old process that this one can serve; returns which of the two does. Blocks, for at most [`STEP_TIMEOUT`].
    pub fn ready(mut self) -> Outcome {
        // If it cannot be written, what the old process said before explains why.
        let _ = self.0.write_all(b"ready\n");
        match read_line(&mut self.0) {
            Ok(line) if line == "draining" => Outcome::Draining,
            Ok(_) => Outcome::Withdrawn,
            Err(error) if is_timeout(&error) => Outcome::Silent,
            Err(_) => Outcome::Ended,
        }
    }
}

/// Reads a short line. After the timeout nothing more can arrive, and what arrived before that is read.
fn read_line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = String::new();
    let mut closed = None;
    loop {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Err(closed.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())),
            Ok(_) if byte[0] == b'\n' => return Ok(line),
            Ok(_) if line.len() < 32 => line.push(char::from(byte[0])),
            Ok(_) => return Err(protocol("a short line")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) && closed.is_none() => {
                stream.shutdown(std::net::Shutdown::Read)?;
                closed = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Binds the Unix socket at `path`, over whatever lay there.
///
/// # Errors
/// The system's.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    // Bound under another name and moved, so that `path` leads to a listening socket at every moment.
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let _ = std::fs::remove_file(&temporary);
    let listener = UnixListener::bind(&temporary)?;
    // Only this user may take the sockets.
    std::fs::set_permissions(&temporary, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    std::fs::rename(&temporary, path)?;
    Ok(listener)
}

/// Gives the sockets to a process that requested them, and waits until it serves. Blocks, for at most [`STEP_TIMEOUT`] a step.
///
/// # Errors
/// When the other side gives up; this process then goes on as before.
pub fn give(stream: &UnixStream, sockets: &Sockets) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    stream.set_write_timeout(Some(STEP_TIMEOUT))?;
    for group in &sockets.groups {
        for some in group.sockets.chunks(DESCRIPTORS) {
            let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
            let line = match &group.bind {
                Bind::Tcp(address) => format!("listen {address} {}\n", some.len()),
                Bind::Unix(_) => format!("unix - {}\n", some.len()),
                Bind::Inherited(which) => format!("fd {which} {}\n", some.len()),
            };
            send(stream, &line, &descriptors)?;
        }
    }
    if let Some(admin) = &sockets.admin {
        send(stream, &format!("admin {} 1\n", admin.local_addr()?), &[admin.as_fd()])?;
    }
    if let Some(control) = &sockets.control {
        send(stream, "control - 1\n", &[control.as_fd()])?;
    }
    send(stream, "end\n", &[])?;
    wait_for_ready(stream)
}

/// Waits until the other process can serve; tells it when that took too long.
fn wait_for_ready(stream: &UnixStream) -> io::Result<()> {
    let mut reader = stream.try_clone()?;
    match read_line(&mut reader) {
        Ok(line) if line == "ready" => Ok(()),
        Ok(_) => Err(protocol("\"ready\"")),
        Err(error) if is_timeout(&error) => {
            let _ = reader.write_all(b"withdrawn\n");
            Err(io::Error::new(io::ErrorKind::TimedOut, "the other process was not ready within the deadline"))
        }
        Err(error) => Err(error),
    }
}

/// Confirms that this process will accept no more. Once this has returned without an error the other process serves.
///
/// # Errors
/// The other process has given up or ended; this one must go on as before.
pub fn confirm(mut stream: &UnixStream) -> io::Result<()> {
    stream.write_all(b"draining\n")
}

fn send(stream: &UnixStream, line: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    // A line is far smaller than any socket buffer: it goes out whole.
    sendmsg(stream, &[IoSlice::new(line.as_bytes())], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// One line and what came with it. Read byte by byte: descriptors belong to the first byte of their message, and a longer read could
/// run into the next one.
fn receive(stream: &UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut line = String::new();
    let mut descriptors = Vec::new();
    loop {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        match (received.bytes, byte[0]) {
            (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
            (_, b'\n') => return Ok((line, descriptors)),
            (_, byte) if line.len() < 128 => line.push(char::from(byte)),
            _ => return Err(protocol("a short line")),
        }
    }
}

fn protocol(expected: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the other process did not send {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_change_hands_and_keep_their_queue() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("takeover.sock");
        assert!(request(&path).unwrap().is_none());

        let bind = Bind::Tcp("127.0.0.1:0".parse().unwrap());
        let group = super::super::listen::open(&bind, 0, 3, &Inherited::default()).unwrap();
        let bind = group.bind.clone();
        let Bind::Tcp(address) = bind else { panic!("{bind}") };
        let file = Bind::Unix(directory.path().join("a path.sock").into());
        let unix = super::super::listen::open(&file, 0o600, 3, &Inherited::default()).unwrap();
        let admin = TcpListener::bind("127.0.0.1:0").unwrap();
        let admin_address = admin.local_addr().unwrap();
        let waiting = std::net::TcpStream::connect(address).unwrap();
        let control = listen(&path).unwrap();
        let all = Sockets { groups: vec![group, unix], admin: Some(admin), control: Some(control) };
        let old = std::thread::spawn(move || {
            let (stream, _) = all.control.as_ref().unwrap().accept().unwrap();
            give(&stream, &all.try_clone().unwrap()).unwrap();
            confirm(&stream).unwrap();
        });
        let (taken, process) = request(&path).unwrap().unwrap();
        assert_eq!(taken.admin.unwrap().local_addr().unwrap(), admin_address);
        let binds: Vec<&Bind> = taken.groups.iter().map(|group| &group.bind).collect();
        assert_eq!(binds, [&bind, &file]);
        assert!(taken.groups[1].file.as_ref().is_some_and(|file| !file.is_own()), "it is the old process' for now");
        let sockets = &taken.groups[0].sockets;
        assert_eq!(sockets.len(), 3);
        assert_eq!(process.ready(), Outcome::Draining);
        old.join().unwrap();
        let _next = UnixStream::connect(&path).unwrap();
        assert!(taken.control.unwrap().accept().is_ok(), "the next process finds this one");
        let accepted = sockets.iter().filter_map(|socket| socket.accept().ok()).count();
        assert_eq!(accepted, 1, "the connection that waited is still there");
        drop(waiting);
    }

    #[test]
    fn a_second_listener_takes_the_path_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("takeover.sock");
        let first = listen(&path).unwrap();
        let second = listen(&path).unwrap();
        second.set_nonblocking(true).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        assert!(second.accept().is_ok());
        drop(first);
    }

    /// The two ends of a take-over after the sockets have changed hands, with a short timeout.
    fn ends() -> (OldProcess, UnixStream) {
        let (new, old) = UnixStream::pair().unwrap();
        for end in [&new, &old] {
            end.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        }
        (OldProcess(new), old)
    }

    #[test]
    fn both_sides_agree_on_who_serves_whoever_stalls() {
        // The old process stalls, and goes on after the new one has given up.
        let (new, mut old) = ends();
        assert_eq!(new.ready(), Outcome::Silent);
        assert_eq!(read_line(&mut old).unwrap(), "ready");
        assert!(confirm(&old).is_err(), "the old process must go on");
        // The confirmation arrives at the last moment.
        let (new, old) = ends();
        confirm(&old).unwrap();
        assert_eq!(new.ready(), Outcome::Draining);
        // The new process stalls.
        let (new, old) = ends();
        let waiting = old.try_clone().unwrap();
        assert_eq!(wait_for_ready(&waiting).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop((old, waiting));
        assert_eq!(new.ready(), Outcome::Withdrawn);
        // The old process ends.
        let (new, old) = ends();
        drop(old);
        assert_eq!(new.ready(), Outcome::Ended);
    }
}
