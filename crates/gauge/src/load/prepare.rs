//! From what a workload says to what the engines run: everything read, resolved and checked before the first request.

mod operation;
mod secure;
mod url;
mod values;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::chat::{Chat, Slo};
use super::grpc;
use super::websocket::Messages;
use super::workload::{Closed, Load, Mark, Open, Order, Protocol, Rates, Share, Span, Statuses, WebSocket, Workload};
pub(crate) use operation::{Body, Capture, CaptureFrom, Operation, json};
pub(crate) use secure::Secure;
pub use url::Url;
pub(crate) use values::{Table, Value};

/// Why a workload cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A URL that is none, or of a kind that is not supported.
    #[error("{url}: {problem}")]
    Url {
        /// As written.
        url: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A name that does not resolve.
    #[error("{host}: cannot find its address: {error}")]
    Resolve {
        /// The name.
        host: String,
        /// What the system said.
        error: io::Error,
    },
    /// A file that cannot be read.
    #[error("{}: {error}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// TLS that cannot be set up.
    #[error("tls: {0}")]
    Tls(String),
    /// A method of gRPC that the server's reflection does not describe.
    #[error("operation `{operation}`: reflection at {url}: {problem}")]
    Reflection {
        /// The name of the operation.
        operation: String,
        /// Where it was requested.
        url: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// An operation that makes no sense.
    #[error("operation `{operation}`: {problem}")]
    Operation {
        /// Its name.
        operation: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A load that makes no sense.
    #[error("load{}: {problem}", .phase.as_ref().map(|phase| format!(", phase `{phase}`")).unwrap_or_default())]
    Load {
        /// Which phase, if there are phases.
        phase: Option<String>,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// A workload that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) authorities: Vec<Authority>,
    /// Those of the workload, then those of its setup.
    pub(crate) operations: Vec<Operation>,
    pub(crate) phases: Vec<Phase>,
    /// CSV files.
    pub(crate) tables: Vec<Table>,
    /// Walks through ranges, lists and files, and counters: how many there are.
    pub(crate) cursors: usize,
    /// Values that responds may set: how many there are.
    pub(crate) captures: usize,
    pub(crate) protocol: Protocol,
    pub(crate) timeout: Duration,
    pub(crate) seed: u64,
    pub(crate) share: Share,
    pub(crate) mark: Option<Mark>,
    /// Responses are event streams.
    pub(crate) event_streams: bool,
    /// Requests are chat calls.
    pub(crate) llm: Option<ChatCalls>,
    /// Each request has a connection of its own.
    pub(crate) new_connections: bool,
    /// Operations are upgrades to WebSocket, over which these messages are sent.
    pub(crate) websocket: Option<Messages>,
}

/// What the engine knows of chat calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChatCalls {
    pub(crate) stream: bool,
    pub(crate) slo: Option<Slo>,
}

/// Where requests go.
#[derive(Debug, Clone)]
pub(crate) struct Authority {
    /// As in the Host field.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// Of `https`.
    pub(crate) secure: Option<Secure>,
}

/// A part of the load, with the operations that it chooses from.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) measured: bool,
    pub(crate) kind: Kind,
    /// Indices of operations with the sum of weights up to and including each.
    pub(crate) choice: Vec<(usize, f64)>,
    pub(crate) order: Order,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Closed(Closed),
    Open(Open),
    /// Each user does each operation once.
    Setup,
}

impl Phase {
    /// How long it takes by plan; `None` when its iterations say.
    pub(crate) fn duration(&self) -> Option<Duration> {
        match &self.kind {
            Kind::Closed(closed) if closed.iterations.is_some() => None,
            Kind::Closed(closed) => closed.duration,
            Kind::Open(open) => Some(open.duration),
            Kind::Setup => None,
        }
    }
}

impl Prepared {
    /// Reads the files, resolves the names, and checks everything.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(workload: &Workload) -> Result<Self, PrepareError> {
        match &workload.llm {
            Some(chat) => Self::with(&with_chat(workload, chat)?),
            None => Self::with(workload),
        }
    }

    fn with(workload: &Workload) -> Result<Self, PrepareError> {
        let websocket = workload.websocket.as_ref().map(|plan| messages(workload, plan)).transpose()?;
        let mut builder = operation::Builder::new(workload)?;
        let mut operations = Vec::with_capacity(workload.operations.len() + workload.setup.len());
        for operation in workload.operations.iter().chain(&workload.setup) {
            operations.push(builder.operation(operation)?);
        }
        builder.check_tls(workload)?;
        let captures = builder.captures();
        let mut phases = Vec::new();
        if !workload.setup.is_empty() {
            let choice = (workload.operations.len()..operations.len()).map(|index| (index, 0.0)).collect();
            phases.push(Phase {
                name: "setup".to_owned(),
                measured: false,
                kind: Kind::Setup,
                choice,
                order: Order::Sequence,
            });
        }
        add_phases(workload, &mut phases)?;
        if let Protocol::Http2 { streams: 0 } = workload.protocol {
            return Err(PrepareError::Load {
                phase: None,
                problem: "a connection needs at least one stream".to_owned(),
            });
        }
        if workload.new_connections && workload.protocol != Protocol::Http1 {
            return Err(PrepareError::Load {
                phase: None,
                problem: "a connection for each request is of HTTP/1.1; over HTTP/2 requests share connections"
                    .to_owned(),
            });
        }
        if workload.timeout.is_zero() {
            return Err(PrepareError::Load { phase: None, problem: "the timeout must be longer than 0".to_owned() });
        }
        Ok(Prepared {
            authorities: builder.authorities,
            operations,
            phases,
            tables: builder.values.tables,
            cursors: builder.values.cursors,
            captures,
            protocol: workload.protocol,
            timeout: workload.timeout,
            seed: workload.seed,
            share: workload.share,
            mark: workload.mark.clone(),
            event_streams: workload.event_streams,
            llm: workload.llm.as_ref().map(|chat| ChatCalls { stream: chat.stream, slo: chat.slo }),
            new_connections: workload.new_connections,
            websocket,
        })
    }

    /// Users and connections at the busiest time, of all threads together.
    pub(crate) fn slots(&self) -> u32 {
        let of = |phase: &Phase| match &phase.kind {
            Kind::Closed(closed) => self.share.users(closed.users.most()),
            Kind::Open(open) => open.connections,
            Kind::Setup => 0,
        };
        self.phases.iter().map(of).max().unwrap_or(0)
    }

    /// Whether TLS is spoken.
    pub(crate) fn has_tls(&self) -> bool {
        self.authorities.iter().any(|authority| authority.secure.is_some())
    }

    /// Whether methods of gRPC are called.
    pub(crate) fn has_grpc(&self) -> bool {
        self.operations.iter().any(|operation| operation.grpc.is_some())
    }

    /// How long the load takes by plan, as far as that is known.
    pub fn planned(&self) -> Option<Duration> {
        self.phases.iter().filter(|phase| !matches!(phase.kind, Kind::Setup)).map(Phase::duration).sum()
    }

    /// Index of the first phase that counts, the setup included.
    pub fn first_measured(&self) -> Option<usize> {
        self.phases.iter().position(|phase| phase.measured)
    }

    /// The name of a phase by its index, the setup included.
    pub fn phase_name(&self, phase: usize) -> Option<&str> {
        self.phases.get(phase).map(|phase| phase.name.as_str())
    }

    /// How many requests the plan holds, where only their number ends it.
    pub fn planned_requests(&self) -> Option<u64> {
        let of = |phase: &Phase| match &phase.kind {
            Kind::Closed(closed) => closed.iterations_of(self.share),
            Kind::Open(_) | Kind::Setup => None,
        };
        self.phases.iter().filter(|phase| !matches!(phase.kind, Kind::Setup)).map(of).sum()
    }
}

