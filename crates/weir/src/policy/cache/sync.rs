//! Locks and counters of what several workers change. Tests with the feature `shuttle` put those of a scheduler in their place, which tries out the
//! orders in which threads can run (`cargo test -p weir --lib --features shuttle schedules`).

#[cfg(not(all(test, feature = "shuttle")))]
pub use std::sync::{Mutex, MutexGuard, PoisonError, atomic};

#[cfg(all(test, feature = "shuttle"))]
pub use shuttle::sync::{Mutex, MutexGuard, PoisonError, atomic};

/// Locks; a panic of another thread does not poison what is here.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, feature = "shuttle"))]
mod schedules;
