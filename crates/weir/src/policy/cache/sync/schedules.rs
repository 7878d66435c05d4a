//! Fetches that several threads share, under a scheduler that chooses who runs at each lock and counter. A reader that is not woken shows as a deadlock.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::{Config, Runner, thread};

use super::super::Cache;
use super::super::entry::Entry;
use super::super::entry::tests::{entry, head};
use super::super::fill::{Budget, Fill, LAG_NS, Piece, Progress, Reader};
use super::super::lead::Lead;
use super::super::lead::tests::{cache, keys, wanted};
use super::super::purge::Chosen;
use super::super::rules::Fwd;

/// Schedules of each test: random ones, and as many by PCT, which finds bugs of up to three changes of thread with a known probability.
const SCHEDULES: usize = 2_000;

fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    let mut config = Config::new();
    // A response is stored and a store is made on it.
    config.stack_size = 1 << 20;
    assert_eq!(Runner::new(RandomScheduler::new(SCHEDULES), config.clone()).run(test), SCHEDULES);
    assert_eq!(Runner::new(PctScheduler::new(3, SCHEDULES), config).run(test), SCHEDULES);
}

/// What a reader gets: the body, and whether its end came.
fn read_all(reader: &Reader) -> (Vec<u8>, bool) {
    block_on(async {
        let mut body = Vec::new();
        match poll_fn(|cx| reader.poll_progress(Some(cx))).await {
            Progress::Whole(entry) => return (entry.body().to_vec(), true),
            Progress::Begun(_) => {}
            _ => return (body, false),
        }
        loop {
            match poll_fn(|cx| reader.poll_piece(Some(cx))).await {
                Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
                Piece::Rest(entry, at) => {
                    body.extend_from_slice(&entry.body()[at..]);
                    return (body, true);
                }
                Piece::End => return (body, true),
                Piece::Broken => return (body, false),
            }
        }
    })
}

#[derive(Clone, Copy)]
enum Ending {
    Complete,
    Fail,
}

/// However pushes and reads interleave, each reader has the whole, or knows that it has not.
fn readers_get_the_whole(ending: Ending) {
    let budget = Budget::new(1 << 20);
    let fill = Fill::new(1 << 16, budget.clone());
    let early = fill.read().unwrap();
    let early = thread::spawn(move || read_all(&early));
    let late = {
        let fill = fill.clone();
        thread::spawn(move || fill.read().map(|reader| read_all(&reader)))
    };
    fill.begin(Arc::new(head("")));
    let pieces = [vec![b'a'; 10], vec![b'b'; 5_000], vec![b'c'; 3]];
    let whole = pieces.concat();
    pieces.into_iter().for_each(|piece| fill.push(piece.into()));
    match ending {
        Ending::Complete => {
            let body = fill.take_body().expect("it is small enough");
            fill.complete(Entry::new(Arc::new(head("")), body));
        }
        Ending::Fail => fill.fail(None),
    }
    for (body, has_ended) in [Some(early.join().unwrap()), late.join().unwrap()].into_iter().flatten() {
        match ending {
            Ending::Complete => assert!(has_ended && body == whole),
            Ending::Fail => assert!(!has_ended && whole.starts_with(&body)),
        }
    }
    drop(fill);
    assert!(budget.has_room(1 << 20), "all is given back");
}

#[test]
fn schedules_of_a_fetch_that_completes() {
    explore(|| readers_get_the_whole(Ending::Complete));
}

#[test]
fn schedules_of_a_fetch_that_fails() {
    explore(|| readers_get_the_whole(Ending::Fail));
}

