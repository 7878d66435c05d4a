//! Redis Cluster: which node holds a key, and a link to each node.
//!
//! The map of slots is read in the background, one reading at a time: when the first request comes, after a node has said that a key is
//! elsewhere (`MOVED`), and while a node is down, because a replica may have taken its place. A request follows `MOVED` and `ASK` within its own deadline.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, Value};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::Failure;
use super::address::Host;
use super::dial::{Dialer, Peer};
use super::health::Health;
use super::link::Link;
use crate::observe::RedisMetrics;

/// Slots of every cluster.
pub const SLOTS: usize = 16384;
/// A request is sent on so many times.
const REDIRECTS: usize = 3;
/// How long a node may take to list the slots.
const LIST: Duration = Duration::from_millis(500);
/// Pause between two readings while something is wrong.
const READ_AGAIN: Duration = Duration::from_millis(250);
/// No node.
const NOBODY: u16 = u16::MAX;

/// Slot of a key: CRC16 (XMODEM) of the part in braces if there is one, modulo [`SLOTS`].
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let length = key[open + 1..].iter().position(|&byte| byte == b'}')?;
        (length > 0).then(|| &key[open + 1..open + 1 + length])
    });
    let crc = tag.unwrap_or(key).iter().fold(0u16, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    });
    crc % SLOTS as u16
}

/// The nodes of a cluster as one worker knows them, for one purpose.
pub(super) struct Cluster {
    seeds: Vec<Host>,
    dialer: Arc<Dialer>,
    name: String,
    health: Arc<Health>,
    metrics: Rc<RedisMetrics>,
    map: RefCell<Map>,
    /// Told when `map` has changed.
    changed: Notify,
    reading: Cell<bool>,
}

struct Map {
    nodes: Vec<(Host, Rc<Link>)>,
    /// Index of the node that holds a slot, or [`NOBODY`].
    owners: Box<[u16; SLOTS]>,
}

/// Where a node sends a request.
enum Redirect {
    /// The slot lives there from now on.
    Moved(u16, Host),
    /// Send this one command there.
    Ask(Host),
}

impl Cluster {
    pub(super) fn new(
        seeds: Vec<Host>,
        dialer: Arc<Dialer>,
        name: String,
        health: Arc<Health>,
        metrics: Rc<RedisMetrics>,
    ) -> Rc<Self> {
        let map = Map { nodes: Vec::new(), owners: Box::new([NOBODY; SLOTS]) };
        let (changed, reading) = (Notify::new(), Cell::new(false));
        Rc::new(Cluster { seeds, dialer, name, health, metrics, map: RefCell::new(map), changed, reading })
    }

    /// Reads the map, if nobody does.
    pub(super) fn start(self: &Rc<Self>) {
        if self.map.borrow().nodes.is_empty() {
            self.read();
        }
    }

    /// Whether the node that holds `key` serves, as far as is known.
    pub(super) fn may_serve(&self, key: &[u8]) -> bool {
        self.owner(slot(key)).is_none_or(|link| link.may_serve())
    }

    /// Sends a command to the node that holds `key`.
    pub(super) async fn command(self: &Rc<Self>, key: &[u8], cmd: &Cmd, deadline: Instant) -> Result<Value, Failure> {
        let link = self.link_of(slot(key), deadline).await?;
        let value = self.redirected(&link, link.command(cmd, deadline).await)?;
        self.follow(value, cmd, deadline).await
    }

