//! One fetch on its way into the cache, and the requests that share it.
//!
//! The exchange that sends the request to the origin (the *leader*) pushes what comes; every exchange that serves a client from it, the
//! leader's own too, is a *reader* and takes the bytes at its own pace. A slow client delays nobody while the body may be stored. A body
//! that turns out too large is only passed on, within [`WINDOW`]; a reader that makes others wait for longer than [`LAG_NS`] in all is
//! cut off. Readers may be on other workers: this is the one place of a request's path where one thread wakes another.
//!
//! ```text
//! sent --begin--> begun --finish--> whole          stored; readers go on from the entry
//!    |                |   `-(too large)--> begun, oversize --finish--> ended   passed on and freed block by block
//!    |                `--fail--> broken            readers that have begun abort: what they sent must not pass for whole
//!    |--apart--> apart                             cannot be shared: each request is forwarded
//!    `--fail---> broken                            readers have sent nothing yet: one of them leads the next attempt
//! ```
//!
//! **Memory.** Small pieces are joined into blocks, so that an upstream that sends single bytes costs no heap object for each. What a fetch
//! has allocated, with an allowance for each block, counts against the [`Budget`], also while it is only passed on.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use smallvec::SmallVec;

use super::entry::{Entry, Head};
use super::sync::atomic::{AtomicU64, Ordering};
use super::sync::{Mutex, MutexGuard, PoisonError, lock};
use crate::error::Error;
use crate::io::audience::Audience;

/// Bytes that a fetch may hold for its slowest reader once it is only passed on.
const WINDOW: u64 = 128 * 1024;
/// How long one reader may make others wait, in all, before it is cut off.
pub const LAG_NS: u64 = 2_000_000_000;
/// Pieces are joined into blocks of up to so many bytes,
const BLOCK: usize = 16 * 1024;
/// unless both a piece and what is before it have at least so many.
const SMALL: usize = 2 * 1024;
/// Memory of a block besides its bytes: of the allocator, the reference count and this structure.
const OVERHEAD: u64 = 128;

/// What all fetches of a cache have in common: the bytes that they hold together before they are stored, and how many read them.
#[derive(Debug)]
pub struct Budget {
    held: AtomicU64,
    most: u64,
    readers: AtomicU64,
}

impl Budget {
    /// At most so many bytes.
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Budget { held: AtomicU64::new(0), most, readers: AtomicU64::new(0) })
    }

    /// Requests that wait for, or read from, a fetch in flight.
    pub fn readers(&self) -> u64 {
        self.readers.load(Ordering::Relaxed)
    }

    /// Takes `bytes`; false, and nothing taken, when that would be too many.
    fn take(&self, bytes: u64) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let is_within = before.saturating_add(bytes) <= self.most;
        if !is_within {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_within
    }

    /// Whether so many could be taken now.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.held.load(Ordering::Relaxed).saturating_add(bytes) <= self.most
    }
}

/// One fetch; see the module.
#[derive(Debug)]
pub struct Fill {
    state: Mutex<State>,
    /// Most bytes of a body that is kept.
    limit: u64,
    budget: Arc<Budget>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    head: Option<Arc<Head>>,
    /// What came and is still held. Most bodies come in one piece, for one reader.
    blocks: SmallVec<[Block; 1]>,
    /// Small pieces behind the blocks, which are still being joined.
    tail: Vec<u8>,
    /// Bytes of all pieces that came.
    bytes: u64,
    /// Memory of blocks and tail.
    allocated: u64,
    /// What of it counts against the budget: all, after each change.
    charged: u64,
    /// It will not be stored: blocks go when every reader has them.
    oversize: bool,
    /// Some went: nobody can read from the start any more.
    has_dropped: bool,
    readers: SmallVec<[Option<Position>; 1]>,
    leader: Option<Waker>,
    /// Since when the leader has waited for readers that others wait for too, in nanoseconds since process start.
    stalled_ns: Option<u64>,
    /// When the next of them is cut off.
    cut_due_ns: Option<u64>,
}

/// Bytes that no longer change.
#[derive(Debug)]
struct Block {
    /// Position of the block's first byte in the body.
    start: u64,
    bytes: Bytes,
}