/// A body that is only passed on: the leader waits for room, readers for bytes, one of them goes in the middle. No task waits without limit, and who stays
/// has everything.
#[test]
fn schedules_of_a_body_that_is_only_passed_on() {
    explore(|| {
        let budget = Budget::new(1 << 20);
        let fill = Fill::new(10, budget.clone());
        let (stays, goes) = (fill.read().unwrap(), fill.read().unwrap());
        let stays = thread::spawn(move || read_all(&stays));
        let goes = thread::spawn(move || {
            let _ = block_on(poll_fn(|cx| goes.poll_piece(Some(cx))));
            drop(goes);
        });
        fill.begin(Arc::new(head("")));
        for _ in 0..4 {
            // No time passes, so that nobody is cut off.
            block_on(poll_fn(|cx: &mut Context<'_>| fill.poll_room(cx, 0)));
            fill.push(Bytes::from(vec![b'x'; 100_000]));
        }
        fill.end();
        goes.join().unwrap();
        let (body, has_ended) = stays.join().unwrap();
        assert!(has_ended && body.len() == 400_000, "{} bytes", body.len());
        drop(fill);
        assert!(budget.has_room(1 << 20));
    });
}

/// One that reads nothing while another waits is cut off when its time is over, and the others go on.
#[test]
fn schedules_of_a_reader_that_is_cut_off() {
    explore(|| {
        let fill = Fill::new(10, Budget::new(1 << 20));
        let (reads, stuck) = (fill.read().unwrap(), fill.read().unwrap());
        let reads = thread::spawn(move || read_all(&reads));
        fill.begin(Arc::new(head("")));
        let mut now_ns = 0;
        for _ in 0..4 {
            block_on(poll_fn(|cx: &mut Context<'_>| match fill.poll_room(cx, now_ns) {
                Poll::Pending if fill.cut_due_ns().is_some() => {
                    now_ns += LAG_NS;
                    fill.poll_room(cx, now_ns)
                }
                poll => poll,
            }));
            fill.push(Bytes::from(vec![b'x'; 100_000]));
        }
        fill.end();
        assert_eq!(reads.join().unwrap().0.len(), 400_000);
        assert!(matches!(stuck.poll_piece(None), Poll::Ready(Piece::Broken)));
    });
}

/// Three requests for one key: at every moment one fetches at most, and all have a response.
#[test]
fn schedules_of_requests_that_join() {
    explore(|| {
        let cache = cache();
        let is_fetching = Arc::new(AtomicBool::new(false));
        let request = || {
            let (cache, is_fetching) = (cache.clone(), is_fetching.clone());
            thread::spawn(move || match Lead::join(&cache, &keys(), wanted(), Fwd::UriMiss) {
                Ok(lead) => {
                    assert!(!is_fetching.swap(true, Ordering::SeqCst), "two fetch at once");
                    thread::yield_now();
                    is_fetching.store(false, Ordering::SeqCst);
                    assert!(lead.finish(&entry("body")));
                }
                Err(reader) => assert_eq!(read_all(&reader), (b"body".to_vec(), true)),
            })
        };
        let requests = [request(), request(), request()];
        requests.into_iter().for_each(|request| request.join().unwrap());
        assert_eq!(cache.state.memory.entries(), 1);
    });
}

/// A request after a purge does not join a fetch that began before it, and the response to that fetch is not stored.
#[test]
fn schedules_of_a_purge_during_a_fetch() {
    explore(|| {
        let cache = cache();
        let fetch = |cache: Arc<Cache>| {
            thread::spawn(move || {
                let lead = Lead::join(&cache, &keys(), wanted(), Fwd::UriMiss).ok()?;
                let purges = lead.began().purges;
                lead.finish(&entry("early"));
                Some(purges)
            })
        };
        let early = fetch(cache.clone());
        let late = {
            let cache = cache.clone();
            thread::spawn(move || {
                cache.take_out(&Arc::new(Chosen::All), false);
                Lead::join(&cache, &keys(), wanted(), Fwd::UriMiss).is_err()
            })
        };
        let (purges, has_joined) = (early.join().unwrap(), late.join().unwrap());
        assert!(!has_joined || purges == Some(1), "it joined a fetch that began before the purge");
        // One that began while the purge was looking through memory may have been purged with the rest.
        assert!(cache.state.memory.entries() <= u64::from(purges == Some(1)));
    });
}
