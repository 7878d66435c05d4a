//! Who sends what, when: users of a closed loop, arrivals of an open one, phase after phase. It knows no sockets; a transport gets
//! from it what to send and reports how that ended.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;

use tls::Negotiated;

use super::Control;
use super::chat::{Chat, End};
use super::clock;
use super::http1::Notes;
use super::recorder::{CallStream, Failure, Recorder, Response, SendTimes, SentBytes};
use super::requester::{Requester, User};
use crate::load::prepare::{Authority, Kind, Operation, Prepared};
use crate::load::schedule::{Schedule, exponential};
use crate::load::workload::{Closed, Span, Vary};

/// How long a user of a closed loop waits after a connection that could not be made, or whose handshake failed, or a message that could not: a dead server is
/// tried at intervals.
const BACKOFF_NS: u64 = 10_000_000;

/// How often time-outs and the wish to stop are looked at.
const TICK_NS: u64 = 50_000_000;

/// A user of a closed loop, or one of the connections (HTTP/2: streams) of an open one: at most one request at a time.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) user: User,
    state: State,
    /// Of the request in flight.
    pub(crate) operation: usize,
    phase: usize,
    pub(crate) times: SendTimes,
    idle_since: u64,
    /// Closed loop: requests that the user still has to send.
    remaining: u64,
    /// Closed loop: when the user stops.
    until: u64,
    /// Closed loop: whether the phase waits for this user.
    active: bool,
    /// Open loop: whether it is in the queue of free slots.
    queued: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing to do.
    Idle,
    /// In the queue of timers.
    Waiting,
    /// A request is in flight.
    Busy,
}

/// The part of a run that one thread does.
#[derive(Debug)]
pub(crate) struct Pacer<'p> {
    pub(crate) prepared: &'p Prepared,
    pub(crate) requester: Requester<'p>,
    pub(crate) recorder: Recorder<'p>,
    pub(crate) slots: Vec<Slot>,
    control: &'p Control,
    thread: u32,
    threads: u32,
    /// When users go on: (moment, slot).
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Open loop: slots that are free, the one that has waited longest first, so that all connections are used alike.
    idle: VecDeque<u32>,
    /// Open loop: slots below this may be used in this phase; those from `fresh` on have not been.
    limit: u32,
    fresh: u32,
    schedule: Option<Schedule>,
    phase: usize,
    start: u64,
    end: u64,
    /// Closed loop: users who are not done.
    active: u32,
    busy: u32,
    next_tick: u64,
}

impl<'p> Pacer<'p> {
    pub(crate) fn new(
        prepared: &'p Prepared,
        control: &'p Control,
        requester: Requester<'p>,
        recorder: Recorder<'p>,
        thread: u32,
        threads: u32,
    ) -> Self {
        let slots = (0..share(prepared.slots(), thread, threads)).map(|_| Slot {
            user: User::new(prepared),
            state: State::Idle,
            operation: 0,
            phase: 0,
            times: SendTimes::default(),
            idle_since: 0,
            remaining: 0,
            until: 0,
            active: false,
            queued: false,
        });
        Pacer {
            prepared,
            requester,
            recorder,
            slots: slots.collect(),
            control,
            thread,
            threads,
            timers: BinaryHeap::new(),
            idle: VecDeque::new(),
            limit: 0,
            fresh: 0,
            schedule: None,
            phase: 0,
            start: 0,
            end: 0,
            active: 0,
            busy: 0,
            next_tick: 0,
        }
    }

