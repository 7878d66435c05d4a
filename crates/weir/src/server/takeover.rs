//! Take-over: a newly started process receives the listening sockets of the running one, which then drains.
//!
//! The sockets themselves change hands over a Unix socket (SCM_RIGHTS). Binding new ones beside the old and closing those would reset
//! what waits in their queues: the kernel does not move it to the other members of a SO_REUSEPORT group.
//!
//! ```text
//!   new                                   old
//!    connect  ------------------------>
//!             <-- addresses, sockets --    one message per address: "ADDRESS COUNT\n" with COUNT descriptors; then "end\n"
//!    start workers on them
//!             --- "ready\n" ---------->
//!             <-- "draining\n" --------    stops accepting; connections in the shared queues go to the new process
//! ```

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::listen::Group;

/// Most descriptors in one message; the kernel's own bound is 253.
const DESCRIPTORS: usize = 128;
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sockets that were taken over, and the way back to the process that gave them.
pub struct TakenOver {
    /// The sockets by address.
    pub groups: Vec<Group>,
    old: UnixStream,
}

/// Asks the process that listens on `path` for its sockets. `None` when there is none.
///
/// # Errors
/// When there is one and it does not keep to the protocol.
pub fn request(path: &Path) -> io::Result<Option<TakenOver>> {
    let old = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    old.set_read_timeout(Some(PATIENCE))?;
    old.set_write_timeout(Some(PATIENCE))?;
    let mut groups: Vec<Group> = Vec::new();
    loop {
        let (line, descriptors) = receive(&old)?;
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("end"), _) => return Ok(Some(TakenOver { groups, old })),
            (Some(address), Some(count)) => {
                let address: SocketAddr = address.parse().map_err(|_| protocol("an address"))?;
                if count.parse() != Ok(descriptors.len()) {
                    return Err(protocol("the descriptors that were announced"));
                }
                let sockets = descriptors.into_iter().map(TcpListener::from);
                match groups.iter_mut().find(|group| group.address == address) {
                    Some(group) => group.sockets.extend(sockets),
                    None => groups.push(Group { address, sockets: sockets.collect() }),
                }
            }
            _ => return Err(protocol("a line of addresses")),
        }
    }
}

impl TakenOver {
    /// Tells the old process that this one serves; returns once it has stopped accepting.
    ///
    /// # Errors
    /// When it does not answer; it then goes on as before, and both serve.
    pub fn ready(mut self) -> io::Result<()> {
        self.old.write_all(b"ready\n")?;
        let mut answer = [0; 9];
        self.old.read_exact(&mut answer)?;
        if &answer == b"draining\n" { Ok(()) } else { Err(protocol("\"draining\"")) }
    }
}

/// Binds the Unix socket at `path`, over whatever lay there: the process that gave its sockets away no longer needs it.
///
/// # Errors
/// The system's.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    // Bound under another name and moved, so that at every moment somebody answers at `path`.
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let _ = std::fs::remove_file(&temporary);
    let listener = UnixListener::bind(&temporary)?;
    // Only this user may take the sockets.
    std::fs::set_permissions(&temporary, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    std::fs::rename(&temporary, path)?;
    Ok(listener)
}

/// Gives the sockets to a process that asked for them, and waits until it serves. Blocks, for at most [`PATIENCE`] a step.
///
/// # Errors
/// When the other side gives up; this process then goes on as before.
pub fn give(stream: &UnixStream, groups: &[(SocketAddr, Vec<OwnedFd>)]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for (address, sockets) in groups {
        for some in sockets.chunks(DESCRIPTORS) {
            let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
            send(stream, &format!("{address} {}\n", some.len()), &descriptors)?;
        }
    }
    send(stream, "end\n", &[])?;
    let mut answer = [0; 6];
    (&*stream).read_exact(&mut answer)?;
    if &answer == b"ready\n" { Ok(()) } else { Err(protocol("\"ready\"")) }
}

/// Confirms that this process accepts no more.
///
/// # Errors
/// The stream's.
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

        let group = super::super::listen::bind("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let address = group.address;
        let waiting = std::net::TcpStream::connect(address).unwrap();
        let listener = listen(&path).unwrap();
        let old = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let sockets = group.sockets.into_iter().map(OwnedFd::from).collect();
            give(&stream, &[(group.address, sockets)]).unwrap();
            confirm(&stream).unwrap();
        });
        let taken = request(&path).unwrap().unwrap();
        assert_eq!(taken.groups.len(), 1);
        assert_eq!(taken.groups[0].address, address);
        let sockets: Vec<TcpListener> = taken.groups[0].sockets.iter().map(|s| s.try_clone().unwrap()).collect();
        assert_eq!(sockets.len(), 3);
        taken.ready().unwrap();
        old.join().unwrap();
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
}
