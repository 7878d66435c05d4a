//! gauge
fn main() {}