    /// Begins a phase at a moment.
    pub(crate) fn begin(&mut self, phase: usize, start: u64) {
        let prepared = self.prepared;
        let plan = &prepared.phases[phase];
        self.phase = phase;
        self.start = start;
        self.end = plan.duration().map_or(u64::MAX, |duration| start.saturating_add(nanoseconds(duration)));
        self.recorder.phases[phase].start = start;
        self.recorder.phases[phase].end = if self.end == u64::MAX { 0 } else { self.end };
        self.timers.clear();
        self.idle.clear();
        self.schedule = None;
        self.active = 0;
        self.limit = 0;
        for slot in &mut self.slots {
            slot.active = false;
            slot.queued = false;
            slot.user.step = 0;
            if slot.state == State::Waiting {
                slot.state = State::Idle;
            }
        }
        match &plan.kind {
            Kind::Setup => {
                let steps = plan.choice.len() as u64;
                let all = self.slots.len();
                self.begin_users(all, |_| (start, u64::MAX, steps));
            }
            Kind::Closed(closed) => {
                let (thread, threads, all) = (self.thread, self.threads, prepared.share);
                let count = share(all.users(closed.users.most()), thread, threads) as usize;
                self.begin_users(count, |slot| user_plan(closed, all.user(slot * threads + thread), start));
            }
            Kind::Open(open) => {
                self.limit = share(open.connections, self.thread, self.threads);
                self.fresh = 0;
                self.schedule = Some(Schedule::new(open, self.thread, self.threads, prepared.seed));
            }
        }
    }

    /// Gives each of the first `count` slots its beginning, end and number of requests.
    fn begin_users(&mut self, count: usize, plan: impl Fn(u32) -> (u64, u64, u64)) {
        for (index, slot) in self.slots.iter_mut().enumerate().take(count) {
            let (start, until, remaining) = plan(index as u32);
            if remaining == 0 {
                continue;
            }
            (slot.until, slot.remaining, slot.active) = (until, remaining, true);
            self.active += 1;
            // One that is still busy with the last phase goes on when it is done.
            if slot.state == State::Idle {
                slot.state = State::Waiting;
                self.timers.push(Reverse((start, index as u32)));
            }
        }
    }

    /// The next slot that has a request to send by now; its request is chosen. To be called until it returns `None`.
    pub(crate) fn due(&mut self, now: u64) -> Option<u32> {
        while let Some(&Reverse((at, index))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            if at >= self.slots[index as usize].until {
                self.retire(index);
                continue;
            }
            let paced =
                matches!(&self.prepared.phases[self.phase].kind, Kind::Closed(closed) if closed.think.is_some());
            self.choose(index, at, at, paced);
            return Some(index);
        }
        self.arrival(now)
    }

    /// The slot for the next arrival, if one is due and a slot is free.
    fn arrival(&mut self, now: u64) -> Option<u32> {
        loop {
            let due = self.start + self.schedule.as_ref()?.peek()?;
            if due > now {
                return None;
            }
            if let Some(index) = self.take_idle() {
                let possible = due.max(self.slots[index as usize].idle_since);
                self.choose(index, due, possible, true);
                return Some(index);
            }
            if now - due <= nanoseconds(self.prepared.timeout) {
                return None;
            }
            self.drop_arrival(false, now);
        }
    }

    /// Since when a slot of an open loop has been free; `None` when all wait for a response.
    fn free_since(&self) -> Option<u64> {
        let fresh = (self.fresh..self.limit).map(|index| &self.slots[index as usize]);
        let fresh = fresh.filter(|slot| slot.state == State::Idle && !slot.queued);
        let idle = self.idle.iter().map(|index| &self.slots[*index as usize]);
        fresh.chain(idle).map(|slot| slot.idle_since).min()
    }

    fn take_idle(&mut self) -> Option<u32> {
        if let Some(index) = self.idle.pop_front() {
            self.slots[index as usize].queued = false;
            return Some(index);
        }
        while self.fresh < self.limit {
            let index = self.fresh;
            self.fresh += 1;
            // A slot that was busy with the last phase comes to the queue by itself.
            let slot = &self.slots[index as usize];
            if slot.state == State::Idle && !slot.queued {
                return Some(index);
            }
        }
        None
    }

    fn drop_arrival(&mut self, free: bool, now: u64) {
        let Some(schedule) = &mut self.schedule else { return };
        let number = schedule.number();
        schedule.advance();
        let operation = self.requester.choose(&self.prepared.phases[self.phase], number);
        self.recorder.phases[self.phase].cells[operation].scheduled += 1;
        self.recorder.dropped(self.phase, operation, free, now);
    }

