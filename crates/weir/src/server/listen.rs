//! Listening sockets: one per worker and IP address, to which the kernel distributes connections (SO_REUSEPORT). A Unix socket has no such groups:
//! all workers accept from one, and whoever is free first gets the connection. So it is with a socket that the process is started with.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::inherited::Inherited;
use super::socket_file::{self, SocketFile};
use crate::config::Bind;
use crate::io::listening::ListeningSocket;

/// Length of the accept queue; the kernel caps it at `net.core.somaxconn`.
pub(super) const BACKLOG: i32 = 4096;

/// The sockets of one listener.
#[derive(Debug)]
pub struct Group {
    /// Where it takes connections, with the port that was given for port 0.
    pub bind: Bind,
    /// Where clients find it: as `bind`, but for sockets that the process is started with.
    pub local: Bind,
    /// One socket per worker, or as many as were taken over; a single one where the workers share it.
    pub sockets: Vec<ListeningSocket>,
    /// The file of a Unix socket.
    pub file: Option<SocketFile>,
}

/// Opens the sockets of a listener for so many workers.
///
/// # Errors
/// The system's; `AddrInUse` also when another instance of this program listens there.
pub fn open(bind: &Bind, mode: u32, workers: usize, inherited: &Inherited) -> io::Result<Group> {
    match bind {
        Bind::Tcp(address) => bind_tcp(*address, workers),
        Bind::Unix(path) => {
            let (listener, file) = socket_file::bind(path, mode)?;
            let sockets = vec![ListeningSocket::Unix(listener)];
            Ok(Group { bind: bind.clone(), local: bind.clone(), sockets, file: Some(file) })
        }
        Bind::Inherited(which) => inherited.open(which),
    }
}

/// Binds `count` sockets to one address.
///
/// # Errors
/// The system's; `AddrInUse` also when another instance of this program listens there, which SO_REUSEPORT alone would let happen in silence.
fn bind_tcp(address: SocketAddr, count: usize) -> io::Result<Group> {
    // The first socket is bound without SO_REUSEPORT, which fails if anyone listens; the option is set before it listens itself,
    // so that the others can join. There is no moment in which a second instance could slip in between.
    let first = new_socket(address)?;
    first.bind(&address.into())?;
    first.set_reuse_port(true)?;
    first.listen(BACKLOG)?;
    let first = std::net::TcpListener::from(first);
    let bind = Bind::Tcp(first.local_addr()?);
    let mut group = Group { local: bind.clone(), bind, sockets: vec![ListeningSocket::Tcp(first)], file: None };
    group.grow(count)?;
    group.sockets.iter().try_for_each(activate)?;
    Ok(group)
}

/// Lets a bound socket listen. For one that listens already nothing changes.
///
/// # Errors
/// The system's.
pub fn activate(socket: &impl AsFd) -> io::Result<()> {
    socket2::SockRef::from(socket).listen(BACKLOG)
}

/// Binds `count` sockets to an address that overlaps one which this process listens on already. Without the check of [`open`], which would find that one.
///
/// # Errors
/// The system's.
pub fn bind_beside(address: SocketAddr, count: usize) -> io::Result<Group> {
    let bind = Bind::Tcp(address);
    let mut group = Group { local: bind.clone(), bind, sockets: Vec::new(), file: None };
    group.grow(count)?;
    group.sockets.iter().try_for_each(activate)?;
    Ok(group)
}

impl Group {
    /// Duplicates: the same sockets under other descriptors. The file stays this one's.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Group> {
        let sockets = self.sockets.iter().map(ListeningSocket::try_clone).collect::<io::Result<_>>()?;
        Ok(Group { bind: self.bind.clone(), local: self.local.clone(), sockets, file: None })
    }

    /// Binds further sockets until there are `count`. They get no connections before [`activate`]: a process that cannot start after all
    /// would lose them. What workers share stays one socket.
    ///
    /// # Errors
    /// The system's.
    pub fn grow(&mut self, count: usize) -> io::Result<()> {
        let Bind::Tcp(address) = self.bind else { return Ok(()) };
        while self.sockets.len() < count {
            let socket = new_socket(address)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            self.sockets.push(ListeningSocket::Tcp(socket.into()));
        }
        Ok(())
    }
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // An IPv6 listener takes IPv4 too only if its address is the unspecified one, where users expect it.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // A restart must not wait for old connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(address: &str, count: usize) -> io::Result<Group> {
        open(&Bind::Tcp(address.parse().unwrap()), 0, count, &Inherited::default())
    }

    fn address(group: &Group) -> SocketAddr {
        let Bind::Tcp(address) = group.bind else { panic!("{group:?}") };
        address
    }

    #[test]
    fn a_group_shares_one_port_and_a_second_group_is_refused() {
        let four = group("127.0.0.1:0", 4).unwrap();
        assert_eq!(four.sockets.len(), 4);
        let address = address(&four);
        for socket in &four.sockets {
            let ListeningSocket::Tcp(socket) = socket else { panic!("{socket:?}") };
            assert_eq!(socket.local_addr().unwrap(), address);
        }
        let refused = group(&address.to_string(), 4).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(four);
        group(&address.to_string(), 2).unwrap();
    }

    #[test]
    fn the_kernel_spreads_connections_over_all_sockets_of_a_group() {
        let group = group("127.0.0.1:0", 2).unwrap();
        let clients: Vec<_> = (0..64).map(|_| std::net::TcpStream::connect(address(&group)).unwrap()).collect();
        let counts = group.sockets.iter().map(|socket| std::iter::from_fn(|| socket.accept().ok()).count());
        let counts: Vec<usize> = counts.collect();
        assert_eq!(counts.iter().sum::<usize>(), clients.len());
        assert!(counts.iter().all(|&count| count > 8), "{counts:?}");
    }

    #[test]
    fn workers_share_the_socket_of_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let bind = Bind::Unix(folder.path().join("listen.sock").into());
        let mut group = open(&bind, 0o600, 4, &Inherited::default()).unwrap();
        group.grow(8).unwrap();
        assert_eq!((group.sockets.len(), &group.bind), (1, &bind));
    }
}