impl Block {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn allocated(&self) -> u64 {
        self.bytes.len() as u64 + OVERHEAD
    }
}

impl State {
    fn tail_start(&self) -> u64 {
        self.bytes - self.tail.len() as u64
    }

    fn tail_allocated(&self) -> u64 {
        if self.tail.capacity() == 0 { 0 } else { self.tail.capacity() as u64 + OVERHEAD }
    }

    fn append(&mut self, piece: Bytes) {
        let is_joined = |last: usize| (last < SMALL || piece.len() < SMALL) && last + piece.len() <= BLOCK;
        if !self.tail.is_empty() && !is_joined(self.tail.len()) {
            self.seal();
        }
        if self.tail.is_empty()
            && self.blocks.last().is_some_and(|last| is_joined(last.bytes.len()))
            && let Some(last) = self.blocks.pop()
        {
            self.allocated -= last.allocated();
            self.extend_tail(&last.bytes);
        }
        if self.tail.is_empty() {
            let block = Block { start: self.bytes, bytes: piece };
            self.bytes = block.end();
            self.allocated += block.allocated();
            self.blocks.push(block);
        } else {
            self.bytes += piece.len() as u64;
            self.extend_tail(&piece);
        }
    }

    /// Grows in powers of two up to a block.
    fn extend_tail(&mut self, bytes: &[u8]) {
        let before = self.tail_allocated();
        let needed = self.tail.len() + bytes.len();
        if needed > self.tail.capacity() {
            self.tail.reserve_exact((needed * 2).min(BLOCK).max(needed) - self.tail.len());
        }
        self.tail.extend_from_slice(bytes);
        self.allocated = self.allocated + self.tail_allocated() - before;
    }

    /// The tail becomes a block of its exact length.
    fn seal(&mut self) {
        self.allocated -= self.tail_allocated();
        let block = Block { start: self.tail_start(), bytes: std::mem::take(&mut self.tail).into_boxed_slice().into() };
        self.allocated += block.allocated();
        self.blocks.push(block);
    }

    /// What is held from a position on, up to the end of its block.
    fn bytes_at(&self, at: u64) -> Option<Bytes> {
        if at >= self.bytes {
            return None;
        }
        let offset = |start: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
        if at >= self.tail_start() {
            return Some(Bytes::copy_from_slice(&self.tail[offset(self.tail_start())..]));
        }
        let index = self.blocks.partition_point(|block| block.start <= at).checked_sub(1)?;
        let block = &self.blocks[index];
        (at < block.end()).then(|| block.bytes.slice(offset(block.start)..))
    }

    /// Frees what every reader has.
    fn forget_read(&mut self) {
        let reading = self.readers.iter().flatten().filter(|reader| !reader.is_cut);
        let slowest = reading.map(|reader| reader.at).min().unwrap_or(self.bytes);
        let count = self.blocks.iter().take_while(|block| block.end() <= slowest).count();
        self.allocated -= self.blocks.drain(..count).map(|block| block.allocated()).sum::<u64>();
        self.has_dropped |= count > 0;
        if slowest >= self.bytes && !self.tail.is_empty() {
            self.allocated -= self.tail_allocated();
            self.tail = Vec::new();
            self.has_dropped = true;
        }
    }

    /// Books the time since the last call on the readers that were too far behind in it, and cuts off those that made others wait for too long.
    fn cut_laggards(&mut self, now_ns: u64) {
        let waited_ns = self.stalled_ns.take().map_or(0, |since| now_ns.saturating_sub(since));
        self.cut_due_ns = None;
        let end = self.bytes;
        let has_waiting = self.readers.iter().flatten().any(|reader| reader.at == end && !reader.is_cut);
        for reader in self.readers.iter_mut().flatten().filter(|reader| !reader.is_cut) {
            if std::mem::take(&mut reader.is_waited_for) {
                reader.lag_ns += waited_ns;
            }
            let is_behind = has_waiting && end - reader.at > WINDOW / 2;
            if is_behind && reader.lag_ns >= LAG_NS {
                reader.is_cut = true;
            } else if is_behind {
                reader.is_waited_for = true;
                self.stalled_ns = Some(now_ns);
                let due_ns = now_ns.saturating_add(LAG_NS - reader.lag_ns);
                self.cut_due_ns = Some(self.cut_due_ns.map_or(due_ns, |other| other.min(due_ns)));
            }
        }
    }
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Open,
    Whole(Entry),
    CacheLookup(Entry),
    StaleOnError(Entry),
    Ended,
    NotShared {
        by_credentials: bool,
    },
    Broken(Option<Error>),
}

