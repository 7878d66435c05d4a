//! A server with TLS on std threads, which counts what the clients did, and the certificates for it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

/// An authority, with a folder for files.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub folder: TempDir,
}

pub type Leaf = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of the test");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        Authority { issuer, folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// What `--ca` names.
    pub fn pem(&self) -> String {
        self.file("ca.pem", &self.issuer.pem())
    }

    /// A certificate for these names, changed by `edit`.
    pub fn leaf(&self, names: &[&str], edit: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let (key, leaf) = self.made(names, edit);
        (vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }

    /// Files of a client certificate and its key.
    pub fn client(&self) -> (String, String) {
        let (key, leaf) = self.made(&["client.test"], |_| {});
        (self.file("client.pem", &leaf.pem()), self.file("client.key", &key.serialize_pem()))
    }

    fn made(&self, names: &[&str], edit: impl FnOnce(&mut CertificateParams)) -> (KeyPair, rcgen::Certificate) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        edit(&mut params);
        let leaf = params.signed_by(&key, &self.issuer).expect("a certificate");
        (key, leaf)
    }

    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority");
        roots
    }
}

/// A configuration of a server that has this certificate.
pub fn config(leaf: Leaf, clients: Option<&Authority>) -> ServerConfig {
    config_of(leaf, clients, rustls::ALL_VERSIONS)
}

pub fn config_of(
    (chain, key): Leaf,
    clients: Option<&Authority>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ServerConfig {
    let provider = tls::provider::provider();
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(authority.roots()), provider)
                .build()
                .expect("a verifier"),
        ),
    };
    let mut config = builder.with_single_cert(chain, key).expect("a certificate");
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().expect("tickets");
    config
}

/// What a server saw.
#[derive(Debug, Default)]
pub struct Seen {
    pub connections: usize,
    pub full: usize,
    pub resumed: usize,
    /// Handshakes that failed.
    pub failed: usize,
    /// Heads of requests, and the lengths of their bodies.
    pub requests: Vec<(String, usize)>,
    /// Connections that the client ended without `close_notify`.
    pub unclean: usize,
    /// Sizes of the reads in which each head came.
    pub heads_in_records: Vec<usize>,
    pub names: Vec<Option<String>>,
}

/// How the server ends an exchange, and what it sends.
#[derive(Debug, Clone)]
pub enum Canned {
    /// `Content-Length`, kept alive unless the client closes.
    Sized(usize),
    /// `Content-Length`, then the end with `close_notify`, which no field announced.
    SizedOnce(usize),
    /// Until the end of the connection, with `close_notify`.
    UntilClosed(usize),
    /// The same without.
    Truncated(usize),
    /// Half of a body with `Content-Length`, then the end without `close_notify`.
    Cut(usize),
}

pub struct Server {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Seen>>,
}

impl Server {
    pub fn start(config: ServerConfig, response: Canned) -> Self {
        Self::start_over(config, response, |stream| stream)
    }

    /// The same, on a socket that `over` wraps.
    pub fn start_over<S: Read + Write + 'static>(
        config: ServerConfig,
        response: Canned,
        over: impl Fn(TcpStream) -> S + Send + Sync + 'static,
    ) -> Self {
        let (config, over) = (Arc::new(config), Arc::new(over));
        Self::accept(move |stream, seen| {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            let _ = serve(StreamOwned::new(connection, over(stream)), &response, seen);
        })
    }

    /// A server that does this with each connection, on a thread of its own.
    pub fn accept(handle: impl Fn(TcpStream, &Mutex<Seen>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (noted, handle) = (Arc::clone(&seen), Arc::new(handle));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                noted.lock().expect("no panic").connections += 1;
                let _ = stream.set_nodelay(true);
                let (noted, handle) = (Arc::clone(&noted), Arc::clone(&handle));
                std::thread::spawn(move || handle(stream, &noted));
            }
        });
        Server { address, seen }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

fn serve<S: Read + Write>(
    mut stream: StreamOwned<ServerConnection, S>,
    response: &Canned,
    seen: &Mutex<Seen>,
) -> io::Result<()> {
    let noted = || seen.lock().expect("no panic");
    while stream.conn.is_handshaking() {
        if let Err(error) = stream.conn.complete_io(&mut stream.sock) {
            noted().failed += 1;
            return Err(error);
        }
    }
    match stream.conn.handshake_kind() {
        Some(HandshakeKind::Resumed) => noted().resumed += 1,
        _ => noted().full += 1,
    }
    noted().names.push(stream.conn.server_name().map(str::to_owned));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut head = Vec::new();
        let end = loop {
            if let Some(end) = head.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    noted().heads_in_records.push(length);
                    head.extend_from_slice(&buffer[..length]);
                }
                Err(error) => return Err(error),
            }
        };
        let text = String::from_utf8_lossy(&head[..end]).into_owned();
        let expected = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
        let mut body = head.split_off(end);
        while body.len() < expected {
            let length = stream.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            body.extend_from_slice(&buffer[..length]);
        }
        assert_eq!(body, testkit::pattern::bytes(expected), "the body as it was sent");
        noted().requests.push((text.clone(), body.len()));
        match *response {
            Canned::Sized(size) | Canned::SizedOnce(size) => {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")?;
                stream.write_all(&testkit::pattern::bytes(size))?;
                stream.flush()?;
                if text.contains("\r\nConnection: close\r\n") || matches!(response, Canned::SizedOnce(_)) {
                    return close(&mut stream, seen);
                }
            }
            Canned::UntilClosed(size) => {
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
                stream.write_all(&testkit::pattern::bytes(size))?;
                return close(&mut stream, seen);
            }
            Canned::Truncated(size) => {
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
                stream.write_all(&testkit::pattern::bytes(size))?;
                return stream.flush();
            }
            Canned::Cut(size) => {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")?;
                stream.write_all(&testkit::pattern::bytes(size / 2))?;
                return stream.flush();
            }
        }
    }
}

/// Says `close_notify`, and waits for the client's end, so that no reset overtakes what was sent.
fn close<S: Read + Write>(stream: &mut StreamOwned<ServerConnection, S>, seen: &Mutex<Seen>) -> io::Result<()> {
    stream.conn.send_close_notify();
    stream.flush()?;
    let ended = io::copy(stream, &mut io::sink());
    seen.lock().expect("no panic").unclean += usize::from(ended.is_err());
    ended.map(|_| ())
}

/// A socket that takes and gives one byte at a time.
pub struct Bytewise(pub TcpStream);

impl Read for Bytewise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(1);
        self.0.read(&mut buffer[..most])
    }
}

impl Write for Bytewise {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(&buffer[..buffer.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
