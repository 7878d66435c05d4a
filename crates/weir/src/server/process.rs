//! The process: what is started in which order, and how it ends.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::listen::{self, Group};
use super::reload::{Controller, Fingerprint, Source, generation};
use super::shared::{Message, Shared};
use super::takeover::{self, TakenOver};
use super::{clock, run};
use crate::admin;
use crate::config::{Config, LoadError, TargetAddress};
use crate::demo;
use crate::observe::metrics::{Exposition, collect_caches, collect_upstreams};
use crate::observe::{AccessLog, Metrics};
use crate::upstream::{Resolver, supervise};

/// How often the configuration file is looked at.
const WATCH: Duration = Duration::from_secs(1);

/// How often limits are looked through for idle keys.
const SWEEP: Duration = Duration::from_secs(5);

/// How long a start waits for names to be resolved; what takes longer is asked for again while requests are served.
const RESOLVE_AT_START: Duration = Duration::from_secs(2);

/// Why the process could not start. Each knows its exit code (sysexits.h).
#[derive(Debug)]
pub enum StartError {
    /// The configuration is wrong or cannot be read.
    Config(LoadError),
    /// An address cannot be listened on.
    Listen {
        /// Which key of the configuration asked for it.
        key: &'static str,
        /// The address or path.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// A variable that sets up a demo service is wrong.
    Demo(demo::BadSetting),
    /// Something else that the system refuses.
    System {
        /// What was tried.
        what: String,
        /// Why.
        error: io::Error,
    },
}

impl StartError {
    /// Exit code: 64 for a wrong configuration, 66 for an unreadable one, 69 for an address in use, 71 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::Config(LoadError::Invalid(_)) | StartError::Demo(_) => 64,
            StartError::Config(LoadError::Unreadable { .. }) => 66,
            StartError::Listen { .. } => 69,
            StartError::System { .. } => 71,
        }
    }

    fn system(what: impl Into<String>, error: io::Error) -> Self {
        StartError::System { what: what.into(), error }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::Demo(error) => error.fmt(f),
            StartError::Listen { key, address, error } => match error.kind() {
                io::ErrorKind::AddrInUse => write!(
                    f,
                    "cannot listen on {address} (`{key}`): another process listens there already. Stop it, choose another \
                     address (port 0 takes a free port), or set `takeover` in both to replace a running weir without losing a connection."
                ),
                io::ErrorKind::PermissionDenied => write!(
                    f,
                    "cannot listen on {address} (`{key}`): permission denied. Ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one or grant it."
                ),
                _ => write!(f, "cannot listen on {address} (`{key}`): {error}"),
            },
            StartError::System { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Runs the gateway until it is told to end and has drained.
///
/// # Errors
/// Why it could not start.
pub fn serve(source: Source) -> Result<(), StartError> {
    clock::process_start();
    let loaded = source.load().map_err(StartError::Config)?;
    let config = &loaded.config;
    let workers = config.workers.map_or_else(available_cores, std::num::NonZeroUsize::get);

    let (groups, taken) = listeners(config, workers)?;
    let admin = config.admin.map(bind_admin).transpose()?;
    let metrics = Metrics::new();
    let access_log = match &config.access_log {
        Some(spec) => Some(
            AccessLog::start(spec, &metrics)
                .map_err(|error| StartError::system("cannot open the access log", error))?,
        ),
        None => None,
    };

    let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    let drain = config.server.drain;
    let takeover_path = config.takeover.clone();
    let generation = Arc::new(generation(loaded.config, None));
    let shared = Shared::new(generation, senders, metrics, access_log);
    // Weak: the metrics belong to what the source looks into.
    let process = Arc::downgrade(&shared);
    shared.metrics().add_source(Arc::new(move |out: &mut Exposition<'_>| {
        let Some(shared) = process.upgrade() else { return Ok(()) };
        let generation = shared.generation();
        collect_upstreams(&generation.upstreams.snapshot(), out)?;
        generation.limits.collect(out)?;
        collect_caches(&shared.caches(), out)
    }));
    let controller = Arc::new(Controller::new(source, loaded.file, shared.clone()));

    // The control thread has duplicates of the sockets to give away; they keep no queue alive once it drops them.
    let addresses: Vec<SocketAddr> = groups.iter().map(|group| group.address).collect();
    let duplicates = if takeover_path.is_some() { duplicate(&groups)? } else { Vec::new() };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StartError::system("cannot start the control thread", error))?;
    runtime.block_on(start_demo(&shared))?;
    let resolver = Resolver::system();
    let unresolved = runtime.block_on(shared.generation().upstreams.resolve_unknown(&resolver, RESOLVE_AT_START));
    if !unresolved.is_empty() {
        tracing::warn!(
            names = unresolved.join(", "),
            "names without an address yet: their targets are out until they resolve"
        );
    }

    let (ended, workers_ended) = watch::channel(());
    let threads = start_workers(groups, receivers, &shared, &ended)?;
    drop(ended);
    let outcome = runtime.block_on(async {
        let control = ControlThread { shared: shared.clone(), controller, resolver, duplicates, drain, workers_ended };
        control.start(admin, &addresses, takeover_path.as_deref(), taken).await
    });
    outcome?;
    // Workers that outlived the deadline are left behind: what they serve has had its time.
    for thread in threads {
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
    if let Some(log) = shared.access_log() {
        log.close(Duration::from_secs(2));
    }
    Ok(())
}

/// Starts the demo services that targets name.
async fn start_demo(shared: &Shared) -> Result<(), StartError> {
    let generation = shared.generation();
    let targets = generation.config.upstreams.iter().flat_map(|upstream| &upstream.targets);
    let mut started = Vec::new();
    for target in targets {
        let TargetAddress::Demo(service) = target.address else { continue };
        if started.contains(&service) {
            continue;
        }
        let settings = demo::Settings::from_env(|name| std::env::var_os(name)).map_err(StartError::Demo)?;
        let address = demo::start(service, settings)
            .await
            .map_err(|error| StartError::system(format!("cannot start the demo service {}", service.name()), error))?;
        generation.upstreams.set_demo_address(service, address);
        started.push(service);
    }
    Ok(())
}

/// Cores that this process may use: affinity and cgroup quota respected.
fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// Listening sockets: those of a running process where it gives them, new ones else.
fn listeners(config: &Config, workers: usize) -> Result<(Vec<Group>, Option<TakenOver>), StartError> {
    let mut taken = match &config.takeover {
        Some(path) => takeover::request(path)
            .map_err(|error| StartError::system(format!("cannot take over from {}", path.display()), error))?,
        None => None,
    };
    let mut given = taken.as_mut().map(|taken| std::mem::take(&mut taken.groups)).unwrap_or_default();
    let mut groups = Vec::new();
    for &address in &config.listen {
        let failed = |error| StartError::Listen { key: "listen", address: address.to_string(), error };
        // Port 0 stands for whatever port the old process has at that address.
        let same =
            |group: &Group| group.address == address || (address.port() == 0 && group.address.ip() == address.ip());
        let group = match given.iter().position(same) {
            Some(position) => {
                let mut group = given.swap_remove(position);
                group.grow(workers).map_err(failed)?;
                group
            }
            None => listen::bind(address, workers).map_err(failed)?,
        };
        groups.push(group);
    }
    Ok((groups, taken))
}

fn bind_admin(address: SocketAddr) -> Result<std::net::TcpListener, StartError> {
    let failed = |error| StartError::Listen { key: "admin", address: address.to_string(), error };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn duplicate(groups: &[Group]) -> Result<Vec<(SocketAddr, Vec<OwnedFd>)>, StartError> {
    let copy = |socket: &std::net::TcpListener| socket.try_clone().map(OwnedFd::from);
    groups
        .iter()
        .map(|group| Ok((group.address, group.sockets.iter().map(copy).collect::<io::Result<_>>()?)))
        .collect::<io::Result<_>>()
        .map_err(|error| StartError::system("cannot keep the listening sockets for a take-over", error))
}

fn start_workers(
    groups: Vec<Group>,
    receivers: Vec<mpsc::UnboundedReceiver<Message>>,
    shared: &Arc<Shared>,
    ended: &watch::Sender<()>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let workers = receivers.len();
    let mut listeners: Vec<Vec<std::net::TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
    for group in groups {
        // More sockets than workers come from a process that had more of them: all must be listened on.
        for (index, socket) in group.sockets.into_iter().enumerate() {
            listeners[index % workers].push(socket);
        }
    }
    let start = |(index, (listeners, receiver)): (usize, (Vec<std::net::TcpListener>, _))| {
        let shared = shared.clone();
        let ended = ended.clone();
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), index);
        let thread = std::thread::Builder::new().name(format!("worker-{index}"));
        thread.spawn(move || {
            if let Err(error) = run::run(index, listeners, shared, receiver, seed) {
                tracing::error!(%error, index, "a worker could not start");
            }
            drop(ended);
        })
    };
    listeners
        .into_iter()
        .zip(receivers)
        .enumerate()
        .map(start)
        .collect::<io::Result<_>>()
        .map_err(|error| StartError::system("cannot start a worker thread", error))
}

