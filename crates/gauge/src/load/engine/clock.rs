//! Time, and waiting for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};

/// Nanoseconds of the monotonic clock: the one time of the engines. It is read from the vDSO, without a system call.
#[inline]
pub(crate) fn now() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time of this process, all threads, nanoseconds.
pub(crate) fn process_cpu() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A descriptor that becomes readable at a moment. Unlike the timeouts of epoll and poll it has nanoseconds, and the kernel does not
/// put it off by the timer slack of 50 µs.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
    armed_for: u64,
}

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Timer { fd, armed_for: 0 })
    }

    /// Sets it to a moment of [`now`]'s clock; one that has passed fires at once. Costs a system call when the moment is another one.
    pub(crate) fn arm(&mut self, at: u64) -> io::Result<()> {
        if self.armed_for != at {
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            // Zero would disarm it.
            let at_least = at.max(1);
            let value =
                Timespec { tv_sec: (at_least / 1_000_000_000) as i64, tv_nsec: (at_least % 1_000_000_000) as i64 };
            timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: zero, it_value: value })?;
            self.armed_for = at;
        }
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl std::os::fd::AsRawFd for Timer {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}