/// How far a reader is.
#[derive(Debug, Default)]
struct Position {
    /// Bytes that it has.
    at: u64,
    waker: Option<Waker>,
    /// The leader and another reader wait for it.
    is_waited_for: bool,
    /// For how long they have, in all.
    lag_ns: u64,
    /// It gets no more.
    is_cut: bool,
}

/// What a reader finds when it checks how the fetch goes.
#[derive(Debug)]
pub enum Progress {
    /// The response is whole and kept.
    Whole(Entry),
    /// Its head is here, its body on the way.
    Begun(Arc<Head>),
    /// L2 of the cache had it.
    CacheLookup(Entry),
    /// It failed, and this stale response may replace it.
    StaleOnError(Entry),
    /// It cannot be shared.
    NotShared {
        /// Because the leader's request had credentials: one without them may get a response that can be.
        by_credentials: bool,
    },
    /// It failed, before or after its head came.
    Broken(Option<Error>),
}

/// The next part of a body.
#[derive(Debug)]
pub enum Piece {
    /// Bytes, at least one.
    Bytes(Bytes),
    /// All the rest: the body of a whole response from this position on, at least one byte.
    Rest(Entry, usize),
    /// There is no more.
    End,
    /// The rest will never come.
    Broken,
}

impl Fill {
    /// A fetch that nobody reads yet. Bodies up to `limit` bytes are kept.
    pub fn new(limit: u64, budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Fill { state: Mutex::default(), limit, budget })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Adds a reader, from the start of the response; `None` when it began to forget already.
    pub fn read(self: &Arc<Self>) -> Option<Reader> {
        let mut state = self.lock();
        let is_whole = matches!(state.phase, Phase::Whole(_));
        if !is_whole && (state.has_dropped || state.oversize) {
            return None;
        }
        Some(self.add_reader(&mut state))
    }

    /// The reader of the client that the fetch begins for.
    pub fn first_reader(self: &Arc<Self>) -> Reader {
        self.add_reader(&mut self.lock())
    }

    fn add_reader(self: &Arc<Self>, state: &mut State) -> Reader {
        let free = state.readers.iter().position(Option::is_none);
        let id = free.unwrap_or_else(|| {
            state.readers.push(None);
            state.readers.len() - 1
        });
        state.readers[id] = Some(Position::default());
        self.budget.readers.fetch_add(1, Ordering::Relaxed);
        Reader { fill: self.clone(), id }
    }

    /// Whether it will not be kept, and is only passed on.
    pub fn is_oversize(&self) -> bool {
        self.lock().oversize
    }

    /// Whether it is larger than what is ever kept; else there was no room for it now.
    pub fn is_too_large(&self) -> bool {
        self.lock().bytes > self.limit
    }

    /// How many readers there are.
    pub fn readers(&self) -> usize {
        self.lock().readers.iter().flatten().count()
    }

    /// The head came.
    pub fn begin(&self, head: Arc<Head>) {
        let mut state = self.lock();
        state.head = Some(head);
        wake(state);
    }

    /// The head came, and the client that requested it reads too.
    pub fn begin_and_read(self: &Arc<Self>, head: Arc<Head>) -> Reader {
        let mut state = self.lock();
        state.head = Some(head);
        let reader = self.add_reader(&mut state);
        wake(state);
        reader
    }

    /// A piece of the body came. Once the body is larger than what is stored, or the budget is used up, it is only passed on.
    pub fn push(&self, piece: Bytes) {
        let mut state = self.lock();
        state.append(piece);
        state.oversize |= state.bytes > self.limit;
        if state.oversize {
            state.forget_read();
        }
        self.charge(&mut state);
        wake(state);
    }

