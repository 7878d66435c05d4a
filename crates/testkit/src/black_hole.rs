//! An address to which nobody ever gets connected.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket, socket_with};

/// A listener whose queue is full: the kernel drops every further SYN, so that a connect neither succeeds nor fails before its own timeout.
#[derive(Debug)]
pub struct BlackHole {
    address: SocketAddr,
    _listener: OwnedFd,
    _queued: Vec<OwnedFd>,
}

impl BlackHole {
    /// Opens one on 127.0.0.1.
    pub fn open() -> Self {
        Self::try_open().expect("a listener on 127.0.0.1")
    }

    fn try_open() -> std::io::Result<Self> {
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        // Linux queues one connection more than it is told.
        listen(&listener, 0)?;
        let address = SocketAddr::try_from(getsockname(&listener)?)?;
        let mut queued = Vec::new();
        for _ in 0..4 {
            let filler = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None)?;
            // "In progress", without limit.
            let _ = connect(&filler, &address);
            queued.push(filler);
        }
        Ok(Self { address, _listener: listener, _queued: queued })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
