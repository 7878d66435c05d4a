//! One fetch on its way into the cache, and those who wait for it.
//!
//! The exchange that asks the origin (the *leader*) pushes what comes; every exchange that answers a client with it, the leader's own
//! too, is a *reader* and takes the pieces at its own pace. So a slow client holds up nobody, up to the size that can be kept. Readers
//! may sit on other workers: this is the one place of a request's path where one thread wakes another.
//!
//! ```text
//! asking --begin--> begun --finish--> whole        kept; readers go on from the entry
//!    |                |   `-(too large)--> begun, oversize --finish--> ended   passed on and forgotten piece by piece
//!    |                `--fail--> broken            readers that have begun abort: what they sent must not pass for whole
//!    |--apart--> apart                             cannot be shared: everybody asks for himself
//!    `--fail---> broken                            readers have sent nothing yet: one of them leads the next attempt
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use smallvec::SmallVec;

use super::entry::{Entry, Head};
use crate::error::Error;
use crate::server::shared::lock;

/// Bytes that readers may be apart of an answer that is only passed on.
const WINDOW: u64 = 128 * 1024;

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

    /// Requests that are being answered from a fetch under way.
    pub fn readers(&self) -> u64 {
        self.readers.load(Ordering::Relaxed)
    }

    /// Takes `bytes`; false, and nothing taken, when that would be too many.
    fn take(&self, bytes: u64) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let is_within = before + bytes <= self.most;
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
    /// What came and is still held. Most answers come in one piece, for one reader.
    pieces: SmallVec<[Bytes; 1]>,
    /// How many pieces came before the first that is held.
    dropped: usize,
    /// Bytes of all pieces that came.
    bytes: u64,
    /// Bytes that count against the budget.
    charged: u64,
    /// It will not be kept: pieces go when every reader has them.
    oversize: bool,
    readers: SmallVec<[Option<Position>; 1]>,
    leader: Option<Waker>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Open,
    Whole(Entry),
    Found(Entry),
    StandsIn(Entry),
    Ended,
    Apart {
        by_credentials: bool,
    },
    Broken(Option<Error>),
}

/// How far a reader is.
#[derive(Debug, Default)]
struct Position {
    piece: usize,
    bytes: u64,
    waker: Option<Waker>,
}