    /// Waits until there is room for another piece. There always is while the body may be stored. The caller comes again at
    /// [`cut_due_ns`](Self::cut_due_ns).
    pub fn poll_room(&self, cx: &mut Context<'_>, now_ns: u64) -> Poll<()> {
        let mut state = self.lock();
        if !state.oversize {
            return Poll::Ready(());
        }
        state.cut_laggards(now_ns);
        state.forget_read();
        self.charge(&mut state);
        let poll = if state.allocated <= WINDOW {
            (state.stalled_ns, state.cut_due_ns) = (None, None);
            state.readers.iter_mut().flatten().for_each(|reader| reader.is_waited_for = false);
            Poll::Ready(())
        } else {
            state.leader = Some(cx.waker().clone());
            Poll::Pending
        };
        let cut = state.readers.iter_mut().flatten().filter(|reader| reader.is_cut);
        let cut: SmallVec<[Waker; 1]> = cut.filter_map(|reader| reader.waker.take()).collect();
        drop(state);
        cut.into_iter().for_each(Waker::wake);
        poll
    }

    /// Waits until nobody reads it.
    pub fn poll_unread(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.readers.iter().flatten().next().is_none() {
            return Poll::Ready(());
        }
        state.leader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// When the leader, which waits for room, must look again, in nanoseconds since process start: then it cuts off a reader that others wait for.
    pub fn cut_due_ns(&self) -> Option<u64> {
        self.lock().cut_due_ns
    }

    /// The body is whole: takes it, if it can be stored. [`complete`](Self::complete) follows, or [`end`](Self::end) if there is none.
    pub fn take_body(&self) -> Option<Bytes> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.oversize {
            return None;
        }
        // Readers wait for the entry from here on, which has every position.
        match (state.blocks.len(), state.tail.is_empty()) {
            // Not cloned: bytes that have one owner need no count.
            (1, true) => state.blocks.pop().map(|block| block.bytes),
            (0, _) => Some(std::mem::take(&mut state.tail).into_boxed_slice().into()),
            _ => {
                let mut body = Vec::with_capacity(usize::try_from(state.bytes).unwrap_or(0));
                state.blocks.iter().for_each(|block| body.extend_from_slice(&block.bytes));
                body.extend_from_slice(&state.tail);
                Some(body.into())
            }
        }
    }

    /// There is a whole response: this fetch's own, or one from elsewhere that serves as well.
    pub fn complete(&self, entry: Entry) {
        let mut state = self.lock();
        state.phase = Phase::Whole(entry);
        // Readers go on from the entry.
        state.blocks.clear();
        state.tail = Vec::new();
        state.allocated = 0;
        self.charge(&mut state);
        wake(state);
    }

    /// L2 of the cache had it: nobody was called.
    pub fn found(&self, entry: Entry) {
        self.settle(Phase::CacheLookup(entry));
    }

    /// It failed before it began, and a stale response may replace it.
    pub fn serve_stale(&self, entry: Entry) {
        self.settle(Phase::StaleOnError(entry));
    }

    /// The body is whole and is not kept.
    pub fn end(&self) {
        self.settle(Phase::Ended);
    }

    /// The response cannot be shared.
    pub fn not_shared(&self, by_credentials: bool) {
        self.settle(Phase::NotShared { by_credentials });
    }

    /// There is no response, or no end of it. `error` is what the leader's client is told.
    pub fn fail(&self, error: Option<Error>) {
        self.settle(Phase::Broken(error));
    }

    fn settle(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = phase;
        wake(state);
    }

    /// Has what is allocated count against the budget. What goes beyond it is not stored, and counts all the same.
    fn charge(&self, state: &mut State) {
        let (charged, allocated) = (std::mem::replace(&mut state.charged, state.allocated), state.allocated);
        if let Some(less) = charged.checked_sub(allocated) {
            self.budget.held.fetch_sub(less, Ordering::Relaxed);
        } else if state.oversize || !self.budget.take(allocated - charged) {
            state.oversize = true;
            self.budget.held.fetch_add(allocated - charged, Ordering::Relaxed);
        }
    }
}

