//! Where a listener takes connections, and which peers are believed.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use super::text::{Address, Network, text_type};
use crate::Bind;

/// Longest path of a Unix socket: `sun_path` of the kernel has 108 bytes, the last of which is zero.
pub(crate) const SOCKET_PATH_BYTES: usize = 107;

/// What stands for Unix sockets, and for whoever connects to them.
const UNIX: &str = "unix:";

/// What stands before the name of a socket that the process is started with.
const INHERITED: &str = "fd:";

/// Whether this can be the path of a Unix socket: a whole path, so that it does not depend on where the process is started.
pub(crate) fn is_socket_path(path: &str) -> bool {
    path.starts_with('/') && !path.ends_with('/') && path.len() <= SOCKET_PATH_BYTES && !path.contains('\0')
}

/// `127.0.0.1:8080`, `[::1]:8080`, `unix:/PATH` or `fd:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindText(pub Bind);

text_type!(
    BindText,
    "Bind",
    r"^((\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]{1,5}|unix:/.*[^/]|fd:[A-Za-z0-9_.@-]{1,64})$",
    "an IP address with a port, such as `127.0.0.1:8080` or `[::]:8080`, the path of a Unix socket, such as `unix:/run/weir/http.sock`, or a socket that systemd passes, such as `fd:web`"
);

impl FromStr for BindText {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(which) = text.strip_prefix(INHERITED) {
            let which = which.parse().map_err(|why| format!("`{text}`: {why}"))?;
            return Ok(BindText(Bind::Inherited(which)));
        }
        let Some(path) = text.strip_prefix(UNIX) else {
            return Address::from_str(text).map(|address| BindText(Bind::Tcp(address.0)));
        };
        if !is_socket_path(path) {
            return Err(format!(
                "`{text}`: write the whole path of the Unix socket, such as `unix:/run/weir/http.sock`, of at most {SOCKET_PATH_BYTES} bytes"
            ));
        }
        Ok(BindText(Bind::Unix(Path::new(path).into())))
    }
}

impl fmt::Display for BindText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<SocketAddr> for BindText {
    fn from(address: SocketAddr) -> Self {
        BindText(Bind::Tcp(address))
    }
}

/// Permissions of a file, as `chmod` takes them: `0660`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode(pub u32);

text_type!(
    FileMode,
    "FileMode",
    {"type": ["string", "integer"], "pattern": "^0?[0-7]{3}$", "minimum": 0, "maximum": 777},
    "permissions in octal digits, such as `0660`"
);

impl FromStr for FileMode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        // YAML's own form of octal numbers, too.
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let digits = if digits.len() == 4 { digits.strip_prefix('0').unwrap_or(digits) } else { digits };
        let is_octal = digits.len() == 3 && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
        match u32::from_str_radix(digits, 8) {
            Ok(mode) if is_octal => Ok(FileMode(mode)),
            _ => Err(format!("`{text}` is not a mode; write three octal digits, such as `0660`")),
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

/// Whose forwarding fields are believed: a network, or `unix:` for whoever connects to a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustedProxy {
    /// The addresses of a network.
    Network(Network),
    /// Peers at listeners that are Unix sockets.
    Unix,
}

text_type!(
    TrustedProxy,
    "TrustedProxy",
    r"^([0-9A-Fa-f:.]+(/[0-9]{1,3})?|unix:)$",
    "a network such as `10.0.0.0/8` or `fd00::/8`, one address, or `unix:` for peers of Unix sockets"
);

impl FromStr for TrustedProxy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            UNIX => Ok(TrustedProxy::Unix),
            "unix" => Err("write `unix:` for peers of Unix sockets".to_owned()),
            _ => Network::from_str(text).map(TrustedProxy::Network),
        }
    }
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustedProxy::Network(network) => network.fmt(f),
            TrustedProxy::Unix => f.write_str(UNIX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_an_address_or_a_whole_path() {
        for text in ["127.0.0.1:8080", "[::]:0", "unix:/run/weir.sock", "unix:/a b/c", "fd:3", "fd:weir@1.socket"] {
            assert_eq!(text.parse::<BindText>().unwrap().to_string(), text);
        }
        let longest = format!("unix:/{}", "a".repeat(106));
        assert!(longest.parse::<BindText>().is_ok());
        for text in [
            "unix:",
            "unix:weir.sock",
            "unix:/run/",
            "localhost:80",
            "fd:",
            "fd:2",
            "fd:a:b",
            "fd:a b",
            &format!("{longest}a"),
        ] {
            assert!(text.parse::<BindText>().is_err(), "{text}");
        }
    }

    #[test]
    fn modes_are_octal() {
        for text in ["0660", "660", "0o660"] {
            assert_eq!(text.parse::<FileMode>().unwrap(), FileMode(0o660), "{text}");
        }
        assert_eq!(FileMode(0o60).to_string(), "0060");
        for text in ["", "66", "0680", "1777", "00660", "+77", "rw-rw----"] {
            assert!(text.parse::<FileMode>().is_err(), "{text}");
        }
    }

    #[test]
    fn peers_of_unix_sockets_can_be_trusted() {
        for text in ["unix:", "10.0.0.0/8", "::1"] {
            assert_eq!(text.parse::<TrustedProxy>().unwrap().to_string(), text);
        }
        assert!("unix:/run/weir.sock".parse::<TrustedProxy>().is_err());
        assert!("unix".parse::<TrustedProxy>().unwrap_err().contains("`unix:`"));
    }
}
