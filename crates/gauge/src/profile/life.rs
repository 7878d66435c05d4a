//! `life`: what happens to requests while something happens.

use std::time::Duration;

use serde::Deserialize;

use crate::load::units;

/// The scenarios, and how they are run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Life {
    /// Requests per second.
    pub rate: u32,
    /// How long a fault lasts.
    #[serde(with = "units::serde_duration")]
    pub hold: Duration,
    /// What happens, one after the other, each to a gateway that was started for it.
    pub events: Vec<Event>,
    /// Numbers of routes to start gateways with.
    pub routes: Vec<u32>,
    /// Clients that send the head of a request byte by byte.
    pub slow_clients: usize,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The gateway gets a configuration with one more route, and its signal.
    Reload,
    /// The gateway is told to end once its requests have.
    Drain,
    /// The upstream is killed, and started again.
    UpstreamKilled,
    /// The upstream stands still, and goes on.
    UpstreamStopped,
    /// The upstream stands still three quarters of the time.
    UpstreamSlow,
    /// Many clients never end their requests.
    SlowClients,
}

impl Default for Life {
    fn default() -> Self {
        use Event::{Drain, Reload, SlowClients, UpstreamKilled, UpstreamSlow, UpstreamStopped};
        Life {
            rate: 200,
            hold: Duration::from_secs(1),
            events: vec![Reload, Drain, UpstreamKilled, UpstreamStopped, UpstreamSlow, SlowClients],
            routes: vec![10, 100, 1000, 5000],
            slow_clients: 200,
        }
    }
}

/// What is done with a gateway in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    Reload,
    Drain,
    UpstreamKilled,
    UpstreamStopped,
    UpstreamSlow,
    SlowClients,
    Routes(u32),
}

impl Scenario {
    pub(crate) fn name(self) -> String {
        match self {
            Scenario::Reload => "reload".to_owned(),
            Scenario::Drain => "drain".to_owned(),
            Scenario::UpstreamKilled => "upstream-killed".to_owned(),
            Scenario::UpstreamStopped => "upstream-stopped".to_owned(),
            Scenario::UpstreamSlow => "upstream-slow".to_owned(),
            Scenario::SlowClients => "slow-clients".to_owned(),
            Scenario::Routes(routes) => format!("{routes} routes"),
        }
    }
}

impl Life {
    pub(crate) fn all(&self) -> Vec<Scenario> {
        let event = |event: &Event| match event {
            Event::Reload => Scenario::Reload,
            Event::Drain => Scenario::Drain,
            Event::UpstreamKilled => Scenario::UpstreamKilled,
            Event::UpstreamStopped => Scenario::UpstreamStopped,
            Event::UpstreamSlow => Scenario::UpstreamSlow,
            Event::SlowClients => Scenario::SlowClients,
        };
        self.events.iter().map(event).chain(self.routes.iter().map(|routes| Scenario::Routes(*routes))).collect()
    }
}
