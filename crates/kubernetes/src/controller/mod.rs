//! The loop: objects change, the configuration follows, the leader writes statuses.

mod bundle;
mod lease;
mod reflect;
mod services;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::Client;
use crate::cluster::Cluster;
use crate::objects::Key;
use crate::translate::{self, Allocations, Refusal, Refusals, Settings, Translation};
use lease::Leader;
pub use lease::{LeaseSettings, Shutdown};
use reflect::{Change, Scope};
use write::Writer;

/// Objects that change together, as after an apply of a folder, are one configuration.
const SETTLE: Duration = Duration::from_millis(5);
/// However fast objects change, a configuration is made as often as this.
const MOST_SETTLE: Duration = Duration::from_millis(50);
/// How often statuses are looked at that could not be written, or that others wrote.
const AGAIN: Duration = Duration::from_secs(5);

/// Longest pause between attempts to put a configuration in force that was refused.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The gateway that follows.
pub trait Follow: Send + Sync {
    /// Puts a configuration in force.
    fn apply(&self, translation: &Translation) -> impl Future<Output = Result<(), Refused>> + Send;
    /// Changes targets only.
    fn set_endpoints(&self, endpoints: BTreeMap<String, Vec<SocketAddr>>);
}

/// Why a configuration was not put in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// What is wrong.
    pub message: String,
    /// Names of routes that are wrong, with what is wrong with each.
    pub routes: BTreeMap<String, String>,
    /// Names of listeners that cannot be opened, with the reason.
    pub binds: BTreeMap<String, String>,
}

/// Follows a cluster for as long as the process lives. After `shutdown` it writes nothing any more, and gives its lease back.
pub async fn run(
    client: Client,
    settings: Settings,
    lease: Option<LeaseSettings>,
    gateway: impl Follow,
    shutdown: Shutdown,
) {
    let (sender, mut changes) = mpsc::unbounded_channel();
    let kinds = reflect::start(&client, &sender);
    bundle::start(&client, &sender);
    let leader = Leader::start(client.clone(), lease, shutdown);
    let writer = Writer::start(client, leader, sender.clone());
    let mut state = State::default();
    let mut listed = BTreeSet::new();
    let mut again = tokio::time::interval(AGAIN);
    again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let first = tokio::select! {
            change = changes.recv() => match change {
                Some(change) => change,
                None => return,
            },
            _ = again.tick() => {
                if std::mem::take(&mut state.has_new_statuses) || state.retry.is_due() {
                    state.follow(&settings, &gateway, &writer).await;
                } else {
                    writer.look_again();
                }
                continue;
            }
        };
        let mut scope = Scope::None;
        let latest = Instant::now() + MOST_SETTLE;
        let mut next = Some(first);
        while let Some(change) = next.take() {
            let Change { kind, is_list, apply } = change;
            scope = scope.and(apply(&mut state.cluster));
            if is_list && listed.insert(kind) && listed.len() == kinds {
                tracing::info!("every kind of objects was listed");
                scope = Scope::All;
            }
            // Endpoints are in force at once.
            let wait = if matches!(scope, Scope::All) { SETTLE } else { Duration::ZERO };
            let until = (Instant::now() + wait).min(latest);
            next = match changes.try_recv() {
                Ok(change) => Some(change),
                Err(_) => tokio::time::timeout_at(until, changes.recv()).await.ok().flatten(),
            };
        }
        if listed.len() < kinds {
            continue;
        }
        match scope {
            Scope::None => {}
            Scope::Statuses => state.has_new_statuses = true,
            Scope::Endpoints(services) => {
                gateway.set_endpoints(translate::endpoints(&state.cluster, &services));
            }
            Scope::All => state.follow(&settings, &gateway, &writer).await,
        }
    }
}

type InForce = (Arc<Value>, Arc<BTreeMap<String, Vec<u8>>>);

#[derive(Default)]
struct State {
    cluster: Cluster,
    allocations: Allocations,
    /// What is in force: document and files.
    last: Option<InForce>,
    /// Statuses of routes were written since they were last looked at.
    has_new_statuses: bool,
    retry: Retry,
}

/// When a configuration is tried again that was refused for a reason that is not among the objects, as a port that another process has.
#[derive(Default)]
struct Retry {
    due: Option<Instant>,
    pause: Duration,
}

impl Retry {
    fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    fn after(&mut self, is_whole: bool) {
        if is_whole {
            *self = Retry::default();
            return;
        }
        self.pause = (self.pause * 2).clamp(AGAIN, LONGEST_RETRY);
        self.due = Some(Instant::now() + self.pause);
    }
}

impl State {
    async fn follow(&mut self, settings: &Settings, gateway: &impl Follow, writer: &Writer) {
        let mut refusals = Refusals::default();
        loop {
            let mut next = translate::translate_without(&self.cluster, settings, &mut self.allocations, &refusals);
            let is_same =
                self.last.as_ref().is_some_and(|(document, files)| (document, files) == (&next.document, &next.files));
            if is_same {
                gateway.set_endpoints(std::mem::take(&mut next.endpoints));
            } else if let Err(why) = gateway.apply(&next).await {
                if take_in(&mut refusals, &why) {
                    continue;
                }
                self.retry.after(false);
                tracing::error!(
                    "the configuration made from the objects was refused, the last one stays in force:\n{}",
                    why.message
                );
                return;
            }
            writer.write(std::mem::take(&mut next.statuses), std::mem::take(&mut next.services));
            self.last = Some((next.document, next.files));
            self.has_new_statuses = false;
            self.retry.after(refusals.binds.is_empty());
            return;
        }
    }
}

/// Adds what was refused; whether the next configuration is another one for it.
fn take_in(refusals: &mut Refusals, refused: &Refused) -> bool {
    let mut is_new = false;
    for (name, why) in &refused.binds {
        is_new |= refusals.binds.insert(name.clone(), why.clone()).is_none();
    }
    for (name, why) in &refused.routes {
        match refusals.routes.get_mut(name) {
            None => {
                refusals.routes.insert(name.clone(), Refusal { why: why.clone(), is_left_out: false });
                is_new = true;
            }
            // Also with 500 as its response: it is the match.
            Some(refusal) => is_new |= !std::mem::replace(&mut refusal.is_left_out, true),
        }
    }
    is_new
}

/// Which services changed.
type Services = BTreeSet<Key>;
