use proptest::prelude::*;

use super::*;
use crate::policy::cache::entry::tests::entry;

const DIGEST: [u8; 32] = [7; 32];

fn read_back(value: &[u8], digest: &[u8; 32]) -> Option<Stored> {
    read(value.to_vec(), b"key", digest, &Edits::default(), &["cache-tag".into()])
}

#[test]
fn a_response_comes_back_as_it_was() {
    let mut kept = entry("body");
    let head = Arc::get_mut(&mut kept.head).unwrap();
    head.length = Some(4);
    head.requested_ms = 77;
    head.generation = 5;
    head.varies = Some(Arc::new(Varies { names: (*b"accept,x-v").into(), born: 9 }));
    let value = response(&DIGEST, &kept);
    let Some(Stored::Response(back)) = read_back(&value, &DIGEST) else { panic!("nothing came back") };
    assert_eq!((back.freshness(), back.head.class), (kept.freshness(), kept.head.class));
    assert_eq!((back.head.fields().0, back.body(), back.head.length), (kept.head.fields().0, kept.body(), Some(4)));
    assert_eq!(back.head.generation, 5);
    assert_eq!((back.head.requested_ms, &*back.head.tags[1]), (77, &b"b"[..]));
    let varies = back.head.varies.as_ref().unwrap();
    assert_eq!((&*varies.names, varies.born), (&b"accept,x-v"[..], 9));
    assert_eq!(response(&DIGEST, &back), value);
}

#[test]
fn what_responses_differ_by_comes_back() {
    let value = varies(&DIGEST, &Varies { names: (*b"accept").into(), born: 3 }, &entry(""));
    let Some(Stored::Varies(back)) = read_back(&value, &DIGEST) else { panic!("nothing came back") };
    assert_eq!((&*back.names, back.born), (&b"accept"[..], 3));
}

#[test]
fn a_soft_purge_is_written_with_it() {
    let kept = entry("");
    kept.call_stale(4_000);
    let Some(Stored::Response(back)) = read_back(&response(&DIGEST, &kept), &DIGEST) else {
        panic!("nothing came back")
    };
    assert_eq!(back.freshness().staleness_ms(5_000), 1_000);
}

#[test]
fn another_key_another_version_and_a_cut_value_are_nothing() {
    let varying = varies(&DIGEST, &Varies { names: (*b"accept").into(), born: 3 }, &entry(""));
    for value in [response(&DIGEST, &entry("body")), response(&DIGEST, &entry("")), varying] {
        assert!(read_back(&value, &DIGEST).is_some());
        assert!(read_back(&value, &[8; 32]).is_none());
        let mut next = value.clone();
        next[0] += 1;
        assert!(read_back(&next, &DIGEST).is_none());
        for length in 0..value.len() {
            assert!(read_back(&value[..length], &DIGEST).is_none(), "{length}");
        }
        assert!(read_back(&[&value[..], b"x"].concat(), &DIGEST).is_none(), "more than there was");
    }
}

#[test]
fn fields_that_would_split_or_frame_a_message_are_nothing() {
    let kept = entry("body");
    let (value, fields) = (response(&DIGEST, &kept), kept.head.fields().0);
    let at = memchr::memmem::find(&value, fields).expect("the fields are in it");
    for place in (0..fields.len()).filter(|place| fields[*place] != b'\n') {
        let mut split = value.clone();
        split[at + place] = b'\n';
        assert!(read_back(&split, &DIGEST).is_none(), "{place}");
    }
    for lines in [
        "\r\n",
        "Content-Length: 9\r\n",
        "Transfer-Encoding: chunked\r\n",
        "a b: c\r\n",
        "a: \0\r\n",
        "a: b\rc\r\n",
        "a: b",
        "ab\r\n",
    ] {
        let mut value = value[..at - 4].to_vec();
        sized(&mut value, lines.as_bytes());
        value.extend_from_slice(&[0; 8]);
        assert!(read_back(&value, &DIGEST).is_none(), "{lines:?}");
    }
    let mut plain = value[..at - 4].to_vec();
    sized(&mut plain, b"a: b\tc \xff\r\nX-Y:\r\n");
    plain.extend_from_slice(&[0; 8]);
    assert!(read_back(&plain, &DIGEST).is_some());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), form in 0..3) {
        let mut value = [&[VERSION, if form == 0 { b'A' } else { b'V' }][..], &[0; 16], &DIGEST].concat();
        if form < 2 {
            value.append(&mut bytes);
        } else {
            value = bytes;
        }
        if let Some(Stored::Response(back)) = read_back(&value, &DIGEST) {
            prop_assert!((200..600).contains(&back.head.freshness.status));
        }
    }

    #[test]
    fn a_changed_byte_gives_nothing_or_a_response_like_any_other(at in 0..100usize, byte in any::<u8>()) {
        let mut value = response(&DIGEST, &entry("body"));
        let at = at % value.len();
        value[at] = byte;
        if let Some(Stored::Response(back)) = read_back(&value, &DIGEST) {
            let written = response(&DIGEST, &back);
            let Some(Stored::Response(again)) = read_back(&written, &DIGEST) else { panic!("it is not read back") };
            prop_assert_eq!(response(&DIGEST, &again), written);
        }
    }
}
