use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use tokio::io::AsyncReadExt;

struct Count(AtomicUsize);
impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn waker() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count(AtomicUsize::new(0)));
    (count.clone(), Waker::from(count))
}

/// Lets the time be `now_ns`, without an event in between.
fn fire(all: &Deadlines, now_ns: u64) {
    all.collect_due(now_ns);
    all.fire_expiring(now_ns);
}

#[test]
fn a_deadline_that_moves_on_does_not_fire_and_costs_one_entry() {
    let (count, waker) = waker();
    let cx = Context::from_waker(&waker);
    let all = Deadlines::new();
    let deadline = all.add();
    for step in 1..1000 {
        deadline.set_at(step * TICK_NS + 75 * TICK_NS);
        assert!(!deadline.poll_passed(&cx));
    }
    assert_eq!(all.heap.borrow().len(), 1);
    fire(&all, 500 * TICK_NS);
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    fire(&all, 2000 * TICK_NS);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(deadline.poll_passed(&cx));
}

#[test]
fn an_earlier_deadline_fires_first_and_once() {
    let (count, waker) = waker();
    let cx = Context::from_waker(&waker);
    let all = Deadlines::new();
    let deadline = all.add();
    deadline.set_at(100 * TICK_NS);
    deadline.set_at(10 * TICK_NS);
    assert!(!deadline.poll_passed(&cx));
    fire(&all, 11 * TICK_NS);
    assert!(deadline.poll_passed(&cx));
    fire(&all, 200 * TICK_NS);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_slot_is_used_again_without_the_old_deadline() {
    let (count, waker) = waker();
    let cx = Context::from_waker(&waker);
    let all = Deadlines::new();
    let first = all.add();
    first.set_at(5 * TICK_NS);
    drop(first);
    let second = all.add();
    assert_eq!(all.slots.borrow().len(), 1);
    assert!(!second.poll_passed(&cx));
    fire(&all, 100 * TICK_NS);
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    second.set_at(150 * TICK_NS);
    fire(&all, 151 * TICK_NS);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
}

#[test]
fn it_does_not_fire_before_its_time_however_old_the_reading_was_that_it_was_measured_from() {
    let (_count, waker) = waker();
    let cx = Context::from_waker(&waker);
    let all = Deadlines::new();
    for due in (0..2 * TICK_NS).step_by(100_000) {
        let deadline = all.add();
        deadline.set_at(due);
        for now in (0..6 * TICK_NS).step_by(500_000) {
            fire(&all, now);
            assert!(!deadline.poll_passed(&cx) || now >= due + clock::STALL_NS, "due {due}, fired at {now}");
        }
        assert!(deadline.poll_passed(&cx));
    }
}

#[test]
fn a_stall_after_it_was_set_postpones_it() {
    let (_count, waker) = waker();
    let cx = Context::from_waker(&waker);
    let all = Deadlines::new();
    let deadline = all.add();
    clock::begin_iteration();
    deadline.set(Some(Duration::from_millis(5)));
    let set_at = clock::loop_ns();
    std::thread::sleep(Duration::from_millis(40));
    let now = clock::refresh();
    fire(&all, now);
    assert!(!deadline.poll_passed(&cx), "the reading that it was measured from may have been {} ns old", now - set_at);
    fire(&all, now + 40 * TICK_NS);
    assert!(deadline.poll_passed(&cx));
}

#[test]
fn one_that_is_moved_while_events_are_collected_does_not_fire() {
    let (count, waker) = waker();
    let cx = Context::from_waker(&waker);
    let all = Deadlines::new();
    let (moved, off, late) = (all.add(), all.add(), all.add());
    for deadline in [&moved, &off, &late] {
        deadline.set_at(TICK_NS);
        assert!(!deadline.poll_passed(&cx));
    }
    all.collect_due(10 * TICK_NS);
    moved.set_at(20 * TICK_NS);
    off.set(None);
    all.fire_expiring(10 * TICK_NS);
    assert!(late.poll_passed(&cx) && !moved.poll_passed(&cx) && !off.poll_passed(&cx));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    fire(&all, 21 * TICK_NS);
    assert!(moved.poll_passed(&cx));
}

#[test]
fn connections_that_have_been_idle_for_the_longest_time_are_closed_first() {
    let (_count, waker) = waker();
    let cx = Context::from_waker(&waker);
    let all = Deadlines::new();
    let deadlines: Vec<Deadline> = (0..5).map(|_| all.add()).collect();
    for number in [3, 0, 4, 1] {
        clock::refresh();
        deadlines[number].set(None);
        deadlines[number].set_idle(false);
        deadlines[number].set_idle(true);
    }
    deadlines[4].set_idle(false);
    // Its first request is on its way.
    deadlines[2].set_idle(true);
    let fired = || (0..5).filter(|number| deadlines[*number].poll_passed(&cx)).collect::<Vec<usize>>();
    assert_eq!(all.fire_idlest(2), 2);
    assert_eq!(fired(), [0, 3]);
    assert_eq!(all.fire_idlest(2), 1, "nobody is closed twice");
    assert_eq!(fired(), [0, 1, 3]);
}

/// What came while this thread was away is read, whatever time it is by then.
#[test]
fn bytes_that_wait_come_before_a_deadline() {
    const AFTER: Duration = Duration::from_millis(100);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_unpark(clock::begin_iteration)
        .build_local(tokio::runtime::LocalOptions::default())
        .unwrap();
    let outcomes = runtime.block_on(async {
        let all = Deadlines::new();
        tokio::task::spawn_local(all.clone().run());
        let mut ends = Vec::new();
        let mut readers = Vec::new();
        for _ in 0..100 {
            let (mut near, far) = tokio::net::UnixStream::pair().unwrap();
            let deadline = all.add();
            ends.push(far);
            readers.push(tokio::task::spawn_local(async move {
                clock::refresh();
                deadline.set(Some(AFTER));
                let mut byte = [0];
                let mut reading = std::pin::pin!(near.read(&mut byte));
                std::future::poll_fn(|cx| match reading.as_mut().poll(cx) {
                    Poll::Ready(read) => Poll::Ready(read.is_ok()),
                    Poll::Pending if deadline.poll_passed(cx) => Poll::Ready(false),
                    Poll::Pending => Poll::Pending,
                })
                .await
            }));
        }
        tokio::task::yield_now().await;
        let set_before = std::time::Instant::now();
        for end in &ends[..99] {
            assert_eq!(end.try_write(b"x").unwrap(), 1);
        }
        // The thread is busy with this until then.
        testkit::wait::until(testkit::DEADLINE, "the deadlines are over", || set_before.elapsed() > AFTER);
        let mut outcomes = Vec::new();
        for reader in readers {
            outcomes.push(reader.await.unwrap());
        }
        outcomes
    });
    assert_eq!(outcomes.iter().filter(|got| **got).count(), 99);
    assert!(!outcomes[99], "and one to whom nothing came is late");
}
