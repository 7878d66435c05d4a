//! The process: what is started in which order.
//!
//! All that can fail comes first, requests last: a process that takes over and cannot start leaves the old one serving, and nothing that
//! waits in a shared queue is lost.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc;

use super::control::{ControlThread, Signals};
use super::descriptors;
use super::error::ServeError;
use super::inherited::Inherited;
use super::listen;
use super::listeners::Listeners;
use super::notify::ServiceManager;
use super::offers::Offers;
use super::reload::{Controller, FirstReading, Source, generation, resolve};
use super::self_signed::SelfSigned;
use super::socket_file::SocketFile;
use super::takeover::{self, OldProcess, Sockets};
use super::workers::Workers;
use crate::config::{self, Bind, Config, TargetAddress};
use crate::demo;
use crate::observe::metrics::{Exposition, collect_caches, collect_certificates, collect_upstreams};
use crate::observe::{AccessLog, Metrics, Push, Traces, collect_exports, with_instance};
use crate::runtime::clock;
use crate::upstream::Resolver;
use crate::worker::shared::Shared;

/// What the runtime of the control thread takes: for polling two, for signals two and a duplicate.
const RUNTIME_DESCRIPTORS: usize = 5;

/// What telemetry and the access log may take once requests are drained. A call of a collector may take two seconds of it.
const LAST: Duration = Duration::from_secs(3);

/// What the command line says beside the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Listeners in clear text speak TLS with a certificate that is made at start: for development.
    pub tls_self_signed: bool,
}

