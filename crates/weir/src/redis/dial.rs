//! How a connection is made: address, TCP, TLS, password and database, and a first response.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo, Value};
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, spawn_local};
use tokio_rustls::TlsConnector;

use super::address::{Address, Host, Servers};

/// A connection that Redis has responded on.
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    /// Who responds.
    pub(super) host: Host,
    /// Moves bytes for `connection`; it ends when the connection does, and ends the connection when it is dropped.
    pub(super) driver: Driver,
}

/// The task behind a connection.
pub(super) struct Driver(JoinHandle<()>);

impl Driver {
    fn start(driver: Pin<Box<dyn Future<Output = ()>>>) -> Self {
        Driver(spawn_local(driver))
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&mut self) {
        // A panic in there ends the connection like anything else.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Where messages of subscriptions go.
pub(super) type Pushes = UnboundedSender<PushInfo>;

/// Why there is no connection, for the log; no secret is in it.
pub(super) type Trouble = String;

/// Makes connections to the servers of one [`Address`].
pub(super) struct Dialer {
    address: Address,
    tls: Option<TlsConnector>,
}

/// Whom to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peer {
    /// This server.
    Host(Host),
    /// Whoever the Sentinels say is the primary.
    Primary,
}

impl Dialer {
    /// Reads the certificates that the system trusts (or those of `SSL_CERT_FILE`) when the address is for TLS.
    pub(super) fn new(address: Address) -> Self {
        let tls = address.tls.then(|| TlsConnector::from(Arc::new(tls_config())));
        Dialer { address, tls }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// A connection to `peer` on which Redis has responded. `name` is what `CLIENT LIST` shows.
    pub(super) async fn dial(&self, peer: &Peer, name: &str) -> Result<Live, Trouble> {
        self.dial_with(peer, name, None).await
    }

    /// The same, for subscriptions: with `pushes` the connection speaks RESP3 (Redis 6), in which messages come beside responses.
    pub(super) async fn dial_with(&self, peer: &Peer, name: &str, pushes: Option<Pushes>) -> Result<Live, Trouble> {
        let Address { user, password, database, .. } = &self.address;
        let mut info = RedisConnectionInfo::default().set_db(i64::from(*database)).set_skip_set_lib_name();
        if let Some(user) = user {
            info = info.set_username(user);
        }
        if let Some(password) = password {
            info = info.set_password(password);
        }
        if pushes.is_some() {
            info = info.set_protocol(ProtocolVersion::RESP3);
        }
        match peer {
            Peer::Host(host) => {
                let live = self.open(host, &info, pushes).await?;
                greet(live, name).await
            }
            Peer::Primary => {
                let host = self.primary().await?;
                let live = greet(self.open(&host, &info, pushes).await?, name).await?;
                // Sentinel may not know yet that it is one no more.
                let role = live.connection.clone().send_packed_command(&redis::cmd("ROLE")).await;
                match role.map(first_word) {
                    Ok(Some(role)) if role != "master" => Err(format!("{host} is a {role}, not the primary")),
                    _ => Ok(live),
                }
            }
        }
    }

    /// Queries the Sentinels, one after the other, for the primary.
    pub(super) async fn primary(&self) -> Result<Host, Trouble> {
        let Servers::Sentinel { sentinels, service, password } = &self.address.servers else {
            return Err("no Sentinel is configured".to_owned());
        };
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = password {
            info = info.set_password(password);
        }
        let mut troubles = Vec::new();
        for sentinel in sentinels {
            match self.query_sentinel(sentinel, service, &info).await {
                Ok(host) => return Ok(host),
                Err(trouble) => troubles.push(trouble),
            }
        }
        Err(format!("no Sentinel knows the primary of {service}: {}", troubles.join("; ")))
    }

    async fn query_sentinel(
        &self,
        sentinel: &Host,
        service: &str,
        info: &RedisConnectionInfo,
    ) -> Result<Host, Trouble> {
        // One that hangs must not keep the next one from being queried.
        let requested = tokio::time::timeout(super::DIAL / 4, async {
            let mut live = self.open(sentinel, info, None).await?;
            let mut question = Cmd::new();
            question.arg("SENTINEL").arg("get-master-addr-by-name").arg(service);
            let response = live.connection.send_packed_command(&question).await;
            response.and_then(Value::extract_error).map_err(|error| format!("{sentinel}: {error}"))
        });
        let response = requested.await.map_err(|_| format!("{sentinel} does not respond"))??;
        match redis::from_redis_value::<Option<(String, u16)>>(response) {
            Ok(Some((name, port))) => Ok(Host { name, port }),
            Ok(None) => Err(format!("{sentinel} does not know the service")),
            Err(error) => Err(format!("{sentinel}: {error}")),
        }
    }

    /// TCP, TLS, password, database.
    async fn open(&self, host: &Host, info: &RedisConnectionInfo, pushes: Option<Pushes>) -> Result<Live, Trouble> {
        let of_host = |error: io::Error| format!("{host}: {error}");
        let stream = connect(host).await.map_err(of_host)?;
        // Deadlines are the caller's: they are shorter than what the library could know.
        let mut config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        if let Some(pushes) = pushes {
            config = config.set_push_sender(pushes);
        }
        let refused = |error: redis::RedisError| format!("{host}: {error}");
        let (connection, driver) = match &self.tls {
            None => {
                let made = MultiplexedConnection::new_with_config(info, stream, config).await;
                let (connection, driver) = made.map_err(refused)?;
                (connection, Box::pin(driver) as Pin<Box<dyn Future<Output = ()>>>)
            }
            Some(tls) => {
                let name = match host.name.parse::<IpAddr>() {
                    Ok(address) => ServerName::IpAddress(address.into()),
                    Err(_) => ServerName::try_from(host.name.clone()).map_err(|error| format!("{host}: {error}"))?,
                };
                let stream = tls.connect(name, stream).await.map_err(of_host)?;
                let made = MultiplexedConnection::new_with_config(info, stream, config).await;
                let (connection, driver) = made.map_err(refused)?;
                (connection, Box::pin(driver) as Pin<Box<dyn Future<Output = ()>>>)
            }
        };
        Ok(Live { connection, host: host.clone(), driver: Driver::start(driver) })
    }
}

/// Connects to the first address of a name that responds.
async fn connect(host: &Host) -> io::Result<TcpStream> {
    let stream = match host.name.parse::<IpAddr>() {
        Ok(address) => TcpStream::connect(SocketAddr::new(address, host.port)).await?,
        Err(_) => TcpStream::connect((&*host.name, host.port)).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Says who we are and waits for a response: without a password nothing has been exchanged yet, and a stopped Redis accepts connections.
async fn greet(mut live: Live, name: &str) -> Result<Live, Trouble> {
    let mut greeting = Pipeline::new();
    greeting.cmd("CLIENT").arg("SETNAME").arg(name);
    greeting.cmd("PING");
    let responses = live.connection.send_packed_commands(&greeting, 0, 2).await;
    let responses = responses.map_err(|error| format!("{}: {error}", live.host))?;
    // An access list may forbid either command; what matters is that commands are served at all.
    match responses.last() {
        Some(Value::ServerError(error)) if !matches!(error.code(), "NOPERM" | "ERR") => {
            Err(format!("{}: {} {}", live.host, error.code(), error.details().unwrap_or_default()))
        }
        _ => Ok(live),
    }
}

/// First string of a list.
fn first_word(response: Value) -> Option<String> {
    match response {
        Value::Array(list) => redis::from_redis_value(list.into_iter().next()?).ok(),
        _ => None,
    }
}

fn tls_config() -> rustls::ClientConfig {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "certificates of the system cannot be read: Redis over TLS may be refused");
    }
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports the protocol versions of this very library")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
