//! Writing: rules 14 and 22.

use h1::encode;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn numbers_are_written_in_full() {
    for number in [0, 1, 9, 10, 99, 12_345, 99_999_999, 100_000_000, 100_000_001, 1 << 32, u64::MAX - 1, u64::MAX] {
        assert_eq!(written(|out| encode::decimal(out, number)), number.to_string());
        assert_eq!(written(|out| encode::content_length(out, number)), format!("Content-Length: {number}\r\n"));
    }
    for length in [1, 9, 10, 15, 16, 17, 255, 256, 4095, 4096, 65_535, usize::MAX >> 4, usize::MAX] {
        assert_eq!(written(|out| encode::chunk_size(out, length)), format!("{length:x}\r\n"));
    }
}

/// Rule 22: a generated value can never end its line.
#[test]
fn a_value_never_splits_a_message_rule_22() {
    let value = b"a\r\nSet-Cookie: evil\r\n\r\n<html>\0\x0b\x7f\x01\tb \xc3\xa9";
    let mut out = Vec::new();
    encode::field(&mut out, b"Location", value);
    assert_eq!(out, b"Location: aSet-Cookie: evil<html>\tb \xc3\xa9\r\n");
    out.clear();
    encode::status_line(&mut out, 200, b"OK\r\nX: y\n\0");
    assert_eq!(out, b"HTTP/1.1 200 OKX: y\r\n");
    for byte in 0..=255u8 {
        for place in [0, 15, 16, 40] {
            let mut value = [b'v'; 41];
            value[place] = byte;
            out.clear();
            encode::field(&mut out, b"X", &value);
            let line = out.strip_suffix(b"\r\n").unwrap();
            assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
            assert!(line.contains(&b'v') && out.len() >= 45);
        }
    }
}

#[test]
fn an_empty_chunk_is_never_written_by_accident() {
    assert_eq!(written(|out| encode::chunk(out, b"")), "");
    assert_eq!(written(|out| encode::chunk(out, b"abc")), "3\r\nabc\r\n");
    assert_eq!(written(encode::last_chunk), "0\r\n\r\n");
    assert_eq!(written(encode::chunked), "Transfer-Encoding: chunked\r\n");
}

#[test]
fn reasons_of_the_registry_are_text() {
    for status in 0..1000 {
        assert!(encode::reason(status).bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
    }
    assert_eq!((encode::reason(200), encode::reason(413), encode::reason(299)), ("OK", "Content Too Large", ""));
}
