//! Order, bounds and cancellation on a paused clock; no lost place with real threads.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;

use auth::Priority;

use super::*;
use crate::config::{Balance, Eject, UpstreamId};
use crate::upstream::outcome::FailureKind;
use crate::upstream::target::Health;
use crate::upstream::tests::{Rig, ip, number, spec, target};
use crate::upstream::view::{Pick, Request, Views};

fn queued(max: u32, size: usize) -> config::Upstream {
    config::Upstream {
        max_in_flight: NonZeroU32::new(max),
        queue: Some(config::Queue { size, timeout: Duration::from_secs(1), fair: None }),
        ..spec(Balance::LeastRequest, &[1])
    }
}

fn waiting(rig: &Rig) -> usize {
    rig.upstream().shared.queue.waiting()
}

#[tokio::test(start_paused = true)]
async fn who_comes_first_is_served_first_and_nobody_overtakes() {
    let rig = Rig::new(queued(1, 10));
    let mut held = Some(rig.lease());
    let waits: Vec<_> = (0..5).map(|_| tokio::spawn(rig.view().wait(QueueEntry::default()))).collect();
    assert_eq!(waiting(&rig), 5);
    for (number, wait) in waits.into_iter().enumerate() {
        assert!(!wait.is_finished());
        drop(held.take());
        assert!(matches!(rig.pick(), Pick::Busy), "request {number} or a later one has the place");
        held = Some(wait.await.unwrap().expect("a place"));
    }
    assert_eq!(waiting(&rig), 0);
    assert_eq!(rig.state(1).in_flight(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_waits_behind_those_who_wait_though_a_place_is_free() {
    let rig = Rig::new(queued(1, 10));
    let held = rig.lease();
    let first = rig.view().wait(QueueEntry::default());
    // The place is given to the first, who has not looked yet.
    drop(held);
    let mut second = Box::pin(rig.view().wait(QueueEntry::default()));
    assert!(matches!(rig.pick(), Pick::Busy));
    let lease = first.await.expect("a place");
    assert!(futures_poll(&mut second).await.is_none());
    drop(lease);
    drop(second.await.expect("a place"));
}

/// Polls once.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    tokio::select! { biased; output = future => Some(output), () = std::future::ready(()) => None }
}

#[tokio::test(start_paused = true)]
async fn it_is_bounded_and_waits_are_limited() {
    let rig = Rig::new(queued(1, 2));
    let held = rig.lease();
    let waits = [rig.view().wait(QueueEntry::default()), rig.view().wait(QueueEntry::default())];
    assert_eq!(rig.view().wait(QueueEntry::default()).await.unwrap_err(), WaitError::QueueFull);
    for wait in waits {
        assert_eq!(wait.await.unwrap_err(), WaitError::TimedOut);
    }
    assert_eq!(waiting(&rig), 0);
    let snapshot = rig.upstream().snapshot().queue.expect("a queue");
    assert_eq!((snapshot.waited, snapshot.refused, snapshot.timed_out), (2, 1, 2));
    drop(held);
    assert!(matches!(rig.pick(), Pick::Target(_)));
}

#[tokio::test]
async fn without_a_queue_nobody_waits() {
    let rig = Rig::new(config::Upstream { queue: None, ..queued(1, 0) });
    let _held = rig.lease();
    assert!(matches!(rig.pick(), Pick::Busy));
    assert_eq!(rig.view().wait(QueueEntry::default()).await.unwrap_err(), WaitError::QueueFull);
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_frees_the_place_in_line() {
    let rig = Rig::new(queued(1, 2));
    let held = rig.lease();
    let (first, second) = (rig.view().wait(QueueEntry::default()), rig.view().wait(QueueEntry::default()));
    drop(first);
    assert_eq!(waiting(&rig), 1);
    let third = rig.view().wait(QueueEntry::default());
    drop(held);
    drop(second.await.expect("a place"));
    drop(third.await.expect("a place"));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_given_to_somebody_who_went_away_goes_to_the_next() {
    let rig = Rig::new(queued(1, 3));
    let held = rig.lease();
    let (first, second) = (rig.view().wait(QueueEntry::default()), rig.view().wait(QueueEntry::default()));
    drop(held); // gives the place to the first
    assert_eq!(rig.state(1).in_flight(), 1);
    drop(first);
    let lease = second.await.expect("a place");
    drop(lease);
    assert_eq!(rig.state(1).in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiters_learn_that_the_last_target_was_removed() {
    let rig = Rig::new(queued(1, 3));
    let held = rig.lease();
    let waits = [rig.view().wait(QueueEntry::default()), rig.view().wait(QueueEntry::default())];
    rig.state(1).set_health(Health::Unhealthy);
    drop(held);
    for wait in waits {
        assert_eq!(wait.await.unwrap_err(), WaitError::Unavailable);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_raises_the_bound_or_adds_a_target_serves_waiters() {
    let mut rig = Rig::new(queued(1, 3));
    let _held = rig.lease();
    let waits = [rig.view().wait(QueueEntry::default()), rig.view().wait(QueueEntry::default())];
    let mut more = queued(2, 3);
    more.targets.push(target(ip(2), 1));
    rig.reload(more);
    let mut numbers = Vec::new();
    let mut leases = Vec::new();
    for wait in waits {
        let lease = wait.await.expect("a place");
        numbers.push(number(&lease));
        leases.push(lease);
    }
    assert_eq!(numbers, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_comes_back_by_itself_serves_waiters() {
    let mut two = queued(1, 3);
    two.targets.push(target(ip(2), 1));
    two.eject = Some(Eject { after: 1, period: Duration::from_secs(10), max_share: 0.5 });
    let rig = Rig::new(two);
    let mut failing = rig.lease();
    failing.failure(FailureKind::Reset, rig.now());
    let ejected = number(&failing);
    drop(failing);
    let _held = rig.lease();
    assert!(matches!(rig.pick(), Pick::Busy));
    let mut wait = Box::pin(rig.view().wait(QueueEntry::default()));
    assert!(futures_poll(&mut wait).await.is_none());
    rig.advance(Duration::from_secs(11));
    assert_eq!(number(&wait.await.expect("a place")), ejected);
}

/// Workers with runtimes of their own share three places; every request that may wait gets one in the end, none is lost, and there are never
/// more than three in flight.
#[test]
fn over_all_threads_no_place_is_lost_and_the_bound_holds() {
    no_place_is_lost(None, |_| QueueEntry::default());
}

#[test]
fn over_all_threads_no_place_is_lost_in_a_fair_queue() {
    no_place_is_lost(fair(), |task| QueueEntry {
        priority: Priority::ALL[task % 3],
        tenant: task as u64 % 5,
        cost: task as u64 * 7,
        left: None,
    });
}

fn no_place_is_lost(fair: Option<config::FairQueue>, entry: fn(usize) -> QueueEntry) {
    const WORKERS: usize = 4;
    const TASKS: usize = 16;
    const ROUNDS: u32 = 200;
    let mut three = queued(3, WORKERS * TASKS);
    // Far longer than the test takes unless a place was lost.
    three.queue = Some(config::Queue { size: WORKERS * TASKS, timeout: Duration::from_secs(60), fair });
    let rig = Rig::new(three);
    let (in_flight, served) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (upstreams, in_flight, served) = (rig.upstreams.clone(), in_flight.clone(), served.clone());
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                let local = tokio::task::LocalSet::new();
                let now = upstreams.clock().now();
                let views = std::rc::Rc::new(Views::new(upstreams, worker as u64));
                for task in 0..TASKS {
                    let (views, in_flight, served) = (views.clone(), in_flight.clone(), served.clone());
                    local.spawn_local(async move {
                        for _ in 0..ROUNDS {
                            let view = views.get(UpstreamId(0));
                            let lease = match view.pick(&Request::default(), now) {
                                Pick::Target(lease) => lease,
                                Pick::Busy => view.wait(entry(task)).await.expect("a place"),
                                Pick::Unavailable => panic!("the target is there"),
                            };
                            assert!(in_flight.fetch_add(1, Ordering::SeqCst) < 3);
                            tokio::task::yield_now().await;
                            in_flight.fetch_sub(1, Ordering::SeqCst);
                            drop(lease);
                            served.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
                runtime.block_on(local);
            });
        }
    });
    assert_eq!(served.load(Ordering::SeqCst), (WORKERS * TASKS) as u32 * ROUNDS);
    assert_eq!(rig.state(1).in_flight(), 0);
    assert_eq!(waiting(&rig), 0);
    let queue = rig.upstream().snapshot().queue.expect("a queue");
    assert_eq!(queue.timed_out, 0);
    assert!(queue.waited > 0, "nobody had to wait: the test shows nothing");
}

fn fair() -> Option<config::FairQueue> {
    Some(config::FairQueue { key: Arc::from([config::LimitKey::Consumer]) })
}

fn fairly_queued(size: usize, timeout: Duration) -> config::Upstream {
    config::Upstream { queue: Some(config::Queue { size, timeout, fair: fair() }), ..queued(1, size) }
}

fn of_tenant(tenant: u64, cost: u64) -> QueueEntry {
    QueueEntry { tenant, cost, ..QueueEntry::default() }
}

#[tokio::test(start_paused = true)]
async fn tenants_alternate() {
    let rig = Rig::new(fairly_queued(10, Duration::from_secs(1)));
    let held = rig.lease();
    let mut waits: Vec<_> = (0..4).map(|_| (1, Box::pin(rig.view().wait(of_tenant(1, 5))))).collect();
    waits.extend((0..2).map(|_| (2, Box::pin(rig.view().wait(of_tenant(2, 5))))));
    drop(held);
    let mut order = Vec::new();
    while !waits.is_empty() {
        let mut next = None;
        for (index, (_, wait)) in waits.iter_mut().enumerate() {
            if let Some(lease) = futures_poll(wait).await {
                next = Some((index, lease.expect("a place")));
            }
        }
        let (index, lease) = next.expect("one has the place");
        order.push(waits.remove(index).0);
        drop(lease);
    }
    assert_eq!(order, [1, 2, 1, 2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_room_for_a_tenant_with_fewer_places() {
    let rig = Rig::new(fairly_queued(3, Duration::from_secs(1)));
    let _held = rig.lease();
    let mut flood: Vec<_> = (0..3).map(|_| Box::pin(rig.view().wait(of_tenant(1, 1)))).collect();
    assert_eq!(rig.view().wait(of_tenant(1, 1)).await.unwrap_err(), WaitError::QueueFull);
    let mut other = Box::pin(rig.view().wait(of_tenant(2, 1)));
    assert!(futures_poll(&mut other).await.is_none());
    assert_eq!(futures_poll(&mut flood[2]).await.expect("an end").unwrap_err(), WaitError::QueueFull);
    assert!(futures_poll(&mut flood[1]).await.is_none());
    assert_eq!(waiting(&rig), 3);
    let snapshot = rig.upstream().snapshot().queue.expect("a queue");
    assert_eq!((snapshot.waited, snapshot.refused), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn who_would_wait_too_long_is_told_at_once() {
    let rig = Rig::new(fairly_queued(1000, Duration::from_secs(2)));
    let mut held = Some(rig.lease());
    // Ten a second, each of 100, until enough is known.
    let first: Vec<_> = (0..20).map(|_| rig.view().wait(of_tenant(1, 100))).collect();
    for wait in first {
        tokio::time::advance(Duration::from_millis(100)).await;
        drop(held.take());
        held = Some(wait.await.expect("a place"));
    }
    let mut waits: Vec<_> = (0..20).map(|_| Box::pin(rig.view().wait(of_tenant(1, 100)))).collect();
    // 20 before it, and itself behind them: just within two seconds. The next one is not.
    let mut refused = 0;
    for _ in 0..10 {
        let mut wait = Box::pin(rig.view().wait(of_tenant(1, 100)));
        match futures_poll(&mut wait).await {
            None => waits.push(wait),
            Some(result) => {
                let error = result.unwrap_err();
                assert!(matches!(error, WaitError::TooLong(time) if time > Duration::from_secs(2)), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!((8..=10).contains(&refused), "{refused}");
    assert_eq!(rig.upstream().snapshot().queue.expect("a queue").too_long, refused);
    // Another tenant is served after as much as its own cost, and a higher class before all.
    let mut other = Box::pin(rig.view().wait(of_tenant(2, 100)));
    assert!(futures_poll(&mut other).await.is_none());
    let urgent = QueueEntry { priority: Priority::Interactive, ..of_tenant(1, 100) };
    let mut urgent = Box::pin(rig.view().wait(urgent));
    assert!(futures_poll(&mut urgent).await.is_none());
    let mut batch = Box::pin(rig.view().wait(QueueEntry { priority: Priority::Batch, ..of_tenant(3, 1) }));
    assert!(matches!(futures_poll(&mut batch).await, Some(Err(WaitError::TooLong(_)))));
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_tenants_gives_everyone_its_time() {
    let rig = Rig::new(queued(1, 1000));
    let mut held = Some(rig.lease());
    let first: Vec<_> = (0..20).map(|_| rig.view().wait(QueueEntry::default())).collect();
    for wait in first {
        tokio::time::advance(Duration::from_millis(40)).await;
        drop(held.take());
        held = Some(wait.await.expect("a place"));
    }
    let mut waits: Vec<_> = (0..200).map(|_| Box::pin(rig.view().wait(QueueEntry::default()))).collect();
    for wait in &mut waits {
        assert!(futures_poll(wait).await.is_none());
    }
    assert_eq!(rig.upstream().snapshot().queue.expect("a queue").too_long, 0);
}

/// The first waits for the one target that it was not tried at; what is free elsewhere goes to those behind it.
#[tokio::test(start_paused = true)]
async fn one_that_waits_for_another_target_keeps_nobody_from_the_free_one() {
    for fair in [None, fair()] {
        let mut two = queued(1, 10);
        two.queue = Some(config::Queue { size: 10, timeout: Duration::from_secs(1), fair });
        two.targets.push(target(ip(2), 1));
        let rig = Rig::new(two);
        let (first, second) = (rig.lease(), rig.lease());
        let tried = [second.target().id()];
        let mut blocked = Box::pin(rig.view().wait_for_untried(of_tenant(1, 1), &tried));
        let mut behind = Box::pin(rig.view().wait(of_tenant(1, 1)));
        assert!(futures_poll(&mut blocked).await.is_none() && futures_poll(&mut behind).await.is_none());
        drop(second);
        let lease = futures_poll(&mut behind).await.expect("a place").expect("a place");
        assert_eq!(lease.target().id(), tried[0]);
        assert!(futures_poll(&mut blocked).await.is_none());
        drop(first);
        assert!(futures_poll(&mut blocked).await.expect("a place").is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_the_exchange_bounds_the_wait() {
    let rig = Rig::new(fairly_queued(1000, Duration::from_secs(60)));
    let mut held = Some(rig.lease());
    let first: Vec<_> = (0..20).map(|_| rig.view().wait(of_tenant(1, 1))).collect();
    for wait in first {
        tokio::time::advance(Duration::from_millis(100)).await;
        drop(held.take());
        held = Some(wait.await.expect("a place"));
    }
    let mut waits: Vec<_> = (0..20).map(|_| Box::pin(rig.view().wait(of_tenant(1, 1)))).collect();
    for wait in &mut waits {
        assert!(futures_poll(wait).await.is_none());
    }
    let left = |seconds| QueueEntry { left: Some(Duration::from_secs(seconds)), ..of_tenant(1, 1) };
    assert!(matches!(rig.view().wait(left(1)).await, Err(WaitError::TooLong(_))));
    let mut enough = Box::pin(rig.view().wait(left(5)));
    assert!(futures_poll(&mut enough).await.is_none());
}

/// A place that only others could use is left alone while there are none.
#[tokio::test(start_paused = true)]
async fn one_that_waits_alone_for_another_target_leaves_the_free_one() {
    let mut two = queued(1, 10);
    two.targets.push(target(ip(2), 1));
    let rig = Rig::new(two);
    let (first, second) = (rig.lease(), rig.lease());
    let tried = [second.target().id()];
    let mut blocked = Box::pin(rig.view().wait_for_untried(QueueEntry::default(), &tried));
    drop(second);
    assert!(futures_poll(&mut blocked).await.is_none());
    let mut other = Box::pin(rig.view().wait(QueueEntry::default()));
    assert!(futures_poll(&mut other).await.expect("a place").is_ok());
    drop(first);
    assert!(futures_poll(&mut blocked).await.expect("a place").is_ok());
}