/// Runs the gateway until it is told to end and has drained.
///
/// # Errors
/// Why it could not start, or did not end by itself.
pub fn serve(source: Source, options: Options) -> Result<(), ServeError> {
    clock::process_start();
    let mut inherited = Inherited::of_process()
        .map_err(|error| ServeError::system("cannot find the sockets that this process was started with", error))?;
    let self_signed =
        options.tls_self_signed.then(SelfSigned::new).transpose().map_err(|error| {
            ServeError::system("cannot make a self-signed certificate", std::io::Error::other(error))
        })?;
    let (began, seen) = (SystemTime::now(), source.fingerprint());
    let loaded = source.load(self_signed.as_ref()).map_err(ServeError::Config)?;
    let config = &loaded.config;
    let count = config.workers.map_or_else(available_cores, std::num::NonZeroUsize::get);

    let descriptors = descriptors::limit(config.server.raises_files);
    let (sockets, old, unused_files) = open_sockets(config, count, &mut inherited)?;
    // Twice: the control thread keeps duplicates. Each worker has a descriptor also of a socket that they share.
    let listeners = 2 * sockets.groups.iter().map(|group| group.sockets.len().max(count)).sum::<usize>();
    let descriptor_bound = descriptors::connections(descriptors, count, listeners);
    if descriptor_bound < config.server.max_connections {
        tracing::warn!(
            max_connections = config.server.max_connections,
            descriptors,
            connections = descriptor_bound,
            "the limit on open files allows fewer client connections than `max_connections`; raise `ulimit -Hn`, with `files: keep` also `ulimit -Sn`"
        );
    }
    let metrics = Metrics::new();
    let access_log = match &config.access_log {
        Some(spec) => Some(
            AccessLog::start(spec, &metrics)
                .map_err(|error| ServeError::system("cannot open the access log", error))?,
        ),
        None => None,
    };

    let telemetry = with_instance(&config.telemetry);
    let traces = match &telemetry.traces {
        Some(traces) => Some(
            Traces::start(&telemetry, traces)
                .map_err(|error| ServeError::system("cannot start the thread that sends traces", error))?,
        ),
        None => None,
    };

    let push = telemetry.metrics.as_ref().map(|metrics| Push::new(&telemetry, metrics));
    let (mailboxes, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
    let can_give_away = config.takeover.is_some();
    let generation = Arc::new(generation(loaded.config, None));
    let shared = Shared::new(generation, mailboxes, metrics, access_log, traces, push, descriptor_bound);
    // Weak: the metrics belong to what the source looks into.
    let process = Arc::downgrade(&shared);
    shared.metrics().add_source(Arc::new(move |out: &mut Exposition<'_>| {
        let Some(shared) = process.upgrade() else { return Ok(()) };
        let generation = shared.generation();
        let help = "Most client connections that may be open, by `max_connections` and open files";
        out.gauge("client_connections_limit", help, |s| s.add(&[], shared.connection_limit() as u64))?;
        collect_upstreams(&generation.upstreams.snapshot(), out)?;
        generation.limits.collect(out)?;
        collect_exports(shared.traces(), shared.push(), out)?;
        generation.ai.counters.collect(out, generation.ai.held_bytes())?;
        generation.ai.collect_keys(&generation.config, out)?;
        collect_caches(&shared.caches(), out)?;
        collect_certificates(generation.config.listen.iter().filter_map(|listener| listener.names()), out)?;
        generation.auth.collect_issuers(out)?;
        generation.auth.collect_remote_keys(out)
    }));
    let Sockets { groups, admin, control } = sockets;
    let configured = &shared.generation().config.listen.clone();
    let (listeners, sockets) = Listeners::new(configured, groups, count, can_give_away, inherited)
        .map_err(|error| ServeError::system("cannot keep the sockets for a take-over", error))?;
    let first = FirstReading { file: loaded.file, seen, began };
    let controller = Controller::new(source, self_signed, first, shared.clone(), Resolver::system(), listeners);
    let controller = Arc::new(controller);

    // With fewer the runtime panics, in the setup of its signals.
    let runtime = descriptors::ensure(RUNTIME_DESCRIPTORS)
        .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build())
        .map_err(|error| ServeError::system("cannot start the control thread", error))?;
    runtime.block_on(start_demo(&shared))?;
    runtime.block_on(async {
        let generation = shared.generation();
        generation.upstreams.learn(resolve(&generation.upstreams, &generation.config, controller.resolver()).await);
    });

    // The control thread has duplicates of the sockets to give away; they keep no queue alive once it drops them.
    let duplicates = if can_give_away {
        let copy = |error| ServeError::system("cannot keep the sockets for a take-over", error);
        let admin = admin.as_ref().map(TcpListener::try_clone).transpose().map_err(copy)?;
        let control = control.as_ref().map(UnixListener::try_clone).transpose().map_err(copy)?;
        Some(Sockets { groups: Vec::new(), admin, control })
    } else {
        None
    };
    let control_thread = runtime.block_on(async {
        let failed = |error| ServeError::system("cannot start the control thread", error);
        Ok::<_, ServeError>(ControlThread {
            shared: shared.clone(),
            controller,
            signals: Signals::new().map_err(|error| ServeError::system("cannot follow signals", error))?,
            admin: admin.map(tokio::net::TcpListener::from_std).transpose().map_err(failed)?,
            offers: Offers::new(
                control.map(tokio::net::UnixListener::from_std).transpose().map_err(failed)?,
                duplicates,
            ),
            old,
            unused_files,
            manager: Arc::new(ServiceManager::of_process()),
            takeover: shared.generation().config.takeover.clone(),
        })
    })?;
    let workers = Workers::start(sockets, receivers, &shared)?;
    let pushing = shared.push().is_some().then(|| {
        let shared = shared.clone();
        runtime.spawn(async move {
            if let Some(push) = shared.push() {
                push.run(shared.metrics()).await;
            }
        })
    });
    let outcome = runtime.block_on(control_thread.run(workers));
    send_last(&runtime, &shared, pushing);
    outcome
}

/// Sends and writes what was recorded last. The threads of the traces and of the access log work meanwhile.
fn send_last(runtime: &tokio::runtime::Runtime, shared: &Shared, pushing: Option<tokio::task::JoinHandle<()>>) {
    let ends = Instant::now() + LAST;
    let left = || ends.saturating_duration_since(Instant::now());
    let closing = shared.traces().map(Traces::begin_close);
    if let Some(pushing) = pushing {
        // A call in flight may take as long as `timeout` says; the last one has newer values.
        pushing.abort();
    }
    if let Some(push) = shared.push() {
        runtime.block_on(push.send_last(shared.metrics()));
    }
    if let Some(log) = shared.access_log() {
        log.close(left());
    }
    if let (Some(traces), Some(closing)) = (shared.traces(), closing) {
        let lost = traces.close(closing, left());
        if lost > 0 {
            tracing::warn!(spans = lost, "spans are lost: the collector did not take them before the process ended");
        }
    }
}

