//! A connection to one server, kept by a task of its own: requests use it, they never make it.
//!
//! A link is *up*, *connecting* or *down*. Down is the open breaker: a request is told at once that there is nothing to be had. The
//! keeper alone tries again, in the background, after a pause that grows to [`PAUSE_MAX`]; the link is up when Redis has responded to a PING on
//! a new connection. While it connects for the first time, or again after the connection was closed, requests wait, within their own
//! deadline; when that attempt fails the link is down.
//!
//! It goes down when the connection breaks and cannot be made again, and when [`TIMEOUTS`] requests one after the other, each begun after the one before had been
//! given up, get no response before the deadline: one slow moment of Redis fails the requests that it meets and nothing else.
//!
//! It also goes down when Redis replies with errors that say that it executes no commands. Then a new connection is on trial: calls use it,
//! health and metrics count it as down, and the first such error closes it again; the first success ends the trial.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use super::address::Host;
use super::dial::{Dialer, Live, Peer, Trouble};
use super::health::Health;
use super::{DIAL, Failure, PAUSE_MAX};
use crate::observe::RedisMetrics;

/// So many in a row open the breaker.
const TIMEOUTS: u32 = 3;
/// Errors that open the breaker at once. `READONLY`: a primary that became a replica; a new connection, or a new look at Sentinels or the cluster, leads to the
/// one that took over.
const AT_ONCE: [&str; 4] = ["LOADING", "BUSY", "NOAUTH", "READONLY"];
/// Errors that open it when they come repeatedly: they may concern some commands only.
const REPEATED: [&str; 6] = ["OOM", "MISCONF", "NOPERM", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN"];
/// First pause between two attempts to connect; it doubles.
const PAUSE: Duration = Duration::from_millis(20);
/// A connection that lasted so long was a good one: the pauses begin anew.
const STEADY: Duration = Duration::from_secs(1);
/// How often the Sentinels are queried whether the primary is still the same.
const SENTINEL_TIMEOUT: Duration = Duration::from_secs(1);

/// One server's connection, of one worker, for one purpose.
pub(super) struct Link {
    peer: Peer,
    dialer: Arc<Dialer>,
    /// What `CLIENT LIST` shows.
    name: String,
    health: Arc<Health>,
    metrics: Rc<RedisMetrics>,
    state: RefCell<State>,
    /// Told whenever `state` changes.
    changed: Notify,
    /// Told when the keeper should give up the connection that it has.
    broken: Rc<Notify>,
    /// Error replies in a row that say that commands are not executed.
    refused: Cell<u32>,
    /// Whether such replies opened the breaker and no command has succeeded since. The connection is used, but does not count as serving.
    on_trial: Cell<bool>,
    /// Whether health and metrics count this link as down.
    is_counted_down: Cell<bool>,
    /// Timeouts in a row, and when the last of them was noticed.
    timeouts: Cell<(u32, Option<Instant>)>,
    keeper: RefCell<Option<AbortHandle>>,
}

enum State {
    /// Nobody has requested anything.
    Idle,
    Connecting,
    Up(MultiplexedConnection),
    Down,
}

impl Link {
    /// A link that connects when it is first used.
    pub(super) fn new(
        peer: Peer,
        dialer: Arc<Dialer>,
        name: String,
        health: Arc<Health>,
        metrics: Rc<RedisMetrics>,
    ) -> Rc<Self> {
        Rc::new(Link {
            peer,
            dialer,
            name,
            health,
            metrics,
            state: RefCell::new(State::Idle),
            changed: Notify::new(),
            broken: Rc::default(),
            refused: Cell::default(),
            on_trial: Cell::default(),
            is_counted_down: Cell::default(),
            timeouts: Cell::default(),
            keeper: RefCell::default(),
        })
    }

    /// Connects, if nothing was done about that yet.
    pub(super) fn start(self: &Rc<Self>) {
        if matches!(*self.state.borrow(), State::Idle) {
            self.state.replace(State::Connecting);
            self.health.link_made();
            let keeper = spawn_local(keep(Rc::downgrade(self), self.broken.clone()));
            *self.keeper.borrow_mut() = Some(keeper.abort_handle());
        }
    }

    /// The server, unless the Sentinels choose it.
    pub(super) fn host(&self) -> Option<&Host> {
        match &self.peer {
            Peer::Host(host) => Some(host),
            Peer::Primary => None,
        }
    }

    /// Whether a request would be sent, or may wait for the first connection.
    pub(super) fn may_serve(&self) -> bool {
        !matches!(*self.state.borrow(), State::Down)
    }

    /// Sends one command. The value may be an error of Redis.
    pub(super) async fn command(self: &Rc<Self>, cmd: &Cmd, deadline: Instant) -> Result<Value, Failure> {
        let send = async |mut connection: MultiplexedConnection| connection.send_packed_command(cmd).await;
        let value = self.send(send, deadline).await?;
        self.check(std::slice::from_ref(&value))?;
        Ok(value)
    }

    /// Sends commands in one go. Each of the values may be an error of Redis.
    pub(super) async fn pipeline(
        self: &Rc<Self>,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, Failure> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let send = async |mut connection: MultiplexedConnection| {
            connection.send_packed_commands(pipeline, 0, pipeline.len()).await
        };
        let values = self.send(send, deadline).await?;
        self.check(&values)?;
        Ok(values)
    }

    async fn send<T>(
        self: &Rc<Self>,
        send: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>,
        deadline: Instant,
    ) -> Result<T, Failure> {
        self.start();
        let began = Instant::now();
        let requested = tokio::time::timeout_at(deadline.into(), async {
            let connection = self.connection().await?;
            match send(connection).await {
                Ok(values) => Ok(values),
                Err(error) if error.is_unrecoverable_error() || error.is_io_error() => Err(Failure::Disconnected),
                Err(error) => Err(Failure::Refused(error.to_string())),
            }
        });
        match requested.await {
            Ok(Ok(values)) => {
                self.timeouts.set((0, None));
                Ok(values)
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => {
                self.timed_out(began);
                Err(Failure::TimedOut)
            }
        }
    }

    /// The connection, once there is one.
    async fn connection(&self) -> Result<MultiplexedConnection, Failure> {
        loop {
            let changed = self.changed.notified();
            match &*self.state.borrow() {
                State::Up(connection) => return Ok(connection.clone()),
                State::Down => return Err(Failure::Unavailable),
                State::Idle | State::Connecting => {}
            }
            changed.await;
        }
    }

    fn timed_out(&self, began: Instant) {
        let (count, last) = self.timeouts.get();
        if last.is_none_or(|last| began >= last) {
            self.timeouts.set((count + 1, Some(Instant::now())));
            if count + 1 >= TIMEOUTS {
                self.give_up("requests time out");
            }
        }
    }

    /// Looks for errors that say that this server does not execute commands. Some hold for every command and open the breaker at once; others
    /// (full memory, a failed snapshot, missing permissions) do so when [`TIMEOUTS`] calls in a row meet them.
    fn check(&self, values: &[Value]) -> Result<(), Failure> {
        let errors = values.iter().filter_map(|value| match value {
            Value::ServerError(error) => Some((code(error), error)),
            _ => None,
        });
        let mut is_refused = false;
        for (code, error) in errors {
            let text = || format!("{} {}", error.code(), error.details().unwrap_or_default());
            if AT_ONCE.contains(&code) {
                self.on_trial.set(true);
                self.give_up(&text());
                return Err(Failure::Refused(text()));
            }
            if REPEATED.contains(&code) && !is_refused {
                is_refused = true;
                self.health.refused(&text());
                self.refused.set(self.refused.get() + 1);
                if self.on_trial.get() || self.refused.get() >= TIMEOUTS {
                    self.on_trial.set(true);
                    self.give_up(&text());
                    return Err(Failure::Refused(text()));
                }
            }
        }
        if !is_refused {
            self.refused.set(0);
            if self.on_trial.replace(false) {
                self.count_up();
            }
        }
        Ok(())
    }

    /// Opens the breaker and has the connection made anew.
    fn give_up(&self, why: &str) {
        self.set(State::Down, why);
        self.broken.notify_one();
    }

    fn set(&self, state: State, why: &str) {
        let is_down = matches!(state, State::Down);
        self.state.replace(state);
        if is_down && !self.is_counted_down.replace(true) {
            self.health.went_down(why);
            self.metrics.breaker_opened();
        } else if !is_down && !self.on_trial.get() {
            self.count_up();
        }
        self.refused.set(0);
        self.timeouts.set((0, None));
        self.changed.notify_waiters();
    }

    fn count_up(&self) {
        if self.is_counted_down.replace(false) {
            self.health.came_up();
            self.metrics.breaker_closed();
        }
    }

    async fn dial(&self) -> Result<Live, Trouble> {
        match tokio::time::timeout(DIAL, self.dialer.dial(&self.peer, &self.name)).await {
            Ok(dialled) => dialled,
            Err(_) => Err(format!("no response within {DIAL:?}")),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get_mut() {
            keeper.abort();
            self.count_up();
            self.health.link_closed();
        }
    }
}

/// Code of an error. Redis 6 hides that of a command in a script behind `ERR`.
fn code(error: &redis::ServerError) -> &str {
    let known = AT_ONCE.iter().chain(&REPEATED);
    match (error.code(), error.details()) {
        ("ERR", Some(details)) => known.copied().find(|code| details.contains(&format!(": -{code} "))).unwrap_or("ERR"),
        (code, _) => code,
    }
}

/// Keeps a link connected, for as long as the link lives.
async fn keep(link: Weak<Link>, broken: Rc<Notify>) {
    let mut pause = Pauses::new();
    loop {
        let Some(strong) = link.upgrade() else { return };
        match strong.dial().await {
            Ok(mut live) => {
                // What was said about an earlier connection.
                let _ = tokio::time::timeout(Duration::ZERO, broken.notified()).await;
                strong.metrics.connected();
                strong.set(State::Up(live.connection.clone()), "");
                drop(strong);
                let up_since = Instant::now();
                let ended = watch(&link, &mut live, &broken).await;
                let Some(link) = link.upgrade() else { return };
                if up_since.elapsed() >= STEADY {
                    pause = Pauses::new();
                }
                if let Ended::ByItself = ended {
                    link.set(State::Connecting, "");
                }
            }
            Err(trouble) => {
                strong.set(State::Down, &trouble);
                drop(strong);
            }
        }
        tokio::time::sleep(pause.next()).await;
    }
}

/// How a connection came to its end.
enum Ended {
    /// It was closed, or the primary is another one now: it is made anew before anybody is turned away.
    ByItself,
    /// The breaker is open.
    GivenUp,
}

async fn watch(link: &Weak<Link>, live: &mut Live, broken: &Notify) -> Ended {
    let mut look = tokio::time::interval(SENTINEL_TIMEOUT.min(STEADY));
    look.reset();
    loop {
        tokio::select! {
            () = live.driver.ended() => return Ended::ByItself,
            () = broken.notified() => return Ended::GivenUp,
            _ = look.tick() => {
                let Some(link) = link.upgrade() else { return Ended::GivenUp };
                link.health.is_steady();
                if link.peer == Peer::Primary {
                    // Without a response the one that serves is kept.
                    let primary = tokio::time::timeout(SENTINEL_TIMEOUT, link.dialer.primary()).await;
                    if let Ok(Ok(primary)) = primary && primary != live.host {
                        return Ended::ByItself;
                    }
                }
            }
        }
    }
}

/// Pauses between attempts: none, then 20 ms, doubling, with a quarter more or less, so that a fleet does not knock in step.
pub(super) struct Pauses {
    next: Duration,
    random: u64,
}

impl Pauses {
    pub(super) fn new() -> Self {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Pauses { next: Duration::ZERO, random }
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).clamp(PAUSE, PAUSE_MAX);
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        pause.mul_f64(0.75 + (self.random >> 40) as f64 / (1u64 << 25) as f64)
    }
}
