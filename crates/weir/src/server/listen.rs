//! Listening sockets: one per worker and address, to which the kernel distributes connections (SO_REUSEPORT).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};

/// Length of the accept queue; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// The sockets of one address.
#[derive(Debug)]
pub struct Group {
    /// The address, with the port that was given for port 0.
    pub address: SocketAddr,
    /// One socket per worker, or as many as were taken over.
    pub sockets: Vec<TcpListener>,
}

/// Binds `count` sockets to one address.
///
/// # Errors
/// The system's; `AddrInUse` also when another instance of this program listens there, which SO_REUSEPORT alone would let happen in silence.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Group> {
    // The first socket is bound without SO_REUSEPORT, which fails if anyone listens; the option is set before it listens itself,
    // so that the others can join. There is no moment in which a second instance could slip in between.
    let first = new_socket(address)?;
    first.bind(&address.into())?;
    first.set_reuse_port(true)?;
    first.listen(BACKLOG)?;
    let sockets = vec![first.into()];
    let mut group = Group { address, sockets };
    group.address = group.sockets[0].local_addr()?;
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

/// Binds `count` sockets to an address that overlaps one which this process listens on already. Without the check of [`bind`], which would find that one.
///
/// # Errors
/// The system's.
pub fn bind_beside(address: SocketAddr, count: usize) -> io::Result<Group> {
    let mut group = Group { address, sockets: Vec::new() };
    group.grow(count)?;
    group.sockets.iter().try_for_each(activate)?;
    Ok(group)
}

impl Group {
    /// Duplicates: the same sockets under other descriptors.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Group> {
        let sockets = self.sockets.iter().map(TcpListener::try_clone).collect::<io::Result<_>>()?;
        Ok(Group { address: self.address, sockets })
    }

    /// Binds further sockets until there are `count`. They get no connections before [`activate`]: a process that cannot start after all
    /// would lose them.
    ///
    /// # Errors
    /// The system's.
    pub fn grow(&mut self, count: usize) -> io::Result<()> {
        while self.sockets.len() < count {
            let socket = new_socket(self.address)?;
            socket.set_reuse_port(true)?;
            socket.bind(&self.address.into())?;
            self.sockets.push(socket.into());
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

    #[test]
    fn a_group_shares_one_port_and_a_second_group_is_refused() {
        let group = bind("127.0.0.1:0".parse().unwrap(), 4).unwrap();
        assert_eq!(group.sockets.len(), 4);
        for socket in &group.sockets {
            assert_eq!(socket.local_addr().unwrap(), group.address);
        }
        let refused = bind(group.address, 4).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let address = group.address;
        drop(group);
        bind(address, 2).unwrap();
    }

    #[test]
    fn the_kernel_deals_connections_to_all_sockets_of_a_group() {
        let group = bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let clients: Vec<_> = (0..64).map(|_| std::net::TcpStream::connect(group.address).unwrap()).collect();
        let counts = group.sockets.iter().map(|socket| std::iter::from_fn(|| socket.accept().ok()).count());
        let counts: Vec<usize> = counts.collect();
        assert_eq!(counts.iter().sum::<usize>(), clients.len());
        assert!(counts.iter().all(|&count| count > 8), "{counts:?}");
    }
}
