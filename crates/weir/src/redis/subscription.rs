//! A subscription to a channel, kept on a connection of its own.
//!
//! Redis delivers a message to those who are connected, and to nobody later: after each time without a connection messages may be missing,
//! which [`Event::Began`] says. On a cluster, what one node is told all nodes deliver, so any node will do.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, PushInfo, PushKind, Value};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::address::Servers;
use super::dial::{Live, Peer, Trouble};
use super::link::Pauses;
use super::{DIAL, Redis};

/// How often Redis is queried whether it still serves the connection, and whether the follower has ended.
const LOOK: Duration = Duration::from_secs(1);

/// What happens to a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Messages are delivered from now on. What was sent before may be missing.
    Began,
    /// A message.
    Message(Vec<u8>),
    /// No messages are delivered until it begins again; why.
    Ended(String),
    /// Nothing: once a second, to see whether anybody still wants to know.
    Idle,
}

/// Follows a channel and tells of what happens, until `tell` breaks. To be called where [`Client`](super::Client)s live.
pub async fn follow(redis: Arc<Redis>, channel: &str, mut tell: impl FnMut(Event) -> ControlFlow<()>) {
    let mut pauses = Pauses::new();
    let mut attempt = 0;
    loop {
        let peer = peer(&redis, attempt);
        attempt += 1;
        let opened = tokio::time::timeout(DIAL, subscribe(&redis, &peer, channel)).await;
        let why = match opened.unwrap_or_else(|_| Err(format!("no response within {DIAL:?}"))) {
            Ok(mut subscription) => {
                if tell(Event::Began).is_break() {
                    return;
                }
                let mut has_lasted = false;
                let why = loop {
                    let next = tokio::time::timeout(LOOK, subscription.next()).await;
                    let event = match next {
                        Ok(Some(message)) => Event::Message(message),
                        Ok(None) => break "the connection ended".to_owned(),
                        Err(_) => match subscription.check(&redis, &peer).await {
                            Ok(()) => Event::Idle,
                            Err(why) => break why,
                        },
                    };
                    has_lasted |= event == Event::Idle;
                    if tell(event).is_break() {
                        return;
                    }
                };
                if has_lasted {
                    pauses = Pauses::new();
                }
                why
            }
            Err(why) => why,
        };
        if tell(Event::Ended(why)).is_break() {
            return;
        }
        tokio::time::sleep(pauses.next()).await;
    }
}

/// Whom to connect to: on a cluster the nodes of the address in turn.
fn peer(redis: &Redis, attempt: usize) -> Peer {
    match &redis.dialer.address().servers {
        Servers::One(host) => Peer::Host(host.clone()),
        Servers::Cluster(seeds) => Peer::Host(seeds[attempt % seeds.len()].clone()),
        Servers::Sentinel { .. } => Peer::Primary,
    }
}

struct Subscription {
    live: Live,
    pushes: UnboundedReceiver<PushInfo>,
}

async fn subscribe(redis: &Redis, peer: &Peer, channel: &str) -> Result<Subscription, Trouble> {
    let (sender, pushes) = unbounded_channel();
    let mut live = redis.dialer.dial_with(peer, "weir-subscription", Some(sender)).await?;
    live.connection.subscribe(channel).await.map_err(|error| format!("{}: {error}", live.host))?;
    Ok(Subscription { live, pushes })
}

impl Subscription {
    /// The next message; `None` when the connection has ended.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let PushInfo { kind, mut data } = self.pushes.recv().await?;
            match (kind, data.pop()) {
                (PushKind::Message, Some(Value::BulkString(message))) => return Some(message),
                (PushKind::Disconnection, _) => return None,
                _ => {}
            }
        }
    }

    /// Whether the server still serves and, behind Sentinels, still is the primary.
    async fn check(&self, redis: &Redis, peer: &Peer) -> Result<(), String> {
        let host = &self.live.host;
        let mut ping = Cmd::new();
        ping.arg("PING");
        let mut connection = self.live.connection.clone();
        match tokio::time::timeout(DIAL, connection.send_packed_command(&ping)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(format!("{host}: {error}")),
            Err(_) => return Err(format!("{host}: no response within {DIAL:?}")),
        }
        if *peer == Peer::Primary {
            // Without a response the one that serves is kept.
            let primary = tokio::time::timeout(DIAL, redis.dialer.primary()).await;
            if let Ok(Ok(primary)) = primary
                && primary != *host
            {
                return Err(format!("the primary is {primary} now"));
            }
        }
        Ok(())
    }
}
