//! Look-ups in flight, against a server that accepts connections and says nothing, and against a real one.

use std::time::Instant;

use auth::api_key::sha256;
use testkit::{BlackHole, DEADLINE, Redis as Server};
use tokio::task::JoinSet;

use super::*;
use crate::config;
use crate::observe::Metrics;
use crate::redis::Purpose;

struct Rig {
    keys: Arc<RemoteKeys>,
    client: Rc<Client>,
}

fn rig(url: &str, timeout: Duration) -> Rig {
    let settings = config::Redis { url: url.to_owned(), timeout, namespace: "weir".to_owned(), secret: None };
    let redis = Redis::new(&settings).unwrap();
    let spec = RedisKeys { stale: Duration::from_secs(300) };
    let keys = RemoteKeys::new(&"keys".into(), spec, None, &redis, None);
    let client = Client::new(redis, Purpose::Keys, Metrics::new().shard(0).redis(Purpose::Keys.name()));
    Rig { keys, client }
}

impl Rig {
    fn outcome(&self, name: &str) -> u64 {
        self.keys.outcomes().find(|(outcome, _)| *outcome == name).unwrap().1
    }

    async fn find(&self, digest: [u8; 32]) -> Result<Arc<Record>, Refusal> {
        self.keys.find(&self.client, digest, &Cell::new(false)).await
    }

    /// A request of its own for a key.
    fn spawn(&self, requests: &mut JoinSet<Result<Arc<Record>, Refusal>>, digest: [u8; 32]) {
        let (keys, client) = (self.keys.clone(), self.client.clone());
        requests.spawn_local(async move { keys.find(&client, digest, &Cell::new(false)).await });
    }

    fn in_flight(&self) -> usize {
        self.keys.in_flight.load(Relaxed)
    }
}

fn digest(number: usize) -> [u8; 32] {
    sha256(&number.to_le_bytes())
}

fn record() -> Arc<Record> {
    let entry = Entry { id: "k".into(), consumer: "c".into(), ..Entry::default() };
    Arc::new(Record::of(entry).unwrap())
}

