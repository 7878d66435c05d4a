//! The control thread: signals, reloads, take-overs, the admin listener, and the end of the process.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::error::ServeError;
use super::notify::ServiceManager;
use super::offers::Offers;
use super::process::announce;
use super::reload::Controller;
use super::socket_file::SocketFile;
use super::takeover::{OldProcess, Outcome, Sockets};
use super::workers::Workers;
use crate::admin;
use crate::upstream::supervise;
use crate::worker::shared::{Message, Shared};

/// How often the configuration file is looked at.
const WATCH: Duration = Duration::from_secs(1);

/// How long workers have to give up what is in flight, and to write its lines of the log.
const CUT_OFF: Duration = Duration::from_secs(1);

/// How often limits are looked through for idle keys.
const SWEEP: Duration = Duration::from_secs(5);

/// The signals that the process follows.
pub struct Signals {
    end: EndSignals,
    hang_up: Signal,
}

/// SIGTERM and SIGINT.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on they no longer end the process by themselves. Needs a runtime.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        let end =
            EndSignals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
        Ok(Signals { end, hang_up: signal(SignalKind::hangup())? })
    }
}

impl EndSignals {
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// What the control thread looks after.
pub struct ControlThread {
    /// State of the process.
    pub shared: Arc<Shared>,
    /// Reloads the configuration.
    pub controller: Arc<Controller>,
    /// What ends or reloads the process.
    pub signals: Signals,
    /// The admin listener.
    pub admin: Option<TcpListener>,
    /// Gives the sockets to a new process.
    pub offers: Offers,
    /// The process that this one takes over from.
    pub old: Option<OldProcess>,
    /// Files of that process' sockets that this one does not listen on.
    pub unused_files: Vec<SocketFile>,
    /// The service manager that follows the life of this process, if there is one.
    pub manager: Arc<ServiceManager>,
    /// Where that is requested.
    pub takeover: Option<PathBuf>,
}

/// Why the process ends.
enum Ending {
    /// It was told to.
    Signal,
    /// Another process has its sockets.
    HandedOver,
    /// One of its workers has ended.
    WorkerEnded(usize),
}

/// What came of the time between the signal and the drain.
enum Delay {
    Over,
    HandedOver,
    SecondSignal,
}

impl ControlThread {
    /// Runs until the process is told to end and has drained.
    ///
    /// # Errors
    /// When it was not told to end.
    pub async fn run(mut self, mut workers: Workers) -> Result<(), ServeError> {
        // Nothing is accepted before it is certain that the old process does not go on.
        if let Some(old) = self.old.take()
            && !self.take_over(old).await?
        {
            return Ok(());
        }
        self.controller.listeners().own_files();
        // Those of sockets that nobody listens on any more.
        self.unused_files.drain(..).for_each(|mut file| file.own());
        self.shared.tell_all(|| Message::Accept);
        for url in self.controller.listeners().urls() {
            announce(&format!("listening on {url}"));
        }
        let (stop_admin, stopped) = watch::channel(false);
        tokio::spawn(sweep_limits(self.shared.clone()));
        self.controller.follow_issuers();
        tokio::spawn(supervise(self.controller.upstreams(), self.controller.resolver().clone()));
        if let Some(listener) = self.admin.take() {
            if let Ok(address) = listener.local_addr() {
                announce(&format!("admin on http://{address}"));
                // Of an address for every interface people can use the one of this machine.
                let has_token = self.shared.generation().config.console.token.is_some();
                if has_token || address.ip().to_canonical().is_loopback() {
                    announce(&format!("console on http://{address}/console/"));
                }
            }
            tokio::spawn(admin::serve(listener, self.controller.clone(), until(stopped)));
        }

        let drive = self.controller.managed().and_then(|managed| managed.begin(self.controller.clone()));
        if let Some(drive) = drive {
            // Until the first objects are in force there is nothing to serve.
            self.shared.refuse_readiness();
            tokio::spawn(drive);
        }

        self.manager.ready();
        let ending = self.serve(&mut workers).await;
        self.manager.stopping();
        let controller = self.controller.clone();
        // Beside the drain, which follows objects as before.
        let shutdown = tokio::spawn(async move {
            if let Some(managed) = controller.managed() {
                managed.shut_down().await;
            }
        });
        let result = self.end(ending, &mut workers, &stop_admin).await;
        let _ = shutdown.await;
        result
    }

    async fn end(
        &mut self,
        ending: Ending,
        workers: &mut Workers,
        stop_admin: &watch::Sender<bool>,
    ) -> Result<(), ServeError> {
        match ending {
            Ending::Signal => {
                self.shared.refuse_readiness();
                match self.wait_before_drain().await {
                    Delay::Over => self.drain(workers, stop_admin).await,
                    Delay::HandedOver => self.hand_over(workers, stop_admin).await,
                    Delay::SecondSignal => {
                        self.stop_accepting();
                        self.cut_off(workers).await;
                    }
                }
            }
            Ending::HandedOver => self.hand_over(workers, stop_admin).await,
            Ending::WorkerEnded(index) => {
                tracing::error!(index, "a worker ended unexpectedly: the process drains and ends");
                self.shared.refuse_readiness();
                self.drain(workers, stop_admin).await;
                return Err(ServeError::WorkerEnded { index });
            }
        }
        let _ = stop_admin.send(true);
        Ok(())
    }

