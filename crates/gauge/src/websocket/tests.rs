//! Frames in pieces of any length, rules that are broken, and the handshake.

use proptest::prelude::*;

use super::frame::Violation;
use super::*;

/// Everything that comes of bytes, given in pieces that end at these places.
fn events(side: Side, most: u64, bytes: &[u8], cuts: &[usize]) -> Result<Vec<(Event, Vec<u8>)>, Violation> {
    let mut decoder = Decoder::new(side, most);
    let mut events = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        let mut piece = &bytes[from..to];
        from = to;
        loop {
            let (used, event) = decoder.decode(piece)?;
            piece = &piece[used..];
            let Some(event) = event else {
                assert!(piece.is_empty(), "without an event all bytes are taken in");
                break;
            };
            let payload = if let Event::Message(_) = event { decoder.message() } else { decoder.control() };
            events.push((event, payload.to_vec()));
        }
    }
    Ok(events)
}

fn frame(is_last: bool, opcode: Opcode, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, is_last, opcode, mask, payload);
    out
}

#[test]
fn the_examples_of_the_standard() {
    // RFC 6455, section 5.7.
    let hello = b"Hello".to_vec();
    let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(frame(true, Opcode::Text, None, b"Hello"), [0x81, 5, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
    assert_eq!(frame(true, Opcode::Text, Some([0x37, 0xfa, 0x21, 0x3d]), b"Hello"), masked);
    assert_eq!(events(Side::Server, 5, &masked, &[]), Ok(vec![(Event::Message(Kind::Text), hello.clone())]));
    let fragmented = [0x01, 3, 0x48, 0x65, 0x6c, 0x80, 2, 0x6c, 0x6f];
    assert_eq!(events(Side::Client, 5, &fragmented, &[]), Ok(vec![(Event::Message(Kind::Text), hello.clone())]));
    assert_eq!(events(Side::Client, 0, &[0x89, 5, 0x48, 0x65, 0x6c, 0x6c, 0x6f], &[]), Ok(vec![(Event::Ping, hello)]));
    assert_eq!(frame(true, Opcode::Binary, None, &[0; 256])[..4], [0x82, 0x7E, 1, 0]);
    assert_eq!(frame(true, Opcode::Binary, None, &[0; 65536])[..10], [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0]);
    // Section 1.3.
    assert_eq!(handshake::accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[test]
fn keys_are_16_bytes_and_other_ones_each_time() {
    let mut random = fastrand::Rng::with_seed(1);
    let (one, other) = (handshake::key(&mut random), handshake::key(&mut random));
    assert_eq!(one.len(), 24);
    assert_ne!(one, other);
}

/// A message in two fragments with a ping between them, then a close frame: cut at every byte, and at every two.
#[test]
fn pieces_of_any_length_are_the_same() {
    for (side, mask) in [(Side::Client, None), (Side::Server, Some([1, 2, 3, 0x84]))] {
        let mut bytes = frame(false, Opcode::Text, mask, "grü".as_bytes());
        bytes.extend(frame(true, Opcode::Ping, mask, b"are you there"));
        bytes.extend(frame(true, Opcode::Continuation, mask, "ße".as_bytes()));
        bytes.extend(frame(true, Opcode::Binary, mask, &[7; 130]));
        write_close(&mut bytes, Some(4321), b"bye", mask);
        let expected = Ok(vec![
            (Event::Ping, b"are you there".to_vec()),
            (Event::Message(Kind::Text), "grüße".as_bytes().to_vec()),
            (Event::Message(Kind::Binary), vec![7; 130]),
            (Event::Close(Some(4321)), [&4321_u16.to_be_bytes()[..], b"bye"].concat()),
        ]);
        for first in 0..=bytes.len() {
            assert_eq!(events(side, 200, &bytes, &[first]), expected, "{first}");
            for second in first..=bytes.len() {
                assert_eq!(events(side, 200, &bytes, &[first, second]), expected, "{first} {second}");
            }
        }
        let all: Vec<usize> = (1..bytes.len()).collect();
        assert_eq!(events(side, 200, &bytes, &all), expected);
    }
}

#[test]
fn rules_that_are_broken() {
    let protocol = |side, bytes: &[u8]| match events(side, 1000, bytes, &[]) {
        Err(Violation::Protocol(text)) => text,
        other => panic!("{bytes:02x?}: {other:?}"),
    };
    for (bytes, expected) in [
        (&[0xC1, 0][..], "reserved bit"),
        (&[0x83, 0], "reserved opcode"),
        (&[0x8B, 0], "reserved opcode"),
        (&[0x81, 0x80, 0, 0, 0, 0], "a masked frame of a server"),
        (&[0x80, 0], "a continuation of no message"),
        (&[0x01, 0, 0x81, 0], "a message in the middle of another"),
        (&[0x09, 0], "a control frame that is fragmented"),
        (&[0x89, 126, 0, 126], "longer than 125"),
        (&[0x82, 126, 0, 125], "shortest form"),
        (&[0x82, 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], "shortest form"),
        (&[0x82, 127, 0x80, 0, 0, 0, 0, 1, 0, 0], "shortest form"),
        (&[0x88, 1, 3], "half a code"),
        (&[0x88, 2, 0x03, 0xED], "must not be sent"),
        (&[0x88, 2, 0, 0], "must not be sent"),
        (&[0x88, 0, 0x89, 0], "behind a close frame"),
    ] {
        let text = protocol(Side::Client, bytes);
        assert!(text.contains(expected), "{bytes:02x?}: {text}");
    }
    assert_eq!(protocol(Side::Server, &[0x81, 0]), "a frame of a client without a mask");
    for bytes in [&[0x81, 2, 0xC3, 0x28][..], &[0x81, 1, 0xC3], &[0x88, 3, 0x03, 0xE8, 0xFF]] {
        assert_eq!(events(Side::Client, 1000, bytes, &[]), Err(Violation::NotText));
    }
    assert_eq!(events(Side::Client, 4, &[0x82, 5], &[]), Err(Violation::TooLong));
    assert_eq!(events(Side::Client, 4, &[0x02, 3, 1, 2, 3, 0x80, 2], &[]), Err(Violation::TooLong));
    // A length that no memory holds, before any of it has come.
    assert_eq!(
        events(Side::Client, 1 << 20, &[0x82, 127, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], &[]),
        Err(Violation::TooLong)
    );
    assert_eq!(
        [Violation::NotText.code(), Violation::TooLong.code(), Violation::Protocol("").code()],
        [1007, 1009, 1002]
    );
}

#[test]
fn close_frames_with_and_without_a_code() {
    for (code, reason) in [(None, ""), (Some(1000), ""), (Some(1001), "going away"), (Some(4999), "ä")] {
        let mut bytes = Vec::new();
        write_close(&mut bytes, code, reason.as_bytes(), None);
        let events = events(Side::Client, 0, &bytes, &[]).expect("a close frame");
        assert_eq!(events.first().map(|(event, _)| *event), Some(Event::Close(code)));
    }
    let mut long = Vec::new();
    write_close(&mut long, Some(1000), &[b'x'; 500], None);
    assert_eq!(long.len(), 2 + 125);
}

#[test]
fn the_fields_of_a_101_are_checked() {
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    let good = [
        ("upgrade", "WebSocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ("sec-websocket-protocol", "chat.v2"),
    ];
    let problem = |offered: Option<&str>, name: &str, value: Option<&'static str>| {
        let field = |wanted: &str| {
            if wanted == name {
                return value;
            }
            good.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
        };
        handshake::problem(key, offered, field)
    };
    let offered = Some("chat, chat.v2");
    assert_eq!(problem(offered, "", None), Ok(()));
    assert_eq!(problem(offered, "sec-websocket-protocol", None), Ok(()));
    for (offered, name, value, expected) in [
        (offered, "upgrade", None, "no `Upgrade"),
        (offered, "upgrade", Some("h2c"), "no `Upgrade"),
        (offered, "connection", Some("keep-alive"), "no `Connection"),
        (offered, "sec-websocket-accept", None, "no Sec-WebSocket-Accept"),
        (offered, "sec-websocket-accept", Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOO="), "is right for the key"),
        (offered, "sec-websocket-extensions", Some("permessage-deflate"), "the extension `permessage-deflate`"),
        (Some("chat"), "", None, "the subprotocol `chat.v2`"),
        (None, "", None, "the subprotocol `chat.v2`"),
    ] {
        let error = problem(offered, name, value).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    /// Messages in fragments of any length, control frames between them, read in pieces of any length.
    #[test]
    fn what_is_written_is_read(
        messages in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(0_usize..300, 0..4)), 1..5),
        mask in prop::option::of(any::<[u8; 4]>()),
        cuts in prop::collection::vec(0_usize..2000, 0..12),
    ) {
        let side = if mask.is_some() { Side::Server } else { Side::Client };
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (is_text, payload, splits) in messages {
            let payload = if is_text { String::from_utf8_lossy(&payload).into_owned().into_bytes() } else { payload };
            let kind = if is_text { Kind::Text } else { Kind::Binary };
            let mut splits: Vec<usize> = splits.into_iter().map(|at| at.min(payload.len())).collect();
            splits.sort_unstable();
            let mut from = 0;
            for (number, to) in splits.iter().copied().chain([payload.len()]).enumerate() {
                let opcode = if number == 0 { kind.opcode() } else { Opcode::Continuation };
                write(&mut bytes, number == splits.len(), opcode, mask, &payload[from..to]);
                from = to;
                if number < splits.len() {
                    write(&mut bytes, true, Opcode::Pong, mask, &[number as u8]);
                    expected.push((Event::Pong, vec![number as u8]));
                }
            }
            expected.push((Event::Message(kind), payload));
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(events(side, 1000, &bytes, &cuts), Ok(expected));
    }

    /// Whatever comes, the decoder ends with events or a violation, the same ones however it is cut.
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(0_usize..200, 0..6),
        is_client in any::<bool>(),
    ) {
        let side = if is_client { Side::Client } else { Side::Server };
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(events(side, 500, &bytes, &cuts), events(side, 500, &bytes, &[]));
    }
}
