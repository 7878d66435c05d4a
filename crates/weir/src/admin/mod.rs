//! The admin listener: what an operator and a scraper may query about this process, and the actions that they may request.
//!
//! It runs on the control thread, separate from the public listeners, and trusts who can reach it: bind it to an address
//! that only they can. Against a browser on their machine, which a foreign page can make send requests, [`admin_http::guard`] looks
//! at every request first.

mod console;
pub mod difference;
mod problem;
mod purge;
mod routes;
mod targets;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use admin_http::Bounds;
use tokio::net::TcpListener;

pub use crate::worker::healthz::{Cachez, write_cachez, write_healthz};
pub use console::{
    CandidateState, CertificateState, Load, ModelState, ProcessState, ProviderKeyState, ProviderState, ReloadEvent,
};

use crate::exchange::cached::explain::CacheQuestion;
use crate::observe::Metrics;
use crate::policy::cache::purge::{Purge, PurgeError};
use crate::policy::limit::{BadQuestion, Question};
use crate::redis::Redis;
use crate::route::explain::{Explanation, Request};
use crate::upstream::{ActError, DrainedTarget, TargetAction, TargetCondition, UpstreamSnapshot};

/// What comes later, on the control thread.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the admin listener needs of the rest of the process. Called on the control thread, so nothing may block for
/// long.
pub trait Control: Send + Sync + 'static {
    /// The metrics of the process, for `/metrics` and the uptime.
    fn metrics(&self) -> &Metrics;
    /// State of all upstreams of the configuration in force, for `/upstreams` and `/healthz`.
    fn upstreams(&self) -> Vec<UpstreamSnapshot>;
    /// Does something to a target of an upstream; returns what it is like then.
    ///
    /// # Errors
    /// When there is no such target.
    fn act_on_target(&self, upstream: &str, target: &str, action: TargetAction) -> Result<TargetCondition, ActError>;
    /// Targets that operators keep requests away from.
    fn drained(&self) -> Vec<DrainedTarget>;
    /// The Redis of the configuration in force, for `/healthz`; none when it names none.
    fn redis(&self) -> Option<Arc<Redis>> {
        None
    }
    /// The routes of the configuration in force in the order of the file, for `/routes`.
    fn routes(&self) -> serde_json::Value;
    /// Which route takes a request by the configuration in force; none when the process does not say. Nothing is sent.
    fn explain_route(&self, _request: Request) -> Later<'_, Option<Explanation>> {
        Box::pin(std::future::ready(None))
    }
    /// The authenticators of the configuration in force, without any credential.
    fn authenticators(&self) -> Later<'_, serde_json::Value> {
        Box::pin(std::future::ready(serde_json::Value::Null))
    }
    /// What a token says, and what authenticators and routes make of it; none when no worker responds. The token is not kept.
    fn judge_token(&self, _token: String) -> Later<'_, Option<serde_json::Value>> {
        Box::pin(std::future::ready(None))
    }
    /// What the cache of its route has for a request, or what is wrong with it; none when no worker responds.
    fn look_up_cached(&self, _question: CacheQuestion) -> Later<'_, Option<Result<serde_json::Value, String>>> {
        Box::pin(std::future::ready(None))
    }
    /// The configuration in force as YAML, without secrets, for `/config`.
    fn config_yaml(&self) -> String;
    /// Takes responses out of the caches, or calls them stale; returns how many. An error says which name or URL is wrong (422).
    fn purge(&self, purge: Purge) -> Pin<Box<dyn Future<Output = Result<u64, PurgeError>> + Send + '_>>;
    /// By what the configuration file differs from the configuration in force, both without secrets.
    ///
    /// # Errors
    /// Why that cannot be said, for people.
    fn difference(&self) -> Later<'_, Result<difference::Difference, ReloadError>> {
        Box::pin(std::future::ready(Err(ReloadError::NoFile(String::new()))))
    }
    /// Counts of the cache, for `/cachez`; none when there is no cache.
    fn cachez(&self) -> Option<Cachez>;
    /// Whether load balancers should send requests here; `/healthz` says 503 if not.
    fn is_ready(&self) -> bool;
    /// What the rate limits know of a key, for `/limits`.
    fn limits(
        &self,
        question: Question,
    ) -> Pin<Box<dyn Future<Output = Result<serde_json::Value, BadQuestion>> + Send + '_>>;
    /// Forgets what was charged to a key; the names of the limits that had something to forget.
    fn reset_limits(
        &self,
        question: Question,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<String>, BadQuestion>> + Send + '_>>;
    /// Who may use the console, by the configuration in force.
    fn console(&self) -> crate::config::Console {
        crate::config::Console::default()
    }
    /// What the process has to do at the moment; read every second.
    fn load(&self) -> Load {
        Load::default()
    }
    /// What the console shows beside the counts.
    fn process_state(&self) -> ProcessState {
        ProcessState::default()
    }
    /// Reads the configuration again, checks it, and puts it in force. Several calls may overlap.
    fn reload(&self) -> Pin<Box<dyn Future<Output = Result<Reloaded, ReloadError>> + Send + '_>>;
}

/// A configuration was put in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reloaded {
    /// What differs from the one before, a line for each; empty when nothing does.
    pub changes: Vec<String>,
}

/// Why the configuration in force stays; each with what, where and what to do, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// The file is wrong: with line and column (422).
    #[error("{0}")]
    Invalid(String),
    /// There is no file to read again (409).
    #[error("{0}")]
    NoFile(String),
    /// The file cannot be read, or something that it requests cannot be had, such as an address to listen on (500).
    #[error("{0}")]
    Failed(String),
}

/// Bounds of the listener: few clients, short requests. A connection that is idle or slow for as long as a scraper may
/// pause is closed.
const BOUNDS: Bounds = Bounds { connections: 64, head_or_idle: Duration::from_secs(90) };

/// Serves the admin endpoints until `shutdown` completes; then finishes the requests in flight, for up to a second.
pub async fn serve(listener: TcpListener, control: Arc<dyn Control>, shutdown: impl Future<Output = ()>) {
    let console = console::Console::new(control.clone());
    tokio::select! {
        () = admin_http::serve(listener, routes::router(control, console.clone()), BOUNDS, shutdown) => {}
        () = console.sample() => {}
    }
}

#[cfg(test)]
mod tests;