    /// Sends commands in one go to the node that holds `key`; all of them are about keys of its slot.
    pub(super) async fn pipeline(
        self: &Rc<Self>,
        key: &[u8],
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, Failure> {
        let link = self.link_of(slot(key), deadline).await?;
        let mut values = self.redirected(&link, link.pipeline(pipeline, deadline).await)?;
        // While a slot moves, some of its keys are here and some are there: only what was not done is sent on.
        for (value, cmd) in values.iter_mut().zip(pipeline.cmd_iter()) {
            if redirect(value).is_some() {
                let redirected = std::mem::replace(value, Value::Nil);
                *value = self.follow(redirected, cmd, deadline).await?;
            }
        }
        Ok(values)
    }

    /// Follows redirections until a node responses.
    async fn follow(self: &Rc<Self>, mut value: Value, cmd: &Cmd, deadline: Instant) -> Result<Value, Failure> {
        for _ in 0..REDIRECTS {
            value = match redirect(&value) {
                None => return Ok(value),
                Some(Redirect::Moved(slot, host)) => {
                    let link = self.moved(slot, host);
                    self.redirected(&link, link.command(cmd, deadline).await)?
                }
                Some(Redirect::Ask(host)) => {
                    let link = self.map.borrow_mut().link(self, host).1;
                    let mut requesting = Pipeline::with_capacity(2);
                    requesting.cmd("ASKING");
                    requesting.add_command(cmd.clone());
                    let mut values = self.redirected(&link, link.pipeline(&requesting, deadline).await)?;
                    values.pop().unwrap_or(Value::Nil)
                }
            };
        }
        match redirect(&value) {
            None => Ok(value),
            Some(_) => Err(Failure::Refused("the nodes of the cluster redirect a key in a loop".to_owned())),
        }
    }

    /// A node that does not serve may have been replaced.
    fn redirected<T>(self: &Rc<Self>, link: &Link, response: Result<T, Failure>) -> Result<T, Failure> {
        if response.is_err() && !link.may_serve() {
            self.read();
        }
        response
    }

    fn owner(&self, slot: u16) -> Option<Rc<Link>> {
        let map = self.map.borrow();
        let owner = map.owners[usize::from(slot)];
        Some(map.nodes.get(usize::from(owner))?.1.clone())
    }

    async fn link_of(self: &Rc<Self>, slot: u16, deadline: Instant) -> Result<Rc<Link>, Failure> {
        if let Some(link) = self.owner(slot) {
            return Ok(link);
        }
        let changed = self.changed.notified();
        self.read();
        tokio::time::timeout_at(deadline.into(), changed).await.map_err(|_| Failure::Unavailable)?;
        self.owner(slot).ok_or(Failure::Unavailable)
    }

    fn moved(self: &Rc<Self>, slot: u16, host: Host) -> Rc<Link> {
        let (index, link) = {
            let mut map = self.map.borrow_mut();
            let (index, link) = map.link(self, host);
            map.owners[usize::from(slot)] = index;
            (index, link)
        };
        debug_assert_ne!(index, NOBODY);
        self.read();
        link
    }

    /// Reads the map in the background, until every node of it serves.
    fn read(self: &Rc<Self>) {
        if !self.reading.replace(true) {
            spawn_local(read(Rc::downgrade(self)));
        }
    }

    /// Those who may know the map: the nodes known, those that serve first, then the seeds.
    fn informants(&self) -> Vec<Rc<Link>> {
        let map = self.map.borrow();
        let mut links: Vec<Rc<Link>> = map.nodes.iter().map(|(_, link)| link.clone()).collect();
        links.sort_by_key(|link| !link.may_serve());
        let unknown = self.seeds.iter().filter(|seed| !map.nodes.iter().any(|(host, _)| host == *seed));
        links.extend(unknown.map(|seed| self.make(seed.clone())));
        links
    }

    fn make(&self, host: Host) -> Rc<Link> {
        let (dialer, name) = (self.dialer.clone(), self.name.clone());
        Link::new(Peer::Host(host), dialer, name, self.health.clone(), self.metrics.clone())
    }

    /// Puts a map in force. Links that exist are kept, those of `informants` included.
    fn install(&self, ranges: &[Range], informants: &[Rc<Link>]) {
        let mut map = self.map.borrow_mut();
        let mut before: HashMap<Host, Rc<Link>> = map.nodes.drain(..).collect();
        for link in informants {
            if let Some(host) = link.host() {
                before.entry(host.clone()).or_insert_with(|| link.clone());
            }
        }
        map.owners.fill(NOBODY);
        for range in ranges {
            let known = map.nodes.iter().position(|(host, _)| *host == range.host);
            let index = known.unwrap_or_else(|| {
                let link = before.get(&range.host).cloned().unwrap_or_else(|| self.make(range.host.clone()));
                link.start();
                map.nodes.push((range.host.clone(), link));
                map.nodes.len() - 1
            });
            map.owners[usize::from(range.first)..=usize::from(range.last)].fill(index as u16);
        }
        drop(map);
        self.changed.notify_waiters();
    }

    fn is_sound(&self) -> bool {
        let map = self.map.borrow();
        !map.nodes.is_empty() && map.nodes.iter().all(|(_, link)| link.may_serve())
    }
}

impl Map {
    /// Index of a node and the link to it, made when it is new.
    fn link(&mut self, cluster: &Cluster, host: Host) -> (u16, Rc<Link>) {
        let index = self.nodes.iter().position(|(known, _)| *known == host).unwrap_or_else(|| {
            let link = cluster.make(host.clone());
            self.nodes.push((host, link));
            self.nodes.len() - 1
        });
        (index as u16, self.nodes[index].1.clone())
    }
}

/// Slots `first` to `last` are on `host`.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    host: Host,
}

