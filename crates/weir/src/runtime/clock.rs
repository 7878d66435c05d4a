//! Time of a worker: one precise clock, and a recent reading of it that costs nothing.
//!
//! A runtime reports when it comes back from waiting, but a worker with enough to do never waits. So the clock is also read after every
//! few units of work ([`count_work`]), and where a precise time is needed anyway ([`refresh`]).

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use h1::encode::{self, DATE_LINE};
use rustix::time::{ClockId, clock_gettime};

/// The start of the process, on both faces of the one monotonic clock.
static START: OnceLock<(Instant, u64)> = OnceLock::new();

/// The instant that all monotonic times of this process count from.
pub fn process_start() -> Instant {
    start().0
}

fn start() -> &'static (Instant, u64) {
    START.get_or_init(|| (Instant::now(), monotonic_ns()))
}

/// Nanoseconds since the process started.
#[inline]
pub fn now_ns() -> u64 {
    let now = monotonic_ns().saturating_sub(start().1);
    #[cfg(fuzzing)]
    let now = now.saturating_add(ADVANCED.get());
    now
}

#[cfg(fuzzing)]
thread_local! {
    static ADVANCED: Cell<u64> = const { Cell::new(0) };
}

/// Moves this thread's clock on; exists for fuzzers only, to which waiting is too dear.
#[cfg(fuzzing)]
pub fn advance(time: Duration) {
    ADVANCED.set(ADVANCED.get().saturating_add(super::deadline::nanos(time)));
    begin_iteration();
}

/// The kernel's clock as it is: half the price of `Instant`, which checks and converts.
#[inline]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts from boot: never negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Milliseconds since the process started.
pub fn now_ms() -> u64 {
    now_ns() / 1_000_000
}

/// Units of work after which the clock is read again: a reading costs about 20 ns, a unit some microseconds.
const WORK_PER_READING: u32 = 16;
/// A longer time between two readings is a stall: the system ran something else, or the work was heavy.
pub const STALL_NS: u64 = 5_000_000;

thread_local! {
    static LOOP_NS: Cell<u64> = const { Cell::new(0) };
    /// Units of work since the last reading.
    static WORK: Cell<u32> = const { Cell::new(0) };
    /// What stalls took so far, each without its first [`STALL_NS`].
    static STALLED: Cell<u64> = const { Cell::new(0) };
    static DATE: Cell<(u64, [u8; DATE_LINE])> = const { Cell::new((u64::MAX, [b' '; DATE_LINE])) };
}

/// Called by a worker's runtime when it comes back from waiting for events.
pub fn begin_iteration() {
    LOOP_NS.set(now_ns());
    WORK.set(0);
}

/// Counts a unit of work of this thread, such as a poll of a task or a request; reads the clock now and then.
#[inline]
pub fn count_work() {
    let work = WORK.get() + 1;
    WORK.set(work);
    if work >= WORK_PER_READING {
        refresh();
    }
}

/// Nanoseconds since the process started, by a reading that [`loop_ns`] returns from now on. Not for use across a wait for events.
pub fn refresh() -> u64 {
    let now = now_ns();
    let gap = now.saturating_sub(LOOP_NS.get());
    if gap > STALL_NS {
        STALLED.set(STALLED.get() + gap - STALL_NS);
    }
    LOOP_NS.set(now);
    WORK.set(0);
    now
}

/// Nanoseconds since the process started, as read when this thread last came back from waiting for events, or less than
/// [`WORK_PER_READING`] units of work ago. Costs nothing.
#[inline]
pub fn loop_ns() -> u64 {
    LOOP_NS.get()
}

/// Time that this thread lost to stalls. [`loop_ns`] was never further behind than [`STALL_NS`] plus what is added here by the next reading.
#[inline]
pub fn stalled_ns() -> u64 {
    STALLED.get()
}

thread_local! {
    /// Second since process start, and what to add to its time to get the time since the Unix epoch.
    static EPOCH: Cell<(u64, u64)> = const { Cell::new((u64::MAX, 0)) };
}

/// Milliseconds since the Unix epoch, for threads that are no workers.
pub fn wall_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch, cached per event-loop iteration of this worker. Follows a clock that is set within a second.
#[inline]
pub fn unix_ms() -> u64 {
    let begin_iteration = loop_ns();
    let second = begin_iteration / 1_000_000_000;
    let (cached, mut offset) = EPOCH.get();
    if cached != second {
        offset = wall_ms().saturating_sub(now_ms());
        EPOCH.set((second, offset));
    }
    offset + begin_iteration / 1_000_000
}

/// Appends the `Date` line of now (RFC 9110 section 5.6.7), rendered once a second.
#[inline]
pub fn date_line(out: &mut Vec<u8>) {
    let second = loop_ns() / 1_000_000_000;
    let (cached, line) = DATE.get();
    if cached == second {
        out.extend_from_slice(&line);
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let line = encode::date_of_second(now.as_secs());
    DATE.set((second, line));
    out.extend_from_slice(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_without_a_wait_keeps_the_time_fresh() {
        begin_iteration();
        let before = loop_ns();
        (1..WORK_PER_READING).for_each(|_| count_work());
        assert_eq!(loop_ns(), before, "no reading for each unit");
        count_work();
        assert!(loop_ns() > before);
    }

    #[test]
    fn a_long_time_between_two_readings_is_a_stall_and_a_wait_is_none() {
        let before = stalled_ns();
        LOOP_NS.set(now_ns().saturating_sub(2 * STALL_NS));
        begin_iteration();
        assert_eq!(stalled_ns(), before);
        let _ = process_start();
        std::thread::sleep(Duration::from_nanos(2 * STALL_NS));
        refresh();
        assert!(stalled_ns() >= before + STALL_NS);
    }
}