impl Closed {
    /// Requests that a user sends, by its number over all generators.
    pub(crate) fn iterations_of_user(&self, user: u32) -> Option<u64> {
        let users = u64::from(self.users.most()).max(1);
        self.iterations.map(|iterations| iterations / users + u64::from(u64::from(user) < iterations % users))
    }

    /// Requests of the users of one generator.
    fn iterations_of(&self, share: Share) -> Option<u64> {
        let own = share.users(self.users.most());
        self.iterations?;
        (0..own).map(|user| self.iterations_of_user(share.user(user))).sum()
    }
}

impl Span {
    /// The share of the time at which a changing number of users passes a user's: in the middle between this user and the next, so that the mean is that of the
    /// two ends. None: the user is there all the time.
    pub(crate) fn passes(self, user: u32) -> Option<f64> {
        let Span::Ramp { from, to } = self else { return None };
        let (few, many) = (from.min(to), from.max(to));
        (user >= few && many > few).then(|| {
            let share = (f64::from(user - few) + 0.5) / f64::from(many - few);
            if from < to { share } else { 1.0 - share }
        })
    }

    /// The mean number of the users of one generator.
    pub(crate) fn mean_of(self, share: Share) -> f64 {
        let Span::Ramp { from, to } = self else { return f64::from(share.users(self.most())) };
        let active = |user: u32| match self.passes(share.user(user)) {
            None => 1.0,
            Some(at) if from < to => 1.0 - at,
            Some(at) => at,
        };
        (0..share.users(self.most())).map(active).sum()
    }

