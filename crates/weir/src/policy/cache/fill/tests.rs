use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;
use crate::policy::cache::entry::tests::head;

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

fn piece(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn read(reader: &Reader) -> String {
    let mut text = String::new();
    loop {
        match reader.poll_piece(None) {
            Poll::Ready(Piece::Bytes(bytes)) => text += std::str::from_utf8(&bytes).unwrap(),
            Poll::Ready(Piece::Rest(entry, at)) => text += std::str::from_utf8(&entry.body()[at..]).unwrap(),
            Poll::Ready(Piece::End) => return text + ".",
            Poll::Ready(Piece::Broken) => return text + "!",
            Poll::Pending => return text,
        }
    }
}

#[test]
fn readers_go_at_their_own_pace_and_end_on_the_whole() {
    let budget = room(1, 100);
    let fill = Fill::new(100, budget.clone());
    let (first, second) = (fill.read().unwrap(), fill.read().unwrap());
    fill.begin(Arc::new(head("")));
    fill.push(piece("ab"));
    assert_eq!(read(&first), "ab");
    fill.push(piece("cd"));
    assert_eq!(read(&first), "cd");
    assert!(!budget.has_room(97));
    let body = fill.take_body().unwrap();
    assert_eq!(body, "abcd");
    fill.complete(Entry::new(Arc::new(head("")), body));
    assert_eq!((read(&first), read(&second)), (".".into(), "abcd.".into()));
    assert!(budget.has_room(OVERHEAD + 100), "what is stored counts elsewhere");
    assert!(matches!(fill.read().unwrap().poll_progress(None), Poll::Ready(Progress::Whole(_))));
}

#[test]
fn a_body_of_one_piece_that_nobody_has_is_handed_over_and_nobody_misses_it() {
    let fill = Fill::new(100, Budget::new(1000));
    let first = fill.read().unwrap();
    fill.begin(Arc::new(head("")));
    fill.push(piece("ab"));
    let body = fill.take_body().unwrap();
    let second = fill.read().expect("it may still be joined");
    assert_eq!((read(&first), read(&second)), (String::new(), String::new()));
    fill.complete(Entry::new(Arc::new(head("")), body));
    assert_eq!((read(&first), read(&second)), ("ab.".into(), "ab.".into()));
}

#[test]
fn those_who_wait_are_woken_and_only_once() {
    let fill = Fill::new(100, Budget::new(1000));
    let reader = fill.read().unwrap();
    let (count, waker) = waker();
    let cx = Context::from_waker(&waker);
    assert!(reader.poll_progress(Some(&cx)).is_pending());
    assert!(reader.poll_progress(Some(&cx)).is_pending());
    fill.begin(Arc::new(head("")));
    assert!(matches!(reader.poll_progress(Some(&cx)), Poll::Ready(Progress::Begun(_))));
    fill.push(piece("a"));
    assert_eq!(count.0.load(Ordering::Relaxed), 1, "who does not wait is not woken");
    assert_eq!(read(&reader), "a");
    assert!(reader.poll_piece(Some(&cx)).is_pending());
    fill.fail(None);
    assert_eq!(count.0.load(Ordering::Relaxed), 2);
    assert_eq!(read(&reader), "!");
}

/// A budget of so many blocks of so many bytes.
fn room(blocks: u64, bytes: u64) -> Arc<Budget> {
    Budget::new(blocks * OVERHEAD + bytes)
}

#[test]
fn what_is_too_large_is_passed_on_in_a_window_that_the_slowest_reader_moves() {
    let fill = Fill::new(4, Budget::new(1 << 20));
    let (fast, slow) = (fill.read().unwrap(), fill.read().unwrap());
    let (count, waker) = waker();
    let mut cx = Context::from_waker(&waker);
    let large = Bytes::from(vec![b'x'; usize::try_from(WINDOW).unwrap()]);
    fill.push(piece("abcd"));
    assert!(!fill.is_oversize());
    fill.push(large.clone());
    assert!(fill.is_oversize() && fill.take_body().is_none());
    assert!(fill.read().is_none(), "who comes now would miss the beginning");
    read(&fast);
    assert!(fill.poll_room(&mut cx, 0).is_pending());
    assert!(matches!(slow.poll_piece(None), Poll::Ready(Piece::Bytes(_))));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    read(&slow);
    assert!(fill.poll_room(&mut cx, 0).is_ready());
    fill.push(large);
    assert!(fill.poll_room(&mut cx, 0).is_pending());
    drop(slow);
    assert_eq!(count.0.load(Ordering::Relaxed), 2);
    read(&fast);
    assert!(fill.poll_room(&mut cx, 0).is_ready());
    fill.end();
    assert_eq!(read(&fast), ".");
}

/// One who reads nothing, or a block now and then, makes others wait for [`LAG_NS`] in all.
#[test]
fn a_reader_that_others_wait_for_is_cut_off() {
    for reads in [false, true] {
        let budget = Budget::new(1 << 20);
        let fill = Fill::new(4, budget.clone());
        let (fast, slow) = (fill.read().unwrap(), fill.read().unwrap());
        let (count, waker) = waker();
        let mut cx = Context::from_waker(&waker);
        fill.begin(Arc::new(head("")));
        fill.push(piece("abcde"));
        let (mut now_ns, mut waited_ns) = (7, 0);
        for _ in 0..100 {
            while fill.poll_room(&mut cx, now_ns).is_ready() {
                fill.push(Bytes::from(vec![b'x'; BLOCK]));
                read(&fast);
            }
            if slow.is_cut() {
                break;
            }
            let due_ns = fill.cut_due_ns().expect("a time to look again");
            assert_eq!(due_ns, now_ns + LAG_NS - waited_ns);
            let pause_ns = if reads { LAG_NS / 10 } else { LAG_NS };
            now_ns += pause_ns;
            waited_ns += pause_ns;
            if reads && waited_ns < LAG_NS {
                assert!(matches!(slow.poll_piece(None), Poll::Ready(Piece::Bytes(_))));
            }
            // It is cut at its time and not before.
            let before = slow.is_cut();
            let _ = fill.poll_room(&mut cx, now_ns);
            assert!(!before && slow.is_cut() == (waited_ns >= LAG_NS), "{waited_ns}");
            if slow.is_cut() {
                break;
            }
        }
        assert!(slow.is_cut() && !fast.is_cut());
        assert!(matches!(slow.poll_piece(None), Poll::Ready(Piece::Broken)), "what it has must not pass for whole");
        assert!(fill.poll_room(&mut cx, now_ns).is_ready());
        fill.push(piece("end"));
        fill.end();
        assert!(read(&fast).ends_with("end."));
        assert!(count.0.load(Ordering::Relaxed) <= 20);
        drop((fill, fast, slow));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}

/// One who reads alone is as slow as it likes, and so are several that are equally slow.
#[test]
fn nobody_is_cut_off_whom_nobody_waits_for() {
    let fill = Fill::new(4, Budget::new(1 << 20));
    let readers = [fill.read().unwrap(), fill.read().unwrap()];
    let (_, waker) = waker();
    let mut cx = Context::from_waker(&waker);
    for round in 0..20 {
        while fill.poll_room(&mut cx, round * LAG_NS).is_ready() {
            fill.push(Bytes::from(vec![b'x'; BLOCK]));
        }
        assert_eq!(fill.cut_due_ns(), None);
        for reader in &readers {
            assert!(matches!(reader.poll_piece(None), Poll::Ready(Piece::Bytes(_))));
        }
    }
}

#[test]
fn a_budget_that_is_used_up_makes_fetches_pass_through() {
    let budget = room(1, 5);
    let (first, second) = (Fill::new(100, budget.clone()), Fill::new(100, budget.clone()));
    first.push(piece("abcd"));
    let reader = second.read();
    second.push(piece("ef"));
    assert!(!first.is_oversize() && second.is_oversize());
    drop(first);
    assert!(!budget.has_room(OVERHEAD + 5), "what is only passed on counts");
    drop((reader, second));
    assert!(budget.has_room(OVERHEAD + 5));
}

#[test]
fn what_a_slow_reader_holds_of_a_response_too_large_to_keep_still_counts() {
    let budget = Budget::new(1 << 20);
    let held = || budget.held.load(Ordering::Relaxed);
    let block = |byte: u8| Bytes::from(vec![byte; SMALL]);
    let fill = Fill::new(SMALL as u64 * 2, budget.clone());
    let (fast, slow) = (fill.read().unwrap(), fill.read().unwrap());
    for byte in b"abcd" {
        fill.push(block(*byte));
        read(&fast);
    }
    let each = SMALL as u64 + OVERHEAD;
    assert!(fill.is_oversize());
    assert_eq!(held(), 4 * each, "four blocks are held for the slow one");
    assert!(matches!(slow.poll_piece(None), Poll::Ready(Piece::Bytes(_))));
    fill.push(block(b'e'));
    read(&fast);
    assert_eq!(held(), 4 * each);
    read(&slow);
    fill.push(block(b'f'));
    assert_eq!(held(), each);
    drop((fill, fast, slow));
    assert_eq!(held(), 0, "nothing is given back twice");
}

/// What an upstream sends in single bytes is held in few blocks, and what counts is what is allocated, at every moment.
#[test]
fn small_pieces_are_joined_and_what_is_allocated_counts() {
    for limit in [1 << 20, 1000] {
        let budget = Budget::new(1 << 20);
        let fill = Fill::new(limit, budget.clone());
        let (fast, slow) = (fill.read().unwrap(), fill.read().unwrap());
        let (mut sent, mut got) = (Vec::new(), String::new());
        for number in 0..50_000_usize {
            // Mostly single bytes, now and then more.
            let length = if number % 5000 == 4999 { 3000 } else { 1 };
            let bytes = vec![b'a' + (number % 26) as u8; length];
            sent.extend_from_slice(&bytes);
            fill.push(Bytes::from(bytes));
            if number % 7 == 0 {
                got += &read(&fast);
            }
            let state = fill.lock();
            let allocated: usize = state.blocks.iter().map(|block| block.bytes.len() + OVERHEAD as usize).sum();
            let tail = state.tail.capacity() + if state.tail.capacity() > 0 { OVERHEAD as usize } else { 0 };
            assert_eq!((allocated + tail) as u64, budget.held.load(Ordering::Relaxed));
            assert!(state.blocks.len() <= 2 + sent.len() / (BLOCK / 4), "{} blocks", state.blocks.len());
        }
        got += &read(&fast);
        assert!(got.as_bytes() == sent);
        assert_eq!(read(&slow).as_bytes(), sent);
        if limit > 1000 {
            assert_eq!(fill.take_body().unwrap(), sent);
        }
        drop((fill, fast, slow));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}

/// The same bytes however pieces are cut, wherever a reader comes in.
#[test]
fn any_cut_of_a_body_is_the_same_body() {
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % most
    };
    for _ in 0..200 {
        let fill = Fill::new(1 << 20, Budget::new(1 << 22));
        let first = fill.read().unwrap();
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for _ in 0..next(40) + 1 {
            let length = [1, 100, SMALL as u64, BLOCK as u64, 40_000][next(5) as usize];
            let bytes: Vec<u8> = (0..next(length) + 1).map(|_| b'a' + next(26) as u8).collect();
            sent.extend_from_slice(&bytes);
            fill.push(bytes.into());
            for _ in 0..next(3) {
                got.extend_from_slice(read(&first).as_bytes());
            }
        }
        let late = fill.read().unwrap();
        let body = fill.take_body().unwrap();
        assert!(body == sent);
        let mut late_got = read(&late);
        fill.complete(Entry::new(Arc::new(head("")), body));
        late_got += read(&late).strip_suffix('.').unwrap();
        got.extend_from_slice(read(&first).strip_suffix('.').unwrap().as_bytes());
        assert!(got == sent && late_got.as_bytes() == sent);
    }
}

#[test]
fn a_failure_tells_who_has_not_begun_why() {
    let fill = Fill::new(100, Budget::new(1000));
    let reader = fill.read().unwrap();
    fill.fail(Some(crate::error::Reason::ConnectFailed.into()));
    let Poll::Ready(Progress::Broken(Some(error))) = reader.poll_progress(None) else { panic!("no failure") };
    assert_eq!(error.reason, crate::error::Reason::ConnectFailed);
}

/// A call that several wait for goes on until the last of them has disconnected.
#[test]
fn that_nobody_reads_any_more_is_noticed_when_the_last_reader_goes() {
    let fill = Fill::new(100, Budget::new(1000));
    let (first, second) = (fill.first_reader(), fill.read().unwrap());
    let (count, waker) = waker();
    let cx = Context::from_waker(&waker);
    assert!(fill.poll_unread(&cx).is_pending());
    drop(first);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(fill.poll_unread(&cx).is_pending(), "one is left");
    drop(second);
    assert_eq!(count.0.load(Ordering::Relaxed), 2);
    assert!(fill.poll_unread(&cx).is_ready());
}
