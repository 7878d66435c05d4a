//! Sockets that the process is started with, as systemd passes them (sd_listen_fds(3)).
//!
//! Own code: the protocol is three variables. Of the crates for it `sd-notify` and `libsystemd` return bare numbers, so that the same unsafe line
//! would stand here, and `listenfd` knows no names.

use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use socket2::SockRef;

use super::listen::Group;
use crate::config::{Bind, InheritedSocket};
use crate::io::listening::ListeningSocket;

/// Number of the first one.
const FIRST: u32 = 3;
/// More than anybody passes: a number that is a mistake must not keep the start busy.
const MOST: u32 = 4096;
/// The name of one that was given none.
const UNNAMED: &str = "unknown";

/// The sockets, kept for as long as the process accepts connections: a reload may remove a listener and add it again.
#[derive(Debug, Default)]
pub struct Inherited(Vec<Passed>);

/// One descriptor, which need not be a socket.
#[derive(Debug)]
struct Passed {
    /// Absent if a running process gave it.
    number: Option<u32>,
    name: Option<Box<str>>,
    /// `None` if nothing is open under this number.
    descriptor: Option<OwnedFd>,
}

impl Passed {
    fn is(&self, which: &InheritedSocket) -> bool {
        match which {
            InheritedSocket::Number(number) => self.number == Some(*number),
            InheritedSocket::Name(name) => self.name.as_deref() == Some(name),
        }
    }
}

impl Inherited {
    /// Those that the environment says were passed to this process.
    ///
    /// # Errors
    /// A variable that does not have the form of systemd's.
    pub fn of_process() -> io::Result<Self> {
        let number = |name: &str| match std::env::var(name) {
            Ok(text) => match text.parse::<u32>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(io::Error::new(ErrorKind::InvalidData, format!("{name}: `{text}` is not a number"))),
            },
            Err(_) => Ok(None),
        };
        // Variables that were meant for another process, a shell for example that started this one, say nothing here.
        if number("LISTEN_PID")? != Some(std::process::id()) {
            return Ok(Inherited::default());
        }
        let count = number("LISTEN_FDS")?.unwrap_or(0);
        if count > MOST {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("LISTEN_FDS: {count} is more than {MOST}")));
        }
        let end = FIRST + count;
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let passed = |number| {
            let name = names.next().filter(|name| !name.is_empty() && *name != UNNAMED).map(Into::into);
            Passed { number: Some(number), name, descriptor: duplicate(number, end).ok() }
        };
        Ok(Inherited((FIRST..end).map(passed).collect()))
    }

    /// Keeps what a running process gave under this name, in place of what was passed.
    pub fn give(&mut self, which: &InheritedSocket, sockets: Vec<OwnedFd>) {
        self.0.retain(|passed| !passed.is(which));
        let (number, name) = match which {
            InheritedSocket::Number(number) => (Some(*number), None),
            InheritedSocket::Name(name) => (None, Some(Box::from(&**name))),
        };
        let passed = |socket| Passed { number, name: name.clone(), descriptor: Some(socket) };
        self.0.extend(sockets.into_iter().map(passed));
    }

    /// The listener of one that was passed.
    ///
    /// # Errors
    /// That it was not, or is no socket that listens.
    pub fn open(&self, which: &InheritedSocket) -> io::Result<Group> {
        let mut sockets = Vec::new();
        let mut local = None;
        for passed in self.0.iter().filter(|passed| passed.is(which)) {
            let (socket, address) = self.listening(passed)?;
            if local.as_ref().is_some_and(|local| *local != address) {
                let text = "several sockets with different addresses have this name: give each a name of its own (`FileDescriptorName=`), or list them by their numbers";
                return Err(io::Error::new(ErrorKind::InvalidInput, text));
            }
            local = Some(address);
            sockets.push(socket);
        }
        match local {
            Some(local) => Ok(Group { bind: Bind::Inherited(which.clone()), local, sockets, file: None }),
            None => Err(io::Error::new(ErrorKind::NotFound, self.missing())),
        }
    }

    /// Those that no listener names.
    pub fn unused<'a>(&self, binds: impl Iterator<Item = &'a Bind> + Clone) -> Vec<String> {
        let is_used =
            |passed: &Passed| binds.clone().any(|bind| matches!(bind, Bind::Inherited(which) if passed.is(which)));
        self.0.iter().filter(|passed| !is_used(passed)).map(Passed::text).collect()
    }

    fn listening(&self, passed: &Passed) -> io::Result<(ListeningSocket, Bind)> {
        let wrong =
            |what: &str| io::Error::new(ErrorKind::InvalidInput, format!("descriptor {} {what}", passed.text()));
        let Some(descriptor) = &passed.descriptor else { return Err(wrong("is not open")) };
        let socket = SockRef::from(descriptor);
        match socket.is_listener() {
            Ok(true) => {}
            Ok(false) => {
                return Err(wrong("is a socket that does not listen: with systemd, `ListenStream=` and `Accept=no`"));
            }
            Err(_) => return Err(wrong("is no socket")),
        }
        let address = socket.local_addr()?;
        let bind = match (address.as_socket(), address.as_pathname()) {
            (Some(address), _) => Bind::Tcp(address),
            (None, Some(path)) => Bind::Unix(path.into()),
            (None, None) if address.is_unix() => Bind::Inherited(passed.which()),
            (None, None) => return Err(wrong("is neither a TCP nor a Unix socket")),
        };
        // For all who have it: it is one socket under several descriptors.
        socket.set_nonblocking(true)?;
        Ok((ListeningSocket::of(descriptor.try_clone()?, address.is_unix()), bind))
    }

    fn missing(&self) -> String {
        if self.0.is_empty() {
            return "this process was started without sockets (`LISTEN_FDS`): start it by a socket unit of systemd that names it".to_owned();
        }
        let there: Vec<String> = self.0.iter().map(Passed::text).collect();
        format!("this process was not started with this socket; it has: {}", there.join(", "))
    }
}