    /// At the busiest time.
    pub(crate) fn most(self) -> u32 {
        match self {
            Span::Constant(users) => users,
            Span::Ramp { from, to } => from.max(to),
        }
    }

    /// In the mean.
    pub(crate) fn mean(self) -> f64 {
        match self {
            Span::Constant(users) => f64::from(users),
            Span::Ramp { from, to } => (f64::from(from) + f64::from(to)) / 2.0,
        }
    }
}

impl Rates {
    /// In the mean.
    pub(crate) fn mean(self) -> f64 {
        match self {
            Rates::Constant(rate) => rate,
            Rates::Ramp { from, to } => (from + to) / 2.0,
        }
    }
}

/// The workload with chat calls as its operations.
fn with_chat(workload: &Workload, chat: &Chat) -> Result<Workload, PrepareError> {
    let wrong = |problem: String| PrepareError::Operation { operation: "llm".to_owned(), problem };
    if !workload.operations.is_empty() {
        return Err(wrong("there are `operations` beside it; write one of the two".to_owned()));
    }
    if workload.protocol != Protocol::Http1 {
        return Err(wrong("its calls go over HTTP/1.1; leave out `protocol`".to_owned()));
    }
    let operations = chat.operations(workload.seed).map_err(wrong)?;
    Ok(Workload { operations, ..workload.clone() })
}

/// The messages of a workload over WebSocket.
fn messages(workload: &Workload, plan: &WebSocket) -> Result<Messages, PrepareError> {
    let wrong = |problem: &str| PrepareError::Load { phase: None, problem: format!("`websocket`: {problem}") };
    for (is_wrong, problem) in [
        (workload.protocol != Protocol::Http1, "connections are upgraded from HTTP/1.1; leave out `protocol`"),
        (workload.llm.is_some(), "chat calls are not messages over WebSocket; leave out `llm`"),
        (workload.event_streams, "its messages are not event streams; leave out `event_streams`"),
        (workload.new_connections, "a connection for each message is `messages: 1`; leave out `new_connections`"),
        (workload.mark.is_some(), "messages have no header fields; leave out `mark`"),
        (!workload.setup.is_empty(), "all operations are upgrades; leave out `setup`"),
    ] {
        if is_wrong {
            return Err(wrong(problem));
        }
    }
    Messages::new(plan).map_err(|problem| wrong(&problem))
}

/// Most users or connections: each is a file descriptor, and a process has a million at most on common systems.
const MOST_SLOTS: u32 = 1_000_000;

