//! Headers: read without a panic, never beyond their end, and alike however the bytes arrive.

#![no_main]

use proxy_protocol::{Accepts, Header, Origin, read, write};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes, Accepts::Any);
    // Early errors are the same as late ones, and a header ends where it ends.
    for cut in 0..bytes.len().min(600) {
        match read(&bytes[..cut], Accepts::Any) {
            Ok(None) => {}
            other => {
                assert_eq!(other, whole);
                break;
            }
        }
    }
    let Ok(Some((header, end))) = whole else { return };
    assert!(end <= bytes.len());
    assert_eq!(read(&bytes[..end], Accepts::Any), Ok(Some((header, end))));
    // What a gateway writes of it says the same.
    let mut written = Vec::new();
    write(&mut written, &header);
    let (again, length) = read(&written, Accepts::Any).expect("well-formed").expect("complete");
    assert_eq!(length, written.len());
    let ips = |header: &Header<'_>| match header.origin {
        Origin::Client(both) => Some((both.source.ip().to_canonical(), both.destination.ip().to_canonical())),
        Origin::Unknown | Origin::Proxy => None,
    };
    assert_eq!(ips(&again), ips(&header));
});
