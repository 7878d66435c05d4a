//! Which streams of a connection are to be looked at: a waker of a stream sets its bit and wakes the connection's task.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The set of one connection.
#[derive(Debug)]
pub struct Ready {
    words: Box<[AtomicU64]>,
    /// The connection's task. Wakers may be used from any thread: those of a shared cache fill are.
    task: Mutex<Option<Waker>>,
}

struct SlotWaker {
    ready: Arc<Ready>,
    index: usize,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.insert(self.index);
        self.ready.wake();
    }
}

impl Ready {
    /// A set of indices below `count`.
    pub fn new(count: usize) -> Arc<Self> {
        let words = (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Ready { words, task: Mutex::new(None) })
    }

    /// A waker of the stream at `index`.
    pub fn waker(self: &Arc<Self>, index: usize) -> Waker {
        Waker::from(Arc::new(SlotWaker { ready: self.clone(), index }))
    }

    /// The task to wake.
    pub fn register(&self, task: &Waker) {
        let mut registered = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !registered.as_ref().is_some_and(|registered| registered.will_wake(task)) {
            *registered = Some(task.clone());
        }
    }

    /// Wakes the task.
    pub fn wake(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = &*task {
            task.wake_by_ref();
        }
    }

    /// Puts an index in.
    pub fn insert(&self, index: usize) {
        if let Some(word) = self.words.get(index / 64) {
            word.fetch_or(1 << (index % 64), Ordering::AcqRel);
        }
    }

    /// Takes all out, and calls `each` for them in order.
    pub fn take(&self, mut each: impl FnMut(usize)) {
        for (number, word) in self.words.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                each(number * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}
