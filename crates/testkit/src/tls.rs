//! Relays that put TLS on, or take it off, so that plain servers and raw clients of this crate can stand on either side of it.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::tls::server::Listener;
use ::tls::{ClientConfig, Failure, Session};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A relay on a free port of 127.0.0.1. Dropped, it closes its port and all connections.
#[derive(Debug)]
pub struct TlsRelay {
    address: SocketAddr,
    seen: Arc<Seen>,
    _stop: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct Seen {
    accepted: AtomicUsize,
    sessions: Mutex<Vec<Session>>,
    failures: Mutex<Vec<Failure>>,
}

#[derive(Clone)]
enum Kind {
    /// TLS from the client, plain to the server.
    Terminate { listener: Listener, cuts: bool },
    /// Plain from the client, TLS to the server.
    Originate { config: Arc<ClientConfig>, name: String },
}

impl TlsRelay {
    /// A TLS server in front of a plain one.
    pub fn terminate(listener: Listener, to: SocketAddr) -> Self {
        Self::start(Kind::Terminate { listener, cuts: false }, to)
    }

    /// The same, but when the plain server ends its stream, the connection ends without `close_notify`.
    pub fn terminate_and_cut(listener: Listener, to: SocketAddr) -> Self {
        Self::start(Kind::Terminate { listener, cuts: true }, to)
    }

    /// A plain way to a TLS server, which must be `name`.
    pub fn originate(config: Arc<ClientConfig>, name: &str, to: SocketAddr) -> Self {
        Self::start(Kind::Originate { config, name: name.to_owned() }, to)
    }

    fn start(kind: Kind, to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        listener.set_nonblocking(true).expect("our own socket");
        let (stop, stopped) = oneshot::channel();
        let seen = Arc::new(Seen::default());
        let of_thread = seen.clone();
        let serve = move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    // The sender is dropped with the relay.
                    _ = stopped => {}
                    () = accept(listener, kind, to, of_thread) => {}
                }
            });
        };
        std::thread::Builder::new().name("tls relay".into()).spawn(serve).expect("a thread");
        TlsRelay { address, seen, _stop: stop }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://127.0.0.1:PORT`, for one that terminates.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Connections so far, failed handshakes included.
    pub fn accepted(&self) -> usize {
        self.seen.accepted.load(Ordering::SeqCst)
    }

    /// What was negotiated on each connection so far.
    pub fn sessions(&self) -> Vec<Session> {
        self.seen.sessions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why handshakes failed.
    pub fn failures(&self) -> Vec<Failure> {
        self.seen.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn accept(listener: tokio::net::TcpListener, kind: Kind, to: SocketAddr, seen: Arc<Seen>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let _ = client.set_nodelay(true);
        seen.accepted.fetch_add(1, Ordering::SeqCst);
        let (kind, seen) = (kind.clone(), seen.clone());
        tokio::spawn(async move {
            if let Err(error) = relay(client, kind, to, &seen).await {
                seen.failures.lock().unwrap_or_else(PoisonError::into_inner).push(Failure::of_io(&error));
            }
        });
    }
}

/// Only a failed handshake is an error.
async fn relay(client: TcpStream, kind: Kind, to: SocketAddr, seen: &Seen) -> std::io::Result<()> {
    let note = |session| seen.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    match kind {
        Kind::Terminate { listener, cuts } => {
            let mut client = ::tls::accept(client, &listener).await?;
            note(client.session());
            let Ok(mut server) = TcpStream::connect(to).await else { return Ok(()) };
            let _ = server.set_nodelay(true);
            if cuts {
                copy_until_the_server_ends(&mut client, &mut server).await;
            } else {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        }
        Kind::Originate { config, name } => {
            let server = TcpStream::connect(to).await?;
            let _ = server.set_nodelay(true);
            let name = ::tls::client::server_name(&name).expect("a name");
            let mut server = ::tls::connect(server, config, name).await?;
            note(server.session());
            let mut client = client;
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    }
    Ok(())
}

async fn copy_until_the_server_ends<C, S>(client: &mut C, server: &mut S)
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut up, mut down) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    loop {
        tokio::select! {
            count = client.read(&mut up) => match count {
                Ok(count) if count > 0 && server.write_all(&up[..count]).await.is_ok() => {}
                _ => return,
            },
            count = server.read(&mut down) => match count {
                Ok(count) if count > 0 && client.write_all(&down[..count]).await.is_ok() => {
                    let _ = client.flush().await;
                }
                _ => return,
            },
        }
    }
}
