//! A schedule of reads, writes, closes and steps of the clock on both sides of the gateway.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::exchange::Lab;

thread_local! {
    static LAB: Lab = Lab::default();
}

fuzz_target!(|bytes: &[u8]| {
    LAB.with(|lab| lab.run(bytes));
});
