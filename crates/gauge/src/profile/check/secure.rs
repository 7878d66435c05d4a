//! What the profile `tls` requires of handshakes.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tls::client::{self, Options, Roots};
use tls::{Alpn, ClientConfig, ClientStream, Version};

use super::{DEADLINE, NotChecked, Probe};
use crate::load::workload::TlsVersion;
use crate::profile::secure::{Connections, HttpVersion, SERVER_NAME, Tls};

/// How long a gateway may take to refuse a version.
const REFUSAL: Duration = Duration::from_secs(5);

/// Suites that TLS 1.1 has with keys of either kind, and the mark of RFC 5746.
const SUITES: [u16; 7] = [0xC009, 0xC00A, 0xC013, 0xC014, 0x002F, 0x0035, 0x00FF];

impl Probe {
    pub(super) fn tls(&mut self, tls: &Tls) -> Result<(), NotChecked> {
        let (alpn, required) = match tls.http {
            HttpVersion::Http11 => (vec![Alpn::Http11], "http/1.1, or none"),
            HttpVersion::Http2 => (vec![Alpn::Http2, Alpn::Http11], "h2"),
        };
        let trusted = self.trusted()?;
        for (written, version, name) in
            [(TlsVersion::Tls12, Version::Tls12, "TLSv1.2"), (TlsVersion::Tls13, Version::Tls13, "TLSv1.3")]
        {
            let options = Options {
                // The certificate that it was given is its own authority: any other fails.
                roots: Roots::These(trusted.clone()),
                max_version: version,
                alpn: alpn.clone(),
                sessions: 0,
                ..Options::default()
            };
            let config = client::config(&options).map_err(|error| error.to_string())?;
            let what = format!("handshake of {name}");
            match handshake(self.gateway, config) {
                Err(error) => self.require(&what, "it succeeds, with the certificate that it was given", Err(error)),
                Ok(stream) => {
                    let negotiated = stream.negotiated();
                    let found = if negotiated.version == name { Ok(()) } else { Err(negotiated.version.to_owned()) };
                    self.require(&what, name, found);
                    let found = match (tls.http, negotiated.alpn) {
                        (HttpVersion::Http11, None | Some(Alpn::Http11)) | (HttpVersion::Http2, Some(Alpn::Http2)) => {
                            Ok(())
                        }
                        (_, other) => Err(other.map_or("none".to_owned(), |alpn| format!("{alpn:?}"))),
                    };
                    self.require(&format!("ALPN, {name}"), required, found);
                }
            }
            self.request_over(written, name)?;
        }
        let found = refuses_tls11(self.gateway);
        self.require("handshake of TLSv1.1", "it is refused", found);
        if tls.connections == Connections::Resumed {
            let found = self.resumes(&trusted, tls.version)?;
            self.require("the second handshake of a client", "it resumes the session of the first", found);
        }
        self.large_bodies()
    }

    /// A request over a version of TLS passes, and the upstream is not told that it came without.
    fn request_over(&mut self, version: TlsVersion, name: &str) -> Result<(), NotChecked> {
        let of_load = self.clients.clone();
        if let Some(tls) = &mut self.clients.tls {
            tls.version = Some(version);
        }
        let seen = self.passes(&format!("a request over {name}"), &[]);
        self.clients = of_load;
        if let Some(scheme) = seen?.as_ref().and_then(|seen| Self::field(seen, "X-Forwarded-Proto")) {
            let found = if scheme == "https" { Ok(()) } else { Err(scheme.to_owned()) };
            self.require("forwarded X-Forwarded-Proto", "https, or absent", found);
        }
        Ok(())
    }