fn add_phases(workload: &Workload, phases: &mut Vec<Phase>) -> Result<(), PrepareError> {
    let mut sum = 0.0;
    let mut choice = Vec::new();
    for (index, operation) in workload.operations.iter().enumerate() {
        if !(operation.weight.is_finite() && operation.weight >= 0.0) {
            let problem = format!("its weight is {}; a weight is 0 or more", operation.weight);
            return Err(PrepareError::Operation { operation: operation.id.clone(), problem });
        }
        sum += operation.weight;
        if operation.weight > 0.0 {
            choice.push((index, sum));
        }
    }
    if choice.is_empty() {
        return Err(PrepareError::Load {
            phase: None,
            problem: "there is no operation with a weight above 0".to_owned(),
        });
    }
    let mut add = |name: &str, phase: Option<&str>, measured: bool, kind: Kind| {
        check(&kind).map_err(|problem| PrepareError::Load { phase: phase.map(str::to_owned), problem })?;
        phases.push(Phase { name: name.to_owned(), measured, kind, choice: choice.clone(), order: workload.order });
        Ok(())
    };
    match &workload.load {
        Load::Closed(closed) => add("load", None, true, Kind::Closed(closed.clone()))?,
        Load::Open(open) => add("load", None, true, Kind::Open(open.clone()))?,
        Load::Phases(list) => {
            for phase in list {
                let name = Some(phase.name.as_str());
                let kind = match (&phase.closed, &phase.open) {
                    (Some(closed), None) => Kind::Closed(closed.clone()),
                    (None, Some(open)) => Kind::Open(open.clone()),
                    _ => {
                        let problem = "it needs either `closed` or `open`".to_owned();
                        return Err(PrepareError::Load { phase: Some(phase.name.clone()), problem });
                    }
                };
                add(&phase.name, name, !phase.warmup, kind)?;
            }
            let measured = list.iter().any(|phase| !phase.warmup);
            let mut names: Vec<&str> = list.iter().map(|phase| phase.name.as_str()).collect();
            names.sort_unstable();
            let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
            let problem = match twice {
                Some(pair) => format!("two phases are called `{}`", pair[0]),
                None if !measured => "no phase is measured: all are warm-up".to_owned(),
                None => return Ok(()),
            };
            return Err(PrepareError::Load { phase: None, problem });
        }
    }
    Ok(())
}

fn check(kind: &Kind) -> Result<(), String> {
    match kind {
        Kind::Setup => {}
        Kind::Closed(closed) => {
            let users = closed.users.most();
            if users == 0 || users > MOST_SLOTS {
                return Err(format!("{users} users; there must be between 1 and {MOST_SLOTS}"));
            }
            match (closed.iterations, closed.duration) {
                (None, None) => {
                    return Err("it says neither `iterations` nor `duration`: it would never end".to_owned());
                }
                (Some(0), _) => return Err("`iterations` must be at least 1".to_owned()),
                (_, Some(duration)) if duration.is_zero() => {
                    return Err("the duration must be longer than 0".to_owned());
                }
                (Some(_), _) if matches!(closed.users, Span::Ramp { .. }) => {
                    return Err("a changing number of users needs a duration, not iterations".to_owned());
                }
                _ => {}
            }
        }
        Kind::Open(open) => {
            if open.duration.is_zero() {
                return Err("the duration must be longer than 0".to_owned());
            }
            if open.connections == 0 || open.connections > MOST_SLOTS {
                return Err(format!("{} connections; there must be between 1 and {MOST_SLOTS}", open.connections));
            }
            let (super::workload::Rates::Constant(most) | super::workload::Rates::Ramp { to: most, .. }) = open.rate;
            let from = if let super::workload::Rates::Ramp { from, .. } = open.rate { from } else { most };
            if most.max(from) <= 0.0 {
                return Err("the rate must be higher than 0".to_owned());
            }
        }
    }
    Ok(())
}

/// What counts as expected when an operation does not say.
const DEFAULT_EXPECT: [Statuses; 2] = [Statuses::Class(2), Statuses::Class(3)];
/// The same of an upgrade.
const UPGRADED: [Statuses; 1] = [Statuses::One(101)];
/// The only one of a call of gRPC.
const CALLED: [Statuses; 1] = [Statuses::One(grpc::OK)];

#[cfg(test)]
mod tests;