impl Passed {
    fn which(&self) -> InheritedSocket {
        match (&self.name, self.number) {
            (Some(name), _) => InheritedSocket::Name((**name).into()),
            (None, number) => InheritedSocket::Number(number.unwrap_or_default()),
        }
    }

    /// As messages name it.
    fn text(&self) -> String {
        match (self.number, &self.name) {
            (Some(number), Some(name)) => format!("{number} (`fd:{name}`)"),
            (Some(number), None) => format!("{number} (`fd:{number}`)"),
            (None, _) => format!("`fd:{}`", self.which()),
        }
    }
}

/// The same under another number from `least` on, which no program that this one starts gets.
#[allow(unsafe_code, reason = "a descriptor that is known by its number can be taken in no other way")]
fn duplicate(number: u32, least: u32) -> io::Result<OwnedFd> {
    let (number, least) = (number.cast_signed(), least.cast_signed());
    // SAFETY: whoever started this process opened it for it, by the protocol of LISTEN_FDS, and nothing here closes it. Should it not be open, both
    // calls fail and do nothing.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let duplicate = fcntl_dupfd_cloexec(descriptor, least)?;
    fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    Ok(duplicate)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn inherited(passed: Vec<(&str, OwnedFd)>) -> Inherited {
        let one = |(number, (name, descriptor)): (u32, (&str, OwnedFd))| Passed {
            number: Some(number),
            name: (!name.is_empty()).then(|| name.into()),
            descriptor: Some(descriptor),
        };
        Inherited((FIRST..).zip(passed).map(one).collect())
    }

    fn open(inherited: &Inherited, text: &str) -> Result<Group, String> {
        inherited.open(&text.parse().unwrap()).map_err(|error| error.to_string())
    }

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn sockets_are_found_by_name_and_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("listen.sock");
        let (tcp, unix) = (listener(), UnixListener::bind(&path).unwrap());
        let address = Bind::Tcp(tcp.local_addr().unwrap());
        let inherited = inherited(vec![("web", tcp.into()), ("", unix.into())]);
        for (text, local) in [("web", &address), ("3", &address), ("4", &Bind::Unix(path.as_path().into()))] {
            let group = open(&inherited, text).unwrap();
            assert_eq!((&group.local, group.sockets.len()), (local, 1), "{text}");
            assert_eq!(group.bind.to_string(), format!("fd:{text}"));
        }
        let said = open(&inherited, "other").unwrap_err();
        assert!(said.ends_with("it has: 3 (`fd:web`), 4 (`fd:4`)"), "{said}");
        assert!(open(&Inherited::default(), "web").unwrap_err().contains("started without sockets"));
        assert_eq!(inherited.unused([Bind::Inherited("web".parse().unwrap())].iter()), ["4 (`fd:4`)"]);
    }

    #[test]
    fn only_what_listens_is_taken() {
        let there = listener();
        let connected = TcpStream::connect(there.local_addr().unwrap()).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wrong = inherited(vec![("", file.into()), ("", connected.into()), ("", udp.into())]);
        for (text, why) in [("3", "is no socket"), ("4", "does not listen"), ("5", "does not listen")] {
            let said = open(&wrong, text).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let closed = Inherited(vec![Passed { number: Some(3), name: None, descriptor: duplicate(1_000_000, 3).ok() }]);
        assert!(open(&closed, "3").unwrap_err().contains("is not open"));
    }

    #[test]
    fn sockets_of_one_name_have_one_address() {
        let one = listener();
        let same = one.try_clone().unwrap();
        let good = inherited(vec![("web", one.into()), ("web", same.into())]);
        assert_eq!(open(&good, "web").unwrap().sockets.len(), 2);
        let bad = inherited(vec![("web", listener().into()), ("web", listener().into())]);
        assert!(open(&bad, "web").unwrap_err().contains("different addresses"));
    }

    #[test]
    fn what_a_running_process_gave_comes_first() {
        let given = listener();
        let address = Bind::Tcp(given.local_addr().unwrap());
        let mut all = inherited(vec![("web", listener().into()), ("other", listener().into())]);
        all.give(&"web".parse().unwrap(), vec![given.into()]);
        assert_eq!(open(&all, "web").unwrap().local, address);
        assert!(open(&all, "other").is_ok());
    }
}