/// What the control thread looks after.
struct ControlThread {
    shared: Arc<Shared>,
    controller: Arc<Controller>,
    resolver: Resolver,
    duplicates: Vec<(SocketAddr, Vec<OwnedFd>)>,
    drain: Option<Duration>,
    /// Closed when the last worker has ended.
    workers_ended: watch::Receiver<()>,
}

impl ControlThread {
    async fn start(
        mut self,
        admin: Option<std::net::TcpListener>,
        addresses: &[SocketAddr],
        takeover_path: Option<&Path>,
        taken: Option<TakenOver>,
    ) -> Result<(), StartError> {
        let failed = |error| StartError::system("cannot follow signals", error);
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
        let (stop, stopped) = watch::channel(false);

        tokio::spawn(sweep_limits(self.shared.clone()));
        tokio::spawn(supervise(self.controller.upstreams(), self.resolver.clone()));
        for address in addresses {
            println!("listening on http://{address}");
        }
        if let Some(listener) = admin {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
            if let Ok(address) = listener.local_addr() {
                println!("admin on http://{address}");
            }
            let stopped = stopped.clone();
            tokio::spawn(admin::serve(listener, self.controller.clone(), until(stopped)));
        }
        if let Some(taken) = taken {
            match tokio::task::spawn_blocking(move || taken.ready()).await {
                Ok(Ok(())) => tracing::info!("took over from the running process, which drains"),
                Ok(Err(error)) => tracing::warn!(%error, "the running process was not told to drain"),
                Err(_) => {}
            }
        }
        let mut takeovers = match takeover_path {
            Some(path) => {
                let failed = |error| StartError::Listen { key: "takeover", address: path.display().to_string(), error };
                let listener = takeover::listen(path).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Some(tokio::net::UnixListener::from_std(listener).map_err(failed)?)
            }
            None => None,
        };

        let mut look = tokio::time::interval(WATCH);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen = self.controller.watched().and_then(Fingerprint::of);
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => {
                    if let Some(log) = self.shared.access_log() {
                        log.reopen();
                    }
                    seen = self.controller.watched().and_then(Fingerprint::of);
                    let _ = self.controller.reload("SIGHUP").await;
                }
                _ = look.tick(), if self.controller.watched().is_some() => {
                    let now = self.controller.watched().and_then(Fingerprint::of);
                    if now.is_some() && now != seen {
                        seen = now;
                        let _ = self.controller.reload("the file changed").await;
                    }
                }
                stream = accept_takeover(takeovers.as_ref()) => match self.give_away(stream).await {
                    Ok(stream) => {
                        tracing::info!("another process takes over");
                        self.shared.drain();
                        let _ = takeover::confirm(&stream);
                        break;
                    }
                    Err(error) => tracing::warn!(%error, "a take-over was begun and not finished"),
                },
            }
        }
        takeovers.take();
        self.end(stop, &mut terminate, &mut interrupt).await;
        Ok(())
    }

    async fn give_away(&self, stream: tokio::net::UnixStream) -> io::Result<std::os::unix::net::UnixStream> {
        let stream = stream.into_std()?;
        let groups = self.duplicates.iter().map(|(address, sockets)| {
            Ok((*address, sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<Vec<_>>>()?))
        });
        let groups = groups.collect::<io::Result<Vec<_>>>()?;
        let given = tokio::task::spawn_blocking(move || takeover::give(&stream, &groups).map(|()| stream));
        given.await.map_err(io::Error::other)?
    }

    /// Drains: no new connections, answers in flight end, until the deadline or a second signal.
    async fn end(
        &mut self,
        stop: watch::Sender<bool>,
        terminate: &mut tokio::signal::unix::Signal,
        interrupt: &mut tokio::signal::unix::Signal,
    ) {
        self.duplicates.clear();
        self.shared.drain();
        tracing::info!(connections = self.shared.connections(), "draining");
        let deadline = async {
            match self.drain {
                Some(drain) => tokio::time::sleep(drain).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Nothing is ever sent; that the senders are gone is the news.
            _ = self.workers_ended.changed() => {}
            () = deadline => tracing::warn!(connections = self.shared.connections(), "drain deadline passed"),
            _ = terminate.recv() => tracing::warn!("second signal: ending at once"),
            _ = interrupt.recv() => tracing::warn!("second signal: ending at once"),
        }
        let _ = stop.send(true);
    }
}

/// Gives back what idle keys of limits hold, for as long as the process lives.
async fn sweep_limits(shared: Arc<Shared>) {
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        sweep.tick().await;
        shared.generation().limits.sweep();
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn accept_takeover(listener: Option<&tokio::net::UnixListener>) -> tokio::net::UnixStream {
    loop {
        match listener {
            None => std::future::pending().await,
            Some(listener) => match listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a take-over");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
        }
    }
}