async fn read(cluster: Weak<Cluster>) {
    loop {
        let Some(strong) = cluster.upgrade() else { return };
        let informants = strong.informants();
        let mut list = Cmd::new();
        list.arg("CLUSTER").arg("SLOTS");
        for link in &informants {
            let response = link.command(&list, Instant::now() + LIST).await;
            let ranges = response.ok().and_then(|value| ranges(value, link.host()?));
            if let Some(ranges) = ranges.filter(|ranges| !ranges.is_empty()) {
                strong.install(&ranges, &informants);
                break;
            }
        }
        if strong.is_sound() {
            strong.reading.set(false);
            return;
        }
        drop((informants, strong));
        tokio::time::sleep(READ_AGAIN).await;
    }
}

/// What `CLUSTER SLOTS` says: a list of `[first, last, [host, port, ...], replicas...]`.
fn ranges(value: Value, redirected: &Host) -> Option<Vec<Range>> {
    let Value::Array(list) = value else { return None };
    list.into_iter().map(|entry| range(entry, redirected)).collect()
}

fn range(entry: Value, redirected: &Host) -> Option<Range> {
    let Value::Array(parts) = entry else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &parts[..] else { return None };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let [name, Value::Int(port), ..] = &primary[..] else { return None };
    let name = match name {
        Value::BulkString(name) if !name.is_empty() => String::from_utf8(name.clone()).ok()?,
        // A node that does not know its own name means the one that it was reached by.
        _ => redirected.name.clone(),
    };
    let host = Host { name, port: u16::try_from(*port).ok()? };
    (first <= last && usize::from(last) < SLOTS).then_some(Range { first, last, host })
}

/// Reads `MOVED 3999 127.0.0.1:6381` and `ASK 3999 127.0.0.1:6381`.
fn redirect(value: &Value) -> Option<Redirect> {
    let Value::ServerError(error) = value else { return None };
    let code = error.code();
    if code != "MOVED" && code != "ASK" {
        return None;
    }
    let (slot, host) = error.details()?.split_once(' ')?;
    let (name, port) = host.rsplit_once(':')?;
    let slot = slot.parse().ok().filter(|&slot| usize::from(slot) < SLOTS)?;
    let host = Host { name: name.to_owned(), port: port.parse().ok()? };
    Some(if code == "MOVED" { Redirect::Moved(slot, host) } else { Redirect::Ask(host) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), slot(b"foo{}{bar}"));
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn a_list_of_slots_is_read_and_nonsense_is_not() {
        let redirected = Host { name: "seed".into(), port: 1 };
        let node = |name: &str| Value::Array(vec![Value::BulkString(name.into()), Value::Int(7000)]);
        let entry =
            |first, last, name| Value::Array(vec![Value::Int(first), Value::Int(last), node(name), node("replica")]);
        let host = |name: &str| Host { name: name.into(), port: 7000 };
        let read = ranges(Value::Array(vec![entry(0, 5, "a"), entry(6, 16383, "")]), &redirected);
        let expected =
            [Range { first: 0, last: 5, host: host("a") }, Range { first: 6, last: 16383, host: host("seed") }];
        assert_eq!(read.as_deref(), Some(&expected[..]));
        for nonsense in [Value::Nil, Value::Array(vec![Value::Nil]), Value::Array(vec![entry(5, 0, "a")])] {
            assert_eq!(ranges(nonsense, &redirected), None);
        }
        assert_eq!(ranges(Value::Array(vec![entry(0, 16384, "a")]), &redirected), None);
    }
}
