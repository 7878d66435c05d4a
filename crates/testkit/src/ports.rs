//! Loopback ports for programs that cannot take port 0 and print what they got.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt::set_socket_reuseaddr};

/// A free port, kept for as long as this lives: also while the program that listens on it is stopped or restarted.
///
/// It is a socket that is bound with SO_REUSEADDR and never listens. Linux lets a second socket with SO_REUSEADDR bind
/// and listen on such a port (every common server sets it), but gives the port neither to a bind to port 0 nor to an
/// outgoing connection. So there is no race with other tests. Only a program without SO_REUSEADDR needs
/// [`Port::hand_over`], which has one: between the return of that call and the program's bind anyone may take the port.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    _held: OwnedFd,
}

impl Port {
    /// Takes a free port of 127.0.0.1.
    pub fn free() -> Self {
        Self::bind(Ipv4Addr::LOCALHOST, 0).expect("a free port of 127.0.0.1")
    }

    /// Takes a free port of ::1.
    pub fn free_v6() -> Self {
        Self::bind(Ipv6Addr::LOCALHOST, 0).expect("a free port of ::1")
    }

    /// Keeps a port that is known by its number, or says why that cannot be.
    pub fn bind(ip: impl Into<IpAddr>, number: u16) -> std::io::Result<Self> {
        let ip = ip.into();
        let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let held = socket(family, SocketType::STREAM, None)?;
        set_socket_reuseaddr(&held, true)?;
        bind(&held, &SocketAddr::new(ip, number))?;
        let address = SocketAddr::try_from(getsockname(&held)?)?;
        Ok(Self { address, _held: held })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.address.port()
    }

    /// Address and number.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives the port up, for a program that binds without SO_REUSEADDR.
    pub fn hand_over(self) -> u16 {
        self.address.port()
    }
}
