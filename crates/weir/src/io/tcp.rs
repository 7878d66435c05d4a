//! Options of TCP connections, to clients and to targets.

use std::os::fd::AsFd;

use socket2::{SockRef, TcpKeepalive};

use crate::config::TcpOptions;

/// Probes without a response after which a peer counts as gone.
const PROBES: u32 = 3;

/// Sets what is configured. A kernel that does not take an option leaves a connection that works, so this does not fail.
pub fn set_options(socket: &impl AsFd, options: TcpOptions) {
    if options == TcpOptions::default() {
        return;
    }
    let socket = SockRef::from(socket);
    let keepalive = |time| TcpKeepalive::new().with_time(time).with_interval(time).with_retries(PROBES);
    let results = [
        options.keepalive.map(|time| socket.set_tcp_keepalive(&keepalive(time))),
        options.user_timeout.map(|time| socket.set_tcp_user_timeout(Some(time))),
    ];
    for error in results.into_iter().flatten().filter_map(Result::err) {
        tracing::debug!(%error, "an option of a TCP connection could not be set");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_set_is_in_force() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_options(&stream, TcpOptions::default());
        let socket = SockRef::from(&stream);
        assert!(!socket.keepalive().unwrap());
        let (keepalive, timeout) = (Duration::from_secs(77), Duration::from_secs(33));
        set_options(&stream, TcpOptions { keepalive: Some(keepalive), user_timeout: Some(timeout) });
        assert!(socket.keepalive().unwrap());
        let times = (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
        assert_eq!((times, socket.tcp_keepalive_retries().unwrap()), ((keepalive, keepalive), PROBES));
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(timeout));
    }
}