/// Writes a line to standard output. Whoever started this process may have closed it, or its disk may be full: requests are served all the same.
pub fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
        tracing::warn!(%error, line, "cannot write to standard output");
    }
}

/// Starts the demo services that targets name.
async fn start_demo(shared: &Shared) -> Result<(), ServeError> {
    let generation = shared.generation();
    let targets = generation.config.upstreams.iter().flat_map(|upstream| &upstream.targets);
    let mut started = Vec::new();
    for target in targets {
        let TargetAddress::Demo(service) = target.address else { continue };
        if started.contains(&service) {
            continue;
        }
        let settings = demo::Settings::from_env(|name| std::env::var_os(name)).map_err(ServeError::Demo)?;
        let address = demo::start(service, settings)
            .await
            .map_err(|error| ServeError::system(format!("cannot start the demo service {}", service.name()), error))?;
        generation.upstreams.set_demo_address(service, address);
        started.push(service);
    }
    Ok(())
}

/// What listens, the way to the process that gave it, and the files of what it gave that the configuration does not have.
type OpenSockets = (Sockets, Option<OldProcess>, Vec<SocketFile>);

/// Listening sockets: those of a running process where it gives them, new ones else. All of them are bound here.
fn open_sockets(config: &Config, workers: usize, inherited: &mut Inherited) -> Result<OpenSockets, ServeError> {
    let (given, old) = match &config.takeover {
        Some(path) => takeover::request(path)
            .map_err(|error| ServeError::TakeOver { path: path.display().to_string(), why: error.to_string() })?
            .unzip(),
        None => (None, None),
    };
    let mut given = given.unwrap_or_default();
    let mut sockets = Sockets::default();
    for socket in inherited.unused(config.listen.iter().map(|listen| &listen.bind)) {
        tracing::warn!(socket, "no listener uses a socket that this process was started with");
    }
    for group in &given.groups {
        let Bind::Inherited(which) = &group.bind else { continue };
        let duplicates = group.sockets.iter().map(|socket| socket.as_fd().try_clone_to_owned());
        let failed = |error| ServeError::Listen { key: "listen", address: group.bind.to_string(), error };
        inherited.give(which, duplicates.collect::<Result<_, _>>().map_err(failed)?);
    }
    for config::Listen { bind, mode, .. } in &config.listen {
        let failed = |error| ServeError::Listen { key: "listen", address: bind.to_string(), error };
        let group = match given.groups.iter().position(|group| is_same(&group.bind, bind)) {
            Some(position) => {
                let mut group = given.groups.remove(position);
                group.grow(workers).map_err(failed)?;
                group
            }
            None => listen::open(bind, *mode, workers, inherited).map_err(failed)?,
        };
        sockets.groups.push(group);
    }
    if let Some(address) = config.admin {
        let failed = |error| ServeError::Listen { key: "admin", address: address.to_string(), error };
        let is_admin = |given: &TcpListener| given.local_addr().is_ok_and(|given| is_same_address(given, address));
        let given = given.admin.filter(is_admin);
        let listener = given.map_or_else(|| TcpListener::bind(address), Ok).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        sockets.admin = Some(listener);
    }
    if let Some(path) = &config.takeover {
        let failed = |error| ServeError::Listen { key: "takeover", address: path.display().to_string(), error };
        let listener = given.control.map_or_else(|| takeover::listen(path), Ok).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        sockets.control = Some(listener);
    }
    let unused_files = given.groups.into_iter().filter_map(|group| group.file).collect();
    Ok((sockets, old, unused_files))
}

/// Whether a listener that was given is the one that the configuration means.
fn is_same(given: &Bind, configured: &Bind) -> bool {
    match (given, configured) {
        (Bind::Tcp(given), Bind::Tcp(configured)) => is_same_address(*given, *configured),
        _ => given == configured,
    }
}

/// The same for addresses. Port 0 stands for whatever port the old process has at that address.
fn is_same_address(given: SocketAddr, configured: SocketAddr) -> bool {
    given == configured || (configured.port() == 0 && given.ip() == configured.ip())
}

/// Cores that this process may use: affinity and cgroup quota respected.
fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}