/// Runs a test on what a worker runs on.
fn run<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build_local(tokio::runtime::LocalOptions::default()).unwrap().block_on(test)
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "this did not come true: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn look_ups_in_flight_are_bounded_and_invented_keys_leave_room_for_used_ones() {
    let hole = BlackHole::open();
    run(async {
        let rig = rig(&format!("redis://{}", hole.address()), Duration::from_secs(2));
        let used = digest(1_000_000);
        // Used once, and to be looked up again.
        lock(rig.keys.shard(&used)).cache.insert(used, Some(record()), clock::now_ns());
        rig.keys.expire_all();
        let mut requests = JoinSet::new();
        (0..2_000).for_each(|number| rig.spawn(&mut requests, digest(number)));
        until("the bound", || rig.outcome("dropped") == (2_000 - MOST_NEW_IN_FLIGHT) as u64).await;
        assert_eq!(rig.in_flight(), MOST_NEW_IN_FLIGHT);
        // More requests for a key that is being looked up take no more.
        (0..500).for_each(|_| rig.spawn(&mut requests, digest(0)));
        rig.spawn(&mut requests, used);
        until("the look-up of the used key", || rig.in_flight() == MOST_NEW_IN_FLIGHT + 1).await;
        let mut busy = 0;
        let mut held = 0;
        while let Some(result) = requests.join_next().await {
            match result.unwrap() {
                Ok(_) => held += 1,
                Err(Refusal::Unavailable(why)) => busy += usize::from(why == BUSY),
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!((held, busy), (1, 2_000 - MOST_NEW_IN_FLIGHT), "the used key holds, the others are 503");
        assert_eq!((rig.in_flight(), rig.outcome("failed")), (0, MOST_NEW_IN_FLIGHT as u64 + 1));
        assert!(rig.keys.shards.iter().all(|shard| lock(shard).flights.is_empty()));
        assert_eq!(rig.keys.held(), [1, 0], "nothing was learnt");
    });
}

#[test]
fn a_change_during_a_look_up_is_not_lost() {
    let server = Server::start();
    let rig = rig(&server.url(), Duration::from_secs(5));
    let key = digest(1);
    let name = String::from_utf8(rig.keys.names.entry(&key)).unwrap();
    server.cli(["HSET", &name, "id", "k", "consumer", "c"]);
    run(async {
        assert!(rig.client.get(b"warm").await.is_ok());
        let mut requests = JoinSet::new();
        server.pause();
        rig.spawn(&mut requests, key);
        until("a look-up", || rig.in_flight() == 1).await;
        // Told while the response is on its way.
        rig.keys.changed(hex(&key).as_bytes());
        server.resume();
        assert!(requests.join_next().await.unwrap().unwrap().is_ok(), "who waited gets what was read");
        assert_eq!(rig.keys.held(), [0, 0], "and nobody else");
        server.cli(["HSET", &name, "disabled", "true"]);
        assert_eq!(rig.find(key).await.unwrap().admit("r", 0).unwrap_err(), Refusal::Revoked);
        assert_eq!((rig.outcome("known"), rig.keys.held()), (2, [1, 0]));
        // Known now, without another look-up.
        assert!(rig.find(key).await.is_ok());
        assert_eq!(rig.outcome("known"), 2);
    });
}

/// What was read before a change may not have it: a later request looks again, whether one entry changed, all did, or messages may be
/// missing.
#[test]
fn a_request_after_a_change_waits_for_no_look_up_that_began_before() {
    let server = Server::start();
    let rig = rig(&server.url(), Duration::from_secs(600));
    run(async {
        assert!(rig.client.get(b"warm").await.is_ok());
        server.pause();
        let key = digest(1);
        let changes = [Event::Message(hex(&key).into_bytes()), Event::Message(EVERYTHING.to_vec()), Event::Began];
        let mut requests = JoinSet::new();
        rig.spawn(&mut requests, key);
        until("a look-up", || rig.in_flight() == 1).await;
        for (number, change) in (2..).zip(changes) {
            rig.keys.note(change, &Cell::new(false));
            (0..3).for_each(|_| rig.spawn(&mut requests, key));
            until("one look-up more", || rig.in_flight() == number).await;
        }
        server.resume();
        while let Some(result) = requests.join_next().await {
            assert_eq!(result.unwrap().unwrap_err(), Refusal::Invalid("unknown key"));
        }
        assert_eq!((rig.outcome("unknown"), rig.keys.held()), (4, [0, 1]));
    });
}

/// One line for a subscription that comes and goes, and one when it has lasted.
#[test]
fn a_subscription_that_comes_and_goes_does_not_fill_the_log() {
    let hole = BlackHole::open();
    let rig = rig(&format!("redis://{}", hole.address()), Duration::from_secs(1));
    let is_announced = Cell::new(false);
    for _ in 0..3 {
        rig.keys.note(Event::Began, &is_announced);
        assert!(rig.keys.is_current());
        rig.keys.note(Event::Ended("a reason".to_owned()), &is_announced);
        assert!(!rig.keys.is_current() && is_announced.get(), "said once, until it is followed again");
    }
    rig.keys.note(Event::Began, &is_announced);
    assert!(is_announced.get(), "it may end at once");
    rig.keys.note(Event::Idle, &is_announced);
    assert!(!is_announced.get() && rig.keys.is_current());
}

#[test]
fn a_worker_that_ends_leaves_nobody_waiting() {
    let hole = BlackHole::open();
    let (url, timeout) = (format!("redis://{}", hole.address()), Duration::from_secs(600));
    let rig = run(async {
        let rig = rig(&url, timeout);
        let mut requests = JoinSet::new();
        rig.spawn(&mut requests, digest(1));
        until("a look-up", || rig.in_flight() == 1).await;
        requests.detach_all();
        rig.keys
    });
    // The runtime of that worker has ended, and its look-up with it.
    assert_eq!(rig.in_flight.load(Relaxed), 0);
    assert!(rig.shards.iter().all(|shard| lock(shard).flights.is_empty()));
}

#[test]
fn a_response_that_is_no_hash_is_no_entry() {
    let text = |text: &str| Value::BulkString(text.into());
    let hash = |pairs: &[(&str, &str)]| Value::Array(pairs.iter().flat_map(|(a, b)| [text(a), text(b)]).collect());
    let read = |value: &Value| read(&digest(1), value);
    assert!(matches!(read(&hash(&[])), Ok(KeyLookup::Unknown)));
    assert!(matches!(read(&Value::Nil), Ok(KeyLookup::Unknown)));
    assert!(matches!(read(&hash(&[("id", "k"), ("consumer", "c")])), Ok(KeyLookup::Known(_))));
    let map = Value::Map(vec![(text("id"), text("k")), (text("consumer"), text("c"))]);
    assert!(matches!(read(&map), Ok(KeyLookup::Known(_))));
    for wrong in [
        Value::Int(1),
        Value::Okay,
        text("id"),
        hash(&[("id", "k")]),
        hash(&[("id", "k"), ("consumer", "c"), ("x", "y")]),
    ] {
        assert!(read(&wrong).is_err(), "{wrong:?}");
    }
    // A list that is cut short, or has something else in it, is not read as less.
    let Value::Array(mut list) = hash(&[("id", "k"), ("consumer", "c"), ("disabled", "true")]) else { panic!() };
    list[5] = Value::Int(1);
    assert!(read(&Value::Array(list.clone())).is_err());
    list.pop();
    assert!(read(&Value::Array(list)).is_err());
}
