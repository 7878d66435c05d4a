//! The places of connections. When all are taken, the one goes that has had no request for the longest time: whoever connects and says nothing
//! must not keep a probe of health waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    /// Connections, the one first that has had no request for the longest time.
    taken: Mutex<Vec<Arc<State>>>,
    /// A connection waits for a place.
    is_needed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    is_busy: AtomicBool,
    leave: Notify,
}

impl Places {
    /// So many.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Places {
            free: Arc::new(Semaphore::new(count)),
            taken: Mutex::default(),
            is_needed: AtomicBool::new(false),
        })
    }

    /// A place for a connection that is there: a free one, or that of another that has no request in flight. Waits while there is none.
    pub(crate) async fn take(self: &Arc<Self>) -> ConnectionSlot {
        let permit = match self.free.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.is_needed.store(true, Ordering::Relaxed);
                self.dismiss_one();
                let permit = self.free.clone().acquire_owned().await.expect("the semaphore is never closed");
                self.is_needed.store(false, Ordering::Relaxed);
                permit
            }
        };
        let state = Arc::new(State::default());
        self.lock().push(state.clone());
        ConnectionSlot { places: self.clone(), state, _permit: permit }
    }

    fn dismiss_one(&self) {
        if let Some(idle) = self.lock().iter().find(|state| !state.is_busy.load(Ordering::Relaxed)) {
            idle.leave.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<State>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    places: Arc<Places>,
    state: Arc<State>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlot {
    /// A request is in flight until what this returns is dropped.
    pub(crate) fn begin(&self) -> Busy {
        self.state.is_busy.store(true, Ordering::Relaxed);
        Busy { places: self.places.clone(), state: self.state.clone() }
    }

    /// Ready when another connection needs the place, and no request is in flight.
    pub(crate) async fn dismissed(&self) {
        loop {
            self.state.leave.notified().await;
            if !self.state.is_busy.load(Ordering::Relaxed) {
                return;
            }
            // One has come meanwhile.
            self.places.dismiss_one();
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.lock().retain(|state| !Arc::ptr_eq(state, &self.state));
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Busy {
    places: Arc<Places>,
    state: Arc<State>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        // Behind all that have been idle for longer.
        if let Some(position) = taken.iter().position(|state| Arc::ptr_eq(state, &self.state)) {
            taken[position..].rotate_left(1);
        }
        drop(taken);
        self.state.is_busy.store(false, Ordering::Relaxed);
        if self.places.is_needed.load(Ordering::Relaxed) {
            self.places.dismiss_one();
        }
    }
}
