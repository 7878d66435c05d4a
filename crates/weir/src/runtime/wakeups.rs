//! Wake-ups under load, coalesced.
//!
//! A worker that is quicker than its neighbours sleeps after each event and is woken for the next one, and it is the sender of that event who pays: an
//! interrupt to another core, dear where cores are virtual, taken from the very service that the gateway stands in front of. So a worker with many waiting
//! requests parks for a moment before it waits for events. What comes meanwhile wakes nobody and is handled together, as network cards have long done
//! with packets. The park delay is a small part of a request's latency, by Little's law: requests that wait for a response, divided by their rate.
//! Event streams and tunnels do not wait: they may last for hours, and would make every request look slow.

use std::cell::Cell;
use std::time::Duration;

use super::clock;

/// With fewer waiting requests a worker never rests: few are there to be handled together, and each would feel it.
const MANY: u64 = 16;
/// Requests per second of a worker below which it never rests: there are few wake-ups to save, however many requests wait for a slow service.
const LEAST_RATE: u64 = 2_500;
/// A park delay is at most this part of a request's latency. A request meets two of them, each half over on the average, so this is the part of its time
/// that it waits.
const PART: u64 = 16;
/// And never longer.
const MOST_NS: u64 = 500_000;
/// A shorter one gathers too little: going to sleep and waking up cost as much as it saves. So nobody rests where requests take less than 3.2 ms.
const LEAST_NS: u64 = 200_000;
/// What a request takes is looked at so often.
const WINDOW_NS: u64 = 10_000_000;

/// What one worker knows of its load.
struct Load {
    may_rest: Cell<bool>,
    waiting: Cell<u64>,
    ended: Cell<u64>,
    /// Begin of the window, and how many had ended by then.
    window: Cell<(u64, u64)>,
    /// Rest that the last window led to.
    rest_ns: Cell<u64>,
}

thread_local! {
    static LOAD: Load = const { Load::new() };
}

/// Whether this thread's worker may rest.
pub fn coalesce(may_rest: bool) {
    // The kernel lets a sleeper lie for 50 us more unless told; without it rests are longer than meant, and no more.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(if may_rest { 1_000 } else { 50_000 }));
    LOAD.with(|load| load.may_rest.set(may_rest));
}

/// Called by a worker's runtime when nothing is left to do and it is about to wait for events.
pub fn rest() {
    if let Some(rest) = LOAD.with(|load| load.rest(clock::loop_ns())) {
        std::thread::sleep(rest);
    }
}

/// A request that waits for its response, until this is dropped.
pub struct Waiting(());

impl Waiting {
    /// From now on.
    pub fn begin() -> Self {
        LOAD.with(|load| load.waiting.set(load.waiting.get() + 1));
        // One poll of a connection can hold many requests.
        clock::count_work();
        Waiting(())
    }
}

/// Requests of this thread's worker that wait for a response.
pub fn waiting() -> u64 {
    LOAD.with(|load| load.waiting.get())
}

impl Drop for Waiting {
    fn drop(&mut self) {
        LOAD.with(Load::end);
    }
}

impl Load {
    const fn new() -> Self {
        Load {
            may_rest: Cell::new(false),
            waiting: Cell::new(0),
            ended: Cell::new(0),
            window: Cell::new((0, 0)),
            rest_ns: Cell::new(0),
        }
    }

    fn end(&self) {
        self.waiting.set(self.waiting.get() - 1);
        self.ended.set(self.ended.get() + 1);
    }

    /// How long to rest now.
    fn rest(&self, now_ns: u64) -> Option<Duration> {
        let waiting = self.waiting.get();
        if waiting < MANY || !self.may_rest.get() {
            return None;
        }
        let (begun_ns, ended) = self.window.get();
        let elapsed_ns = now_ns.saturating_sub(begun_ns);
        if elapsed_ns >= WINDOW_NS {
            let ended_since = self.ended.get() - ended;
            self.rest_ns.set(rest_ns(waiting, ended_since, elapsed_ns));
            self.window.set((now_ns, self.ended.get()));
        }
        Some(self.rest_ns.get()).filter(|rest| *rest > 0).map(Duration::from_nanos)
    }
}

/// The rest for so many waiting requests, of which some ended in a time; 0: none.
fn rest_ns(waiting: u64, ended: u64, elapsed_ns: u64) -> u64 {
    let rate = ended.saturating_mul(1_000_000_000) / elapsed_ns.max(1);
    if rate < LEAST_RATE {
        return 0;
    }
    let each_takes_ns = waiting.saturating_mul(1_000_000_000) / rate;
    let rest_ns = (each_takes_ns / PART).min(MOST_NS);
    if rest_ns < LEAST_NS { 0 } else { rest_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A load that had `ended` requests end within a window, while so many wait.
    fn after_a_window(waiting: u64, ended: u64) -> Option<Duration> {
        let load = Load::new();
        load.may_rest.set(true);
        load.waiting.set(waiting);
        assert_eq!(load.rest(5 * MS), None, "nothing is known within the first window");
        load.waiting.set(waiting + ended);
        (0..ended).for_each(|_| load.end());
        load.rest(10 * MS)
    }

    #[test]
    fn a_rest_is_a_small_part_of_what_a_request_takes_and_bounded() {
        // 200 wait, 10,000 a second: each takes 20 ms.
        assert_eq!(after_a_window(200, 100), Some(Duration::from_nanos(MOST_NS)));
        // 40 wait, 10,000 a second: each takes 4 ms.
        assert_eq!(after_a_window(40, 100), Some(Duration::from_micros(250)));
    }

    #[test]
    fn nobody_rests_where_it_would_be_felt_or_save_nothing() {
        assert_eq!(after_a_window(MANY - 1, 1000), None, "few wait");
        assert_eq!(after_a_window(1000, 24), None, "2,400 a second");
        assert_eq!(after_a_window(64, 1600), None, "each takes 400 us");
        assert_eq!(after_a_window(1000, 0), None, "none ended");
    }

    #[test]
    fn what_was_known_is_forgotten_with_the_next_window() {
        let load = Load::new();
        load.may_rest.set(true);
        load.waiting.set(300);
        (0..100).for_each(|_| load.end());
        assert!(load.rest(10 * MS).is_some());
        assert!(load.rest(15 * MS).is_some());
        // Nothing ended in the second window.
        assert_eq!(load.rest(20 * MS), None);
    }

    #[test]
    fn requests_are_counted_until_their_response_begins() {
        let waiting: Vec<Waiting> = (0..100).map(|_| Waiting::begin()).collect();
        assert_eq!(LOAD.with(|load| (load.waiting.get(), load.ended.get())), (100, 0));
        drop(waiting);
        assert_eq!(LOAD.with(|load| (load.waiting.get(), load.ended.get())), (0, 100));
    }

    #[test]
    fn a_worker_that_may_not_rest_does_not() {
        let load = Load::new();
        load.waiting.set(300);
        (0..100).for_each(|_| load.end());
        assert_eq!(load.rest(10 * MS), None);
        load.may_rest.set(true);
        assert!(load.rest(10 * MS).is_some());
    }
}
