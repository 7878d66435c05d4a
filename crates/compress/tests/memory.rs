//! An encoder holds no more than it says, at any level, however long the body is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use compress::{Coding, Encoder};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on as it is; only sizes are counted.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_encoder_holds_no_more_than_it_says() {
    let piece: Vec<u8> = (0..32 << 10).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 27) as u8 + b'a').collect();
    for coding in Coding::ALL {
        for level in coding.levels() {
            let before = HELD.load(Ordering::Relaxed);
            MOST.store(before, Ordering::Relaxed);
            let mut encoder = Encoder::new(coding, level, None).unwrap();
            let mut out = Vec::with_capacity(64 << 10);
            for _ in 0..64 {
                encoder.push(&piece, &mut out).unwrap();
                out.clear();
            }
            let most = MOST.load(Ordering::Relaxed) - before + encoder.foreign_memory();
            assert!(most <= coding.memory() + (64 << 10), "{coding:?} at level {level} holds {most} bytes");
        }
    }
}