    /// The certificate that gateways were given.
    fn trusted(&self) -> Result<Vec<tls::CertificateDer<'static>>, NotChecked> {
        let file = self.clients.tls.as_ref().and_then(|tls| tls.ca.as_ref()).ok_or("there is no certificate")?;
        tls::certificate::read_certificates(file).map_err(|error| error.to_string())
    }

    /// Two connections of one client, with a request each: tickets of TLS 1.3 come after the handshake.
    fn resumes(
        &self,
        trusted: &[tls::CertificateDer<'static>],
        version: TlsVersion,
    ) -> Result<Result<(), String>, NotChecked> {
        let max_version = match version {
            TlsVersion::Tls12 => Version::Tls12,
            TlsVersion::Tls13 => Version::Tls13,
        };
        let options = Options { roots: Roots::These(trusted.to_vec()), max_version, sessions: 8, ..Options::default() };
        let config = client::config(&options).map_err(|error| error.to_string())?;
        let second = || -> Result<bool, String> {
            let mut first = handshake(self.gateway, Arc::clone(&config))?;
            let request = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.gateway);
            let mut memory = vec![0; 64 * 1024];
            let said = |error: io::Error| error.to_string();
            first.write(&[IoSlice::new(request.as_bytes())]).and_then(|_| first.flush()).map_err(said)?;
            while !first.received_close() && matches!(first.receive(&mut memory, |_| ()), Ok(1..)) {}
            Ok(handshake(self.gateway, config)?.negotiated().is_resumed)
        };
        Ok(match second() {
            Ok(true) => Ok(()),
            Ok(false) => Err("a full handshake".to_owned()),
            Err(error) => Err(error),
        })
    }
}

/// A connection after its handshake, or why it failed.
fn handshake(gateway: SocketAddr, config: Arc<ClientConfig>) -> Result<ClientStream<TcpStream>, String> {
    let said = |error: io::Error| error.to_string();
    let stream = TcpStream::connect_timeout(&gateway, DEADLINE).map_err(said)?;
    stream.set_read_timeout(Some(DEADLINE)).map_err(said)?;
    let name = client::server_name(SERVER_NAME)?;
    let mut stream = ClientStream::new(stream, config, name).map_err(said)?;
    let mut memory = vec![0; 16 * 1024];
    loop {
        stream.flush().map_err(said)?;
        if !stream.is_handshaking() {
            return Ok(stream);
        }
        if stream.receive(&mut memory, |_| ()).map_err(said)? == 0 {
            return Err("the connection was closed in the handshake".to_owned());
        }
    }
}

/// TLS 1.1 is offered (RFC 8996 forbids it): an alert, or the end of the connection, is a refusal.
fn refuses_tls11(gateway: SocketAddr) -> Result<(), String> {
    let response = || -> io::Result<Option<u8>> {
        let mut stream = TcpStream::connect_timeout(&gateway, DEADLINE)?;
        stream.set_read_timeout(Some(REFUSAL))?;
        stream.write_all(&hello_tls11())?;
        let mut first = [0];
        match stream.read(&mut first)? {
            0 => Ok(None),
            _ => Ok(Some(first[0])),
        }
    };
    match response() {
        // A record of a handshake (RFC 8446, section 5.1).
        Ok(Some(22)) => Err("it is accepted".to_owned()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err("no response".to_owned()),
        Err(_) => Ok(()),
    }
}

/// A ClientHello of TLS 1.1 (RFC 4346, section 7.4.1.2) with the name, groups and point formats.
fn hello_tls11() -> Vec<u8> {
    fn with_length(bytes: usize, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [&length[4 - bytes..], content].concat()
    }
    fn extension(number: u16, content: &[u8]) -> Vec<u8> {
        [&number.to_be_bytes()[..], &with_length(2, content)].concat()
    }
    let name = [&[0][..], &with_length(2, SERVER_NAME.as_bytes())].concat();
    let extensions = [
        extension(0, &with_length(2, &name)),
        // P-256, P-384.
        extension(10, &with_length(2, &[0, 23, 0, 24])),
        extension(11, &with_length(1, &[0])),
    ]
    .concat();
    let suites: Vec<u8> = SUITES.iter().flat_map(|suite| suite.to_be_bytes()).collect();
    let mut hello = vec![3, 2];
    hello.extend([0x5A; 32]);
    // No session, and no compression.
    hello.push(0);
    hello.extend(with_length(2, &suites));
    hello.extend([1, 0]);
    hello.extend(with_length(2, &extensions));
    let handshake = [&[1][..], &with_length(3, &hello)].concat();
    [&[22, 3, 1][..], &with_length(2, &handshake)].concat()
}