    /// Chooses the slot's next request.
    fn choose(&mut self, index: u32, due: u64, possible: u64, paced: bool) {
        let slot = &mut self.slots[index as usize];
        let number = match &mut self.schedule {
            Some(schedule) => {
                let number = schedule.number();
                schedule.advance();
                number
            }
            None => slot.user.step,
        };
        slot.user.step += 1;
        slot.remaining = slot.remaining.saturating_sub(1);
        slot.operation = self.requester.choose(&self.prepared.phases[self.phase], number);
        slot.phase = self.phase;
        slot.state = State::Busy;
        let begun = if paced { clock::now() } else { due };
        slot.times = SendTimes { due, possible, begun, making: 0, sent: 0, paced };
        self.busy += 1;
        self.recorder.phases[self.phase].cells[slot.operation].scheduled += 1;
    }

    /// The operation that a slot is at.
    #[inline]
    pub(crate) fn operation(&self, index: u32) -> &'p Operation {
        &self.prepared.operations[self.slots[index as usize].operation]
    }

    /// Where the slot's request goes.
    pub(crate) fn authority(&self, index: u32) -> &'p Authority {
        &self.prepared.authorities[self.operation(index).authority]
    }

    /// Appends the slot's request in HTTP/1.1, with fresh values. How many bytes its body has.
    pub(crate) fn write_http1(&mut self, index: u32, out: &mut Vec<u8>) -> u64 {
        let operation = self.operation(index);
        self.requester.write_http1(operation, &self.slots[index as usize].user, out)
    }

    /// Draws the values of the slot's request.
    pub(crate) fn draw(&mut self, index: u32) -> &[Vec<u8>] {
        let operation = self.operation(index);
        self.requester.draw(operation, &self.slots[index as usize].user);
        self.requester.values()
    }

    /// The slot's messages are made, since this moment: the time that it took is the generator's own.
    pub(crate) fn made(&mut self, index: u32, since: u64) {
        let times = &mut self.slots[index as usize].times;
        times.begun = clock::now();
        times.making = times.begun.saturating_sub(since);
        // Without a schedule the request is due when it can be sent.
        if !times.paced {
            times.due += times.making;
        }
    }

    /// Whether the moment of the send matters; if not, [`Pacer::sent`] may be told the moment at which the request became due.
    #[inline]
    pub(crate) fn is_paced(&self, index: u32) -> bool {
        self.slots[index as usize].times.paced
    }

    /// The slot's request went out, its first byte at `at`.
    #[inline]
    pub(crate) fn sent(&mut self, index: u32, at: u64, bytes: SentBytes) {
        let slot = &mut self.slots[index as usize];
        slot.times.sent = at;
        self.recorder.sent(slot.phase, slot.operation, &slot.times, bytes);
    }

    /// A connection was opened for the slot.
    pub(crate) fn connected(&mut self, index: u32, took: u64) {
        let phase = self.slots[index as usize].phase;
        self.recorder.connected(phase, took);
    }

    /// The handshake on the slot's connection is complete.
    pub(crate) fn handshaken(&mut self, index: u32, took: u64, negotiated: &Negotiated) {
        let phase = self.slots[index as usize].phase;
        self.recorder.handshaken(phase, took, negotiated);
    }

    /// The slot's connection is one of WebSocket now.
    pub(crate) fn upgraded(&mut self, index: u32, took: u64) {
        let phase = self.slots[index as usize].phase;
        self.recorder.upgraded(phase, took);
    }

    /// What the slot's connection of WebSocket had beside its messages.
    pub(crate) fn note_websocket(&mut self, index: u32, notes: Notes) {
        let phase = self.slots[index as usize].phase;
        self.recorder.note_websocket(phase, notes);
    }

    /// Why the slot's request is about to fail as [`Failure::Tls`].
    pub(crate) fn note_tls_error(&mut self, index: u32, reason: impl FnOnce() -> String) {
        let phase = self.slots[index as usize].phase;
        self.recorder.note_tls_error(phase, reason);
    }

    /// Why the slot's call of gRPC failed.
    pub(crate) fn note_grpc_error(&mut self, index: u32, reason: String) {
        let phase = self.slots[index as usize].phase;
        self.recorder.note_grpc_error(phase, reason);
    }

    /// The slot's stream of gRPC is over.
    pub(crate) fn stream_ended(&mut self, index: u32, stream: &CallStream) {
        let slot = &self.slots[index as usize];
        self.recorder.stream_ended(slot.phase, slot.operation, slot.times.due, stream);
    }

    /// Keeps what the slot's operation wants of its response.
    pub(crate) fn capture<'a>(&mut self, index: u32, header: impl Fn(&str) -> Option<&'a [u8]>, body: &[u8]) {
        let operation = self.operation(index);
        self.requester.capture(operation, &mut self.slots[index as usize].user, header, body);
    }

    /// The slot's response is complete. `true` when the slot has its next request at once.
    #[inline]
    pub(crate) fn responses(&mut self, index: u32, response: &Response) -> bool {
        let expected = self.operation(index).expect.contains(response.status);
        let slot = &mut self.slots[index as usize];
        let done = response.done;
        let due = slot.times.due;
        let (phase, operation) = (slot.phase, slot.operation);
        slot.state = State::Idle;
        slot.idle_since = done;
        self.busy -= 1;
        self.recorder.responses(phase, operation, due, expected, response);
        self.go_on(index, done)
    }

    /// The response to a chat call is over, at `done` where its body ended properly. Gives what went wrong where the call
    /// did, though it had the expected status.
    pub(crate) fn chat_ended(
        &mut self,
        index: u32,
        status: u16,
        chat: &mut Chat,
        done: Option<u64>,
    ) -> Option<Failure> {
        if !self.operation(index).expect.contains(status) {
            return None;
        }
        let end = chat.end(done.is_some());
        let slot = &self.slots[index as usize];
        let slo = self.prepared.llm.and_then(|calls| calls.slo);
        self.recorder.chat_ended(slot.phase, slot.operation, slot.times.due, chat, end, slo.as_ref());
        match end {
            End::Complete => None,
            End::ErrorEvent => Some(Failure::InvalidResponse),
            End::Cut => Some(Failure::Reset),
        }
    }

    /// The slot's request went wrong. Its next one, if it has one, comes through [`Pacer::due`].
    pub(crate) fn failed(&mut self, index: u32, failure: Failure) {
        let now = clock::now();
        let slot = &mut self.slots[index as usize];
        let (phase, operation) = (slot.phase, slot.operation);
        slot.state = State::Idle;
        slot.idle_since = now;
        self.busy -= 1;
        self.recorder.failed(phase, operation, failure, now);
        if slot.active {
            slot.state = State::Waiting;
            let pause =
                if matches!(failure, Failure::Connect | Failure::Tls | Failure::Unsent) { BACKOFF_NS } else { 0 };
            if slot.remaining == 0 {
                self.retire(index);
            } else {
                self.timers.push(Reverse((now + pause, index)));
            }
        } else if index < self.limit {
            slot.queued = true;
            self.idle.push_back(index);
        }
    }

    fn go_on(&mut self, index: u32, now: u64) -> bool {
        let slot = &mut self.slots[index as usize];
        if slot.active {
            if slot.remaining == 0 || now >= slot.until {
                self.retire(index);
                return false;
            }
            let pause = match &self.prepared.phases[self.phase].kind {
                Kind::Closed(Closed { think: Some(think), .. }) => {
                    let mean = nanoseconds(think.mean) as f64;
                    let random = &mut self.requester.random;
                    match think.vary {
                        Vary::None => mean as u64,
                        Vary::Uniform => (mean * 2.0 * random.f64()) as u64,
                        Vary::Exponential => (mean * exponential(random)) as u64,
                    }
                }
                _ => {
                    self.choose(index, now, now, false);
                    return true;
                }
            };
            slot.state = State::Waiting;
            self.timers.push(Reverse((now + pause, index)));
            return false;
        }
        if index >= self.limit {
            return false;
        }
        // Whoever waited longest goes first; a slot that is just free takes the backlog's first request only if no other is free.
        if self.idle.is_empty()
            && let Some(due) = self.schedule.as_ref().and_then(Schedule::peek).map(|due| self.start + due)
            && due <= now
        {
            self.choose(index, due, now, true);
            return true;
        }
        self.slots[index as usize].queued = true;
        self.idle.push_back(index);
        false
    }

    /// A user is done with this phase.
    fn retire(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.state = State::Idle;
        if std::mem::take(&mut slot.active) {
            self.active -= 1;
        }
    }

    /// Whether the phase is over.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        if self.end == u64::MAX { self.active == 0 } else { now >= self.end }
    }

    /// When something is due next, at the latest the next tick.
    pub(crate) fn wake(&self) -> u64 {
        let mut wake = self.next_tick.min(self.end);
        if let Some(&Reverse((at, _))) = self.timers.peek() {
            wake = wake.min(at);
        }
        if (!self.idle.is_empty() || self.fresh < self.limit)
            && let Some(due) = self.schedule.as_ref().and_then(Schedule::peek)
        {
            wake = wake.min(self.start + due);
        }
        wake
    }

    /// Whether it is time to look at time-outs.
    pub(crate) fn tick(&mut self, now: u64) -> bool {
        let is_time = now >= self.next_tick;
        if is_time {
            // Short time-outs are looked at more often.
            self.next_tick = now + TICK_NS.min(nanoseconds(self.prepared.timeout) / 10).max(1_000_000);
            self.recorder.publish();
        }
        is_time
    }

    /// Whether somebody wants the run to stop.
    pub(crate) fn should_stop(&self) -> bool {
        self.control.stop.load(Ordering::Relaxed)
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.busy
    }

    /// Whether the slot's request has taken too long.
    pub(crate) fn has_timed_out(&self, index: u32, now: u64) -> bool {
        let slot = &self.slots[index as usize];
        slot.state == State::Busy && now.saturating_sub(slot.times.begun) > nanoseconds(self.prepared.timeout)
    }

    /// Ends the phase: what was due and found no connection is dropped. Returns when it ended.
    pub(crate) fn finish_phase(&mut self, now: u64) -> u64 {
        let end = self.end.min(now);
        let free_since = self.free_since();
        while let Some(due) = self.schedule.as_ref().and_then(Schedule::peek).map(|due| self.start + due)
            && due < end
        {
            self.drop_arrival(free_since.is_some_and(|free| free <= due), now);
        }
        self.schedule = None;
        self.timers.clear();
        self.idle.clear();
        self.limit = 0;
        for slot in &mut self.slots {
            slot.active = false;
            slot.queued = false;
            if slot.state == State::Waiting {
                slot.state = State::Idle;
            }
        }
        self.active = 0;
        self.end = u64::MAX;
        self.recorder.phases[self.phase].end = end;
        end
    }

    /// Counts what is in flight as unanswered: the run was cut short.
    pub(crate) fn abandon(&mut self) {
        for slot in &mut self.slots {
            if slot.state == State::Busy {
                self.recorder.phases[slot.phase].cells[slot.operation].no_response += 1;
                slot.state = State::Idle;
            }
        }
        self.busy = 0;
    }
}

/// This thread's part of a number that is distributed one by one.
pub(crate) fn share(of: u32, thread: u32, threads: u32) -> u32 {
    of / threads + u32::from(thread < of % threads)
}

/// Beginning, end and number of requests of one user.
fn user_plan(closed: &Closed, user: u32, start: u64) -> (u64, u64, u64) {
    let end = closed.duration.map_or(u64::MAX, |duration| start.saturating_add(nanoseconds(duration)));
    let requests = closed.iterations_of_user(user).unwrap_or(u64::MAX);
    let Some(share) = closed.users.passes(user) else { return (start, end, requests) };
    let length = closed.duration.map_or(0.0, |duration| duration.as_nanos() as f64);
    let passed = start + (length * share) as u64;
    let grows = matches!(closed.users, Span::Ramp { from, to } if from < to);
    if grows { (passed, end, requests) } else { (start, passed, requests) }
}

pub(crate) fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
