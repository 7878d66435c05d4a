//! Who keeps an exchange waiting: the one place that decides whose fault a timeout is.
//!
//! An idle timeout is the fault of the side that stalls when it passes. The total timeout is the fault of the side with the larger account:
//! each time that the stall changes, what it lasted is added to its side. Only the upstream's fault reaches ejection, breaker and
//! load balancing; a client that sends or reads slowly must not make a healthy target look ill.

#[cfg(test)]
mod tests;

use crate::error::Fault;
use crate::runtime::clock;

/// What an exchange waits for; decides which timeout counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// Bytes move.
    None,
    /// The gateway's own doing: policies, a slot in the upstream's queue.
    Gateway,
    /// The client, to send more of its body.
    ClientSends,
    /// The client, to take more of the response.
    ClientReceives,
    /// The upstream sends no more of its response while it has not got all of the request, and the client sends no more of that.
    ClientSendsDuringResponse,
    /// The upstream, to accept a connection.
    UpstreamConnects,
    /// The upstream, to take more of the request.
    UpstreamReceives,
    /// The upstream, to begin its response.
    UpstreamHead,
    /// The upstream, to send more of its response.
    UpstreamBody,
}

impl Stall {
    /// Whose fault it is.
    pub fn fault(self) -> Fault {
        match self {
            Stall::None | Stall::Gateway => Fault::Gateway,
            Stall::ClientSends | Stall::ClientReceives | Stall::ClientSendsDuringResponse => Fault::Client,
            Stall::UpstreamConnects | Stall::UpstreamReceives | Stall::UpstreamHead | Stall::UpstreamBody => {
                Fault::Upstream
            }
        }
    }
}

/// How long each side kept one exchange waiting, in nanoseconds.
#[derive(Debug)]
pub struct Stalls {
    current: Stall,
    /// When it began.
    since: u64,
    client: u64,
    upstream: u64,
    gateway: u64,
}

impl Stalls {
    /// An exchange that began at `started_ns`, and waits for nobody but the gateway yet.
    pub fn new(started_ns: u64) -> Self {
        Stalls { current: Stall::Gateway, since: started_ns, client: 0, upstream: 0, gateway: 0 }
    }

    /// What it waits for.
    #[inline]
    pub fn current(&self) -> Stall {
        self.current
    }

    /// From now on it waits for this.
    #[inline]
    pub fn change(&mut self, stall: Stall) {
        self.change_at(stall, clock::loop_ns());
    }

    fn change_at(&mut self, stall: Stall, now: u64) {
        let lasted = now.saturating_sub(self.since);
        match self.current {
            Stall::None => {}
            current => *self.account(current.fault()) += lasted,
        }
        self.current = stall;
        self.since = now;
    }

    fn account(&mut self, side: Fault) -> &mut u64 {
        match side {
            Fault::Client => &mut self.client,
            Fault::Upstream => &mut self.upstream,
            Fault::Gateway => &mut self.gateway,
        }
    }

    /// How long the client kept it waiting until now.
    pub fn client_ns(&mut self) -> u64 {
        self.change(self.current);
        self.client
    }

    /// How long the upstream kept it waiting until now.
    pub fn upstream_ns(&mut self) -> u64 {
        self.change(self.current);
        self.upstream
    }

    /// Which side kept it waiting the longest until now; the upstream where it is a draw.
    pub fn larger_fault(&mut self) -> Fault {
        self.change(self.current);
        if self.upstream >= self.client.max(self.gateway) {
            Fault::Upstream
        } else if self.client >= self.gateway {
            Fault::Client
        } else {
            Fault::Gateway
        }
    }
}
