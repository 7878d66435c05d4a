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
    let budget = Budget::new(100);
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
    assert!(budget.has_room(100), "what is stored counts elsewhere");
    assert!(matches!(fill.read().unwrap().poll_progress(None), Poll::Ready(Progress::Whole(_))));
}

#[test]
fn a_body_of_one_piece_that_nobody_has_is_handed_over_and_nobody_misses_it() {
    let fill = Fill::new(100, Budget::new(100));
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
    let fill = Fill::new(100, Budget::new(100));
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
    assert!(fill.poll_room(&mut cx).is_pending());
    assert!(matches!(slow.poll_piece(None), Poll::Ready(Piece::Bytes(_))));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(fill.poll_room(&mut cx).is_ready());
    fill.push(large);
    assert!(fill.poll_room(&mut cx).is_pending());
    drop(slow);
    assert_eq!(count.0.load(Ordering::Relaxed), 2);
    read(&fast);
    assert!(fill.poll_room(&mut cx).is_ready());
    fill.end();
    assert_eq!(read(&fast), ".");
}

#[test]
fn a_budget_that_is_used_up_makes_fetches_pass_through() {
    let budget = Budget::new(5);
    let (first, second) = (Fill::new(100, budget.clone()), Fill::new(100, budget.clone()));
    first.push(piece("abcd"));
    second.push(piece("ef"));
    assert!(!first.is_oversize() && second.is_oversize());
    drop(first);
    assert!(budget.has_room(5));
}

#[test]
fn what_a_slow_reader_holds_of_an_answer_too_large_to_keep_still_counts() {
    let budget = Budget::new(20);
    let fill = Fill::new(8, budget.clone());
    let (fast, slow) = (fill.read().unwrap(), fill.read().unwrap());
    fill.push(piece("abcd"));
    fill.push(piece("efgh"));
    fill.push(piece("ij"));
    assert!(fill.is_oversize());
    read(&fast);
    fill.push(piece("k"));
    assert!(budget.has_room(12) && !budget.has_room(13), "eight bytes are held for the slow one");
    assert!(matches!(slow.poll_piece(None), Poll::Ready(Piece::Bytes(_))));
    fill.push(piece("l"));
    assert!(budget.has_room(16) && !budget.has_room(17));
    read(&slow);
    fill.push(piece("m"));
    assert!(budget.has_room(20));
    drop((fill, fast, slow));
    assert!(budget.has_room(20) && !budget.has_room(21), "nothing is given back twice");
}

#[test]
fn a_failure_tells_who_has_not_begun_why() {
    let fill = Fill::new(100, Budget::new(100));
    let reader = fill.read().unwrap();
    fill.fail(Some(crate::error::Reason::ConnectFailed.into()));
    let Poll::Ready(Progress::Broken(Some(error))) = reader.poll_progress(None) else { panic!("no failure") };
    assert_eq!(error.reason, crate::error::Reason::ConnectFailed);
}
