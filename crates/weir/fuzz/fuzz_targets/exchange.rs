//! A schedule of reads, writes, closes and steps of the clock on both sides of the gateway.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokio::signal::unix::{SignalKind, signal};
use weir_fuzz::exchange::Lab;

thread_local! {
    static LAB: Lab = lab();
}

/// The fuzzer's `main` is not Rust's, which ignores SIGPIPE: a write to a connection that the peer has reset would end the process.
fn lab() -> Lab {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    // Once taken, the signal stays taken, although the stream of it is dropped.
    let _ = runtime.block_on(async { signal(SignalKind::pipe()) }).expect("a signal that may be taken");
    Lab::default()
}

fuzz_target!(|bytes: &[u8]| {
    LAB.with(|lab| lab.run(bytes));
});
