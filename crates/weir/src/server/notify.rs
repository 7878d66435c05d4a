//! What the service manager is told of the life of this process (sd_notify(3)): lines to the socket that `NOTIFY_SOCKET` names. Without it nothing is
//! sent. Own code, because it is one datagram.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// The way to the service manager.
#[derive(Debug, Default)]
pub struct ServiceManager(Option<(UnixDatagram, SocketAddr)>);

impl ServiceManager {
    /// That of the environment.
    pub fn of_process() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return ServiceManager::default();
        };
        match Self::at(&name) {
            Ok(manager) => manager,
            Err(error) => {
                tracing::warn!(%error, socket = %name.display(), "cannot send to the socket of NOTIFY_SOCKET");
                ServiceManager::default()
            }
        }
    }

    fn at(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that reads nothing must not stop requests.
        socket.set_nonblocking(true)?;
        Ok(ServiceManager(Some((socket, address))))
    }

    /// Requests are served, by the configuration that was read last.
    pub fn ready(&self) {
        self.send("READY=1\nSTATUS=serving\n");
    }

    /// A reload begins; [`ready`](Self::ready) or [`refused`](Self::refused) ends it.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        // The time tells the manager which of several reloads this is.
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=reloading\n"));
    }

    /// A reload was refused: the configuration before stays in force.
    pub fn refused(&self) {
        self.send("READY=1\nSTATUS=serving; the last reload was refused, see the log\n");
    }

    /// The process ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=draining\n");
    }

    fn send(&self, lines: &str) {
        let Some((socket, address)) = &self.0 else { return };
        if let Err(error) = socket.send_to_addr(lines.as_bytes(), address) {
            tracing::warn!(%error, "cannot tell the service manager");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    #[test]
    fn each_state_is_one_datagram_to_a_path_or_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify.sock");
        let name = format!("weir-notify-{}", std::process::id());
        let sockets = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap()),
            (
                format!("@{name}").into(),
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            ),
        ];
        for (address, socket) in sockets {
            let manager = ServiceManager::at(&address).unwrap();
            manager.ready();
            assert!(received(&socket).starts_with("READY=1\n"));
            manager.reloading();
            let said = received(&socket);
            let time = said.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
            assert!(said.starts_with("RELOADING=1\n") && time.parse::<u64>().unwrap() > 0, "{said}");
            manager.refused();
            assert!(received(&socket).starts_with("READY=1\n"));
            manager.stopping();
            assert!(received(&socket).starts_with("STOPPING=1\n"));
        }
        // Nobody listens: nothing happens.
        ServiceManager::at(folder.path().join("none").as_os_str()).unwrap().ready();
        ServiceManager::default().ready();
    }
}