impl Audience for Fill {
    fn poll_disconnect(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_unread(cx)
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.charged > 0 {
            self.budget.held.fetch_sub(state.charged, Ordering::Relaxed);
        }
    }
}

/// Wakes everybody who waits, after the lock is given back.
fn wake(mut state: MutexGuard<'_, State>) {
    let waiting = state.readers.iter_mut().flatten().filter_map(|reader| reader.waker.take());
    // Nothing waits, mostly: then this allocates nothing.
    let waiting: Vec<Waker> = waiting.collect();
    drop(state);
    waiting.into_iter().for_each(Waker::wake);
}

/// One exchange that responds to its client from a fetch.
#[derive(Debug)]
pub struct Reader {
    fill: Arc<Fill>,
    id: usize,
}

impl Reader {
    /// Waits until it is known what happens to the fetch. Ready at once for a reader that is part of the leader's own task, which need
    /// not be woken: it passes no context.
    pub fn poll_progress(&self, cx: Option<&Context<'_>>) -> Poll<Progress> {
        let mut state = self.fill.lock();
        let progress = match (&state.phase, &state.head) {
            (Phase::Whole(entry), _) => Progress::Whole(entry.clone()),
            (Phase::CacheLookup(entry), _) => Progress::CacheLookup(entry.clone()),
            (Phase::StaleOnError(entry), _) => Progress::StaleOnError(entry.clone()),
            (Phase::NotShared { by_credentials }, _) => Progress::NotShared { by_credentials: *by_credentials },
            (Phase::Broken(error), _) => Progress::Broken(*error),
            (Phase::Open | Phase::Ended, Some(head)) => Progress::Begun(head.clone()),
            (Phase::Open | Phase::Ended, None) => return self.wait(&mut state, cx),
        };
        Poll::Ready(progress)
    }

    /// The next piece.
    pub fn poll_piece(&self, cx: Option<&Context<'_>>) -> Poll<Piece> {
        let mut guard = self.fill.lock();
        let state = &mut *guard;
        let Some(position) = state.readers[self.id].as_mut().filter(|position| !position.is_cut) else {
            return Poll::Ready(Piece::Broken);
        };
        if let Phase::Whole(entry) = &state.phase {
            let at = usize::try_from(position.at).unwrap_or(usize::MAX);
            position.at = entry.body().len() as u64;
            return Poll::Ready(if at < entry.body().len() { Piece::Rest(entry.clone(), at) } else { Piece::End });
        }
        let at = position.at;
        if let Some(piece) = state.bytes_at(at) {
            if let Some(position) = &mut state.readers[self.id] {
                position.at += piece.len() as u64;
            }
            let leader = if state.oversize { state.leader.take() } else { None };
            drop(guard);
            if let Some(leader) = leader {
                leader.wake();
            }
            return Poll::Ready(Piece::Bytes(piece));
        }
        match state.phase {
            Phase::Ended => Poll::Ready(Piece::End),
            Phase::NotShared { .. } | Phase::Broken(_) | Phase::StaleOnError(_) | Phase::CacheLookup(_) => {
                Poll::Ready(Piece::Broken)
            }
            Phase::Open | Phase::Whole(_) => self.wait(state, cx),
        }
    }

    /// Whether it was cut off because others waited for it.
    pub fn is_cut(&self) -> bool {
        self.fill.lock().readers[self.id].as_ref().is_some_and(|position| position.is_cut)
    }

    fn wait<T>(&self, state: &mut State, cx: Option<&Context<'_>>) -> Poll<T> {
        if let (Some(cx), Some(position)) = (cx, state.readers[self.id].as_mut())
            && !position.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            position.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.fill.lock();
        state.readers[self.id] = None;
        self.fill.budget.readers.fetch_sub(1, Ordering::Relaxed);
        // The slowest may be gone.
        let leader = state.leader.take();
        drop(state);
        if let Some(leader) = leader {
            leader.wake();
        }
    }
}

#[cfg(test)]
mod tests;