/// What a reader finds when it asks how the fetch goes.
#[derive(Debug)]
pub enum Progress {
    /// The answer is whole and kept.
    Whole(Entry),
    /// Its head is here, its body on the way.
    Begun(Arc<Head>),
    /// A farther level of the cache had it.
    Found(Entry),
    /// It failed, and this stale answer may stand in for it.
    StandsIn(Entry),
    /// It cannot be shared.
    Apart {
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
    /// All the rest: the body of a whole answer from this position on, at least one byte.
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

    /// Adds a reader, from the start of the answer; `None` when it began to forget already.
    pub fn read(self: &Arc<Self>) -> Option<Reader> {
        let mut state = self.lock();
        let is_whole = matches!(state.phase, Phase::Whole(_));
        if !is_whole && (state.dropped > 0 || state.oversize) {
            return None;
        }
        Some(self.add_reader(&mut state))
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

    /// The head came, and who asked for it reads too.
    pub fn begin_and_read(self: &Arc<Self>, head: Arc<Head>) -> Reader {
        let mut state = self.lock();
        state.head = Some(head);
        let reader = self.add_reader(&mut state);
        wake(state);
        reader
    }

    /// A piece of the body came. Once the body is larger than what is kept, it is only passed on.
    pub fn push(&self, piece: Bytes) {
        let length = piece.len() as u64;
        let mut state = self.lock();
        state.bytes += length;
        if !state.oversize {
            if state.bytes > self.limit || !self.budget.take(length) {
                // What it holds still counts, until the slowest reader has it.
                state.oversize = true;
            } else {
                state.charged += length;
            }
        }
        state.pieces.push(piece);
        self.forget_read(&mut state);
        wake(state);
    }

    /// Waits until there is room for another piece. There always is while the answer may be kept.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.oversize {
            return Poll::Ready(());
        }
        self.forget_read(&mut state);
        let held: u64 = state.pieces.iter().map(|piece| piece.len() as u64).sum();
        if held <= WINDOW {
            return Poll::Ready(());
        }
        state.leader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The body is whole: takes it, if it can be kept. [`complete`](Self::complete) follows, or [`end`](Self::end) if there is none.
    pub fn take_body(&self) -> Option<Bytes> {
        let mut state = self.lock();
        if state.oversize {
            return None;
        }
        match state.pieces.len() {
            0 => Some(Bytes::new()),
            // Not cloned: bytes that have one owner need no count. Nobody has them yet, and all go on from the entry.
            1 if state.readers.iter().flatten().all(|reader| reader.piece == 0) => state.pieces.pop(),
            1 => Some(state.pieces[0].clone()),
            _ => {
                let mut body = Vec::with_capacity(usize::try_from(state.bytes).unwrap_or(0));
                state.pieces.iter().for_each(|piece| body.extend_from_slice(piece));
                Some(body.into())
            }
        }
    }

    /// There is a whole answer: this fetch's own, or one from elsewhere that serves as well.
    pub fn complete(&self, entry: Entry) {
        let mut state = self.lock();
        state.phase = Phase::Whole(entry);
        // Readers go on from the entry.
        state.dropped += state.pieces.len();
        state.pieces.clear();
        let charged = state.charged;
        self.refund(&mut state, charged);
        wake(state);
    }

    /// A farther level of the cache had it: nobody was asked.
    pub fn found(&self, entry: Entry) {
        self.settle(Phase::Found(entry));
    }

    /// It failed before it began, and a stale answer may stand in for it.
    pub fn stand_in(&self, entry: Entry) {
        self.settle(Phase::StandsIn(entry));
    }

    /// The body is whole and is not kept.
    pub fn end(&self) {
        self.settle(Phase::Ended);
    }

    /// The answer cannot be shared.
    pub fn apart(&self, by_credentials: bool) {
        self.settle(Phase::Apart { by_credentials });
    }

    /// There is no answer, or no end of it. `error` is what the leader's client is told.
    pub fn fail(&self, error: Option<Error>) {
        self.settle(Phase::Broken(error));
    }

    fn settle(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = phase;
        wake(state);
    }

    /// Lets go of what every reader has, where the answer is only passed on.
    fn forget_read(&self, state: &mut State) {
        if !state.oversize {
            return;
        }
        let slowest = state.readers.iter().flatten().map(|reader| reader.piece).min();
        let slowest = slowest.unwrap_or(state.dropped + state.pieces.len());
        let count = slowest.saturating_sub(state.dropped).min(state.pieces.len());
        let bytes = state.pieces.drain(..count).map(|piece| piece.len() as u64).sum();
        state.dropped += count;
        self.refund(state, bytes);
    }

    /// Gives back what was taken for so many bytes; those that came when it was oversize were not taken.
    fn refund(&self, state: &mut State, bytes: u64) {
        let bytes = bytes.min(state.charged);
        if bytes > 0 {
            state.charged -= bytes;
            self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
        }
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
    // Nobody waits, mostly: then this allocates nothing.
    let waiting: Vec<Waker> = waiting.collect();
    drop(state);
    waiting.into_iter().for_each(Waker::wake);
}

/// One exchange that answers its client from a fetch.
#[derive(Debug)]
pub struct Reader {
    fill: Arc<Fill>,
    id: usize,
}

impl Reader {
    /// Waits until it is known what becomes of the fetch. Ready at once for a reader that is part of the leader's own task, which need
    /// not be woken: it passes no context.
    pub fn poll_progress(&self, cx: Option<&Context<'_>>) -> Poll<Progress> {
        let mut state = self.fill.lock();
        let progress = match (&state.phase, &state.head) {
            (Phase::Whole(entry), _) => Progress::Whole(entry.clone()),
            (Phase::Found(entry), _) => Progress::Found(entry.clone()),
            (Phase::StandsIn(entry), _) => Progress::StandsIn(entry.clone()),
            (Phase::Apart { by_credentials }, _) => Progress::Apart { by_credentials: *by_credentials },
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
        let Some(position) = state.readers[self.id].as_mut() else { return Poll::Ready(Piece::Broken) };
        if let Phase::Whole(entry) = &state.phase {
            let at = usize::try_from(position.bytes).unwrap_or(usize::MAX);
            position.bytes = entry.body().len() as u64;
            return Poll::Ready(if at < entry.body().len() { Piece::Rest(entry.clone(), at) } else { Piece::End });
        }
        if let Some(piece) = state.pieces.get(position.piece - state.dropped) {
            let piece = piece.clone();
            position.piece += 1;
            position.bytes += piece.len() as u64;
            let leader = if state.oversize { state.leader.take() } else { None };
            drop(guard);
            if let Some(leader) = leader {
                leader.wake();
            }
            return Poll::Ready(Piece::Bytes(piece));
        }
        match state.phase {
            Phase::Ended => Poll::Ready(Piece::End),
            Phase::Apart { .. } | Phase::Broken(_) | Phase::StandsIn(_) | Phase::Found(_) => Poll::Ready(Piece::Broken),
            Phase::Open | Phase::Whole(_) => self.wait(state, cx),
        }
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