    /// Tells the old process that this one can serve. False when a signal ends this process meanwhile.
    async fn take_over(&mut self, old: OldProcess) -> Result<bool, ServeError> {
        let (done, outcome) = oneshot::channel();
        // On a thread of its own, because it blocks: signals are followed meanwhile.
        std::thread::spawn(move || {
            let _ = done.send(old.ready());
        });
        let outcome = tokio::select! {
            outcome = outcome => outcome.unwrap_or(Outcome::Silent),
            () = self.signals.end.recv() => return Ok(false),
        };
        let why = match outcome {
            Outcome::Draining => {
                tracing::info!("took over from the running process, which drains");
                return Ok(true);
            }
            Outcome::Ended => {
                tracing::warn!("took over from a process that ended meanwhile");
                return Ok(true);
            }
            Outcome::Withdrawn => "this process took too long to start",
            Outcome::Silent => "it did not respond within the deadline",
        };
        let path = self.takeover.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        Err(ServeError::TakeOver { path, why: why.to_owned() })
    }

    /// Follows what happens until something ends the process.
    async fn serve(&mut self, workers: &mut Workers) -> Ending {
        let mut look = tokio::time::interval(WATCH);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.signals.end.recv() => return Ending::Signal,
                index = workers.one_ended() => return Ending::WorkerEnded(index),
                _ = self.signals.hang_up.recv() => {
                    if let Some(log) = self.shared.access_log() {
                        log.reopen();
                    }
                    // One reload is enough for both.
                    self.controller.file_changed();
                    self.reload("SIGHUP");
                }
                _ = look.tick(), if self.controller.watched().is_some() => {
                    self.controller.follow_credentials();
                    // Both are looked at: one reload reads all.
                    let has_new_certificates = self.controller.tls_files_changed();
                    if self.controller.file_changed() {
                        self.reload("the file changed");
                    } else if has_new_certificates {
                        self.reload("a certificate or key file changed");
                    }
                }
                () = self.offers.taken(|others| all_sockets(&self.controller, others)) => return Ending::HandedOver,
            }
        }
    }

    /// Reloads beside what else there is to follow: it may wait for name servers. What came of it is logged.
    fn reload(&self, why: &'static str) {
        let (controller, manager) = (self.controller.clone(), self.manager.clone());
        tokio::spawn(async move {
            manager.reloading();
            match controller.reload(why).await {
                Ok(_) => manager.ready(),
                Err(_) => manager.refused(),
            }
        });
    }

    /// Leaves load balancers the time to see that this process is no longer ready. A second signal ends it at once.
    async fn wait_before_drain(&mut self) -> Delay {
        let delay = self.shared.generation().config.server.drain_delay;
        if delay.is_zero() {
            return Delay::Over;
        }
        tracing::info!(?delay, "no longer ready: still serving, draining after the delay");
        tokio::select! {
            () = tokio::time::sleep(delay) => Delay::Over,
            () = self.offers.taken(|others| all_sockets(&self.controller, others)) => Delay::HandedOver,
            () = self.signals.end.recv() => {
                tracing::warn!("second signal: ending at once");
                Delay::SecondSignal
            }
        }
    }

    /// Drains, because another process has the sockets. The admin address belongs to that one.
    async fn hand_over(&mut self, workers: &mut Workers, stop_admin: &watch::Sender<bool>) {
        let _ = stop_admin.send(true);
        self.controller.listeners().disown_files();
        self.offers.end();
        self.drain(workers, stop_admin).await;
    }

    fn stop_accepting(&mut self) {
        let mut listeners = self.controller.listeners();
        // The process that is being given the sockets may serve, and needs their files.
        if self.offers.is_giving() {
            listeners.disown_files();
        }
        listeners.drop_duplicates();
        // Before the sockets close: who comes later finds no file, not one that refuses.
        listeners.remove_files();
        drop(listeners);
        self.shared.drain();
    }

    /// Drains: no new connections; requests in flight end, until the deadline or a second signal. A new process gets the admin address.
    async fn drain(&mut self, workers: &mut Workers, stop_admin: &watch::Sender<bool>) {
        self.stop_accepting();
        tracing::info!(connections = self.shared.connections(), "draining");
        let drain = self.shared.generation().config.server.drain;
        let deadline = async {
            match drain {
                Some(drain) => tokio::time::sleep(drain).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                () = workers.all_ended() => return,
                () = &mut deadline => tracing::warn!(connections = self.shared.connections(), "drain deadline passed"),
                () = self.signals.end.recv() => tracing::warn!("second signal: ending at once"),
                () = self.offers.taken(|others| all_sockets(&self.controller, others)) => {
                    let _ = stop_admin.send(true);
                    self.offers.end();
                    continue;
                }
            }
            break;
        }
        self.cut_off(workers).await;
    }

    /// Gives up what is in flight: it has had its time. A worker that does not end is left behind.
    async fn cut_off(&self, workers: &mut Workers) {
        self.shared.cut_off();
        if tokio::time::timeout(CUT_OFF, workers.all_ended()).await.is_err() {
            tracing::warn!("a worker does not end: lines of the access log may be missing");
        }
    }
}

/// Duplicates of all sockets, for another process.
fn all_sockets(controller: &Controller, others: &Sockets) -> io::Result<Sockets> {
    Ok(Sockets { groups: controller.listeners().duplicates()?, ..others.try_clone()? })
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
