//! Words, counters and locks that all workers change. Tests with the feature `shuttle` put those of a scheduler in their place, which tries out the orders
//! in which threads can run (`cargo test -p weir --lib --features shuttle schedules`). The scheduler has no weaker order than the one in
//! which things happen. Nothing is lost by that here: each word stands for itself, and an array is published by the swap of its pointer.

#[cfg(not(all(test, feature = "shuttle")))]
pub(super) use {
    arc_swap::ArcSwap,
    portable_atomic::AtomicU128,
    std::sync::atomic::{AtomicU64, AtomicUsize},
    std::sync::{Mutex, MutexGuard, PoisonError},
};

#[cfg(all(test, feature = "shuttle"))]
pub(super) use {
    fakes::{ArcSwap, AtomicU128},
    shuttle::sync::atomic::{AtomicU64, AtomicUsize},
    shuttle::sync::{Mutex, MutexGuard, PoisonError},
};

/// What the scheduler does not have: the real thing, with a place before each use where another thread may run.
#[cfg(all(test, feature = "shuttle"))]
mod fakes {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use shuttle::sync::atomic::AtomicBool;

    #[derive(Default)]
    struct SwitchPoint(AtomicBool);

    impl SwitchPoint {
        fn pass(&self) {
            self.0.load(Ordering::SeqCst);
        }
    }

    pub(crate) struct AtomicU128 {
        place: SwitchPoint,
        value: portable_atomic::AtomicU128,
    }

    impl AtomicU128 {
        pub(crate) fn new(value: u128) -> Self {
            AtomicU128 { place: SwitchPoint::default(), value: portable_atomic::AtomicU128::new(value) }
        }

        pub(crate) fn get_mut(&mut self) -> &mut u128 {
            self.value.get_mut()
        }

        pub(crate) fn load(&self, order: Ordering) -> u128 {
            self.place.pass();
            self.value.load(order)
        }

        pub(crate) fn swap(&self, value: u128, order: Ordering) -> u128 {
            self.place.pass();
            self.value.swap(value, order)
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u128,
            new: u128,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u128, u128> {
            self.place.pass();
            self.value.compare_exchange(current, new, success, failure)
        }

        pub(crate) fn compare_exchange_weak(
            &self,
            current: u128,
            new: u128,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u128, u128> {
            self.compare_exchange(current, new, success, failure)
        }
    }

    #[derive(Default)]
    pub(crate) struct ArcSwap<T> {
        place: SwitchPoint,
        value: arc_swap::ArcSwap<T>,
    }

    impl<T> ArcSwap<T> {
        pub(crate) fn load(&self) -> arc_swap::Guard<Arc<T>> {
            self.place.pass();
            self.value.load()
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            self.place.pass();
            self.value.load_full()
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            self.place.pass();
            self.value.store(value);
        }
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod schedules;
