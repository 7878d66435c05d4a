//! The rules of docs/HTTP2-SAFETY.md as raw frames.

use http2::{BudgetKind, Config, Error, ErrorCode, Event, Malformed, ResetReason};
use message::{BodyLength, Known};

use crate::support::{GET, Peer, block, encoded, frame};

const END: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

fn with(fields: &[(&str, &str)]) -> Vec<u8> {
    block(&[&GET[..], fields].concat())
}

fn replaced(name: &str, value: &str) -> Vec<u8> {
    block(&GET.map(|(other, old)| if other == name { (other, value) } else { (other, old) }))
}

/// What happens to a request with this block.
fn request(block: &[u8]) -> Result<Peer, Malformed> {
    request_to(Config::default(), block)
}

fn request_to(config: Config, block: &[u8]) -> Result<Peer, Malformed> {
    let mut peer = Peer::server(config);
    let events = peer.feed(&frame(1, END | END_HEADERS, 1, block));
    match &events[..] {
        [Event::Request { stream: 1, end: true }] => {
            assert_eq!(peer.head.request.fields.verify(&peer.head.text), Ok(()));
            Ok(peer)
        }
        [Event::Reset { stream: 1, reason: ResetReason::Malformed(rule) }] => {
            // A response of 400 (501), then the reset; the peer paid; the connection goes on.
            assert_eq!(peer.output(), (Some(1), vec![1, 3]));
            assert_eq!(peer.connection.budget().count(BudgetKind::ForcedReset), 1);
            assert_eq!(peer.feed(&frame(1, END | END_HEADERS, 3, &block_of_get())).len(), 1);
            Err(*rule)
        }
        other => panic!("{other:?} {:?}", peer.error),
    }
}

fn block_of_get() -> Vec<u8> {
    block(&GET)
}

/// What happens to a response with this block.
fn response(fields: &[(&str, &str)]) -> Result<Peer, Malformed> {
    let mut peer = Peer::client(b"GET");
    let events = peer.feed(&frame(1, END_HEADERS, 1, &block(fields)));
    match &events[..] {
        [Event::Response { .. } | Event::Interim { .. }] => {
            assert_eq!(peer.head.response.fields.verify(&peer.head.text), Ok(()));
            Ok(peer)
        }
        [Event::Reset { reason: ResetReason::Malformed(rule), .. }] => {
            assert_eq!(peer.output(), (Some(1), vec![3]));
            Err(*rule)
        }
        other => panic!("{other:?} {:?}", peer.error),
    }
}

#[test]
fn field_names_are_lower_case_tokens_rule_1() {
    for name in ["", "A", "a b", "a\0", "é", "a:b", "host ", "a\r\nb", "\x7f"] {
        assert_eq!(request(&with(&[(name, "x")])).err(), Some(Malformed::FieldName), "{name:?}");
        assert_eq!(response(&[(":status", "200"), (name, "x")]).err(), Some(Malformed::FieldName), "{name:?}");
    }
}

#[test]
fn field_values_hold_no_control_and_no_blank_at_an_end_rule_2() {
    for value in ["a\0", "a\rb", "a\nb", "\r\n", "a\x01", "\x7f", " a", "a ", "\ta", "a\t"] {
        assert_eq!(request(&with(&[("x", value)])).err(), Some(Malformed::FieldValue), "{value:?}");
        assert_eq!(response(&[(":status", "200"), ("x", value)]).err(), Some(Malformed::FieldValue), "{value:?}");
    }
    for value in ["", "a\tb", "é"] {
        assert!(request(&with(&[("x", value)])).is_ok());
    }
}

#[test]
fn a_bad_field_in_the_dynamic_table_stays_bad_rule_2() {
    let mut peer = Peer::server(Config::default());
    let bad = [&block_of_get()[..], &[0x40, 1, b'x', 2, b'a', b'\n']].concat();
    peer.feed(&frame(1, END | END_HEADERS, 1, &bad));
    let again = [&block_of_get()[..], &[0xbe]].concat();
    let reason = ResetReason::Malformed(Malformed::FieldValue);
    assert_eq!(peer.feed(&frame(1, END | END_HEADERS, 3, &again)), [Event::Reset { stream: 3, reason }]);
}

#[test]
fn pseudo_fields_are_these_once_first_and_not_empty_rule_3() {
    let swapped = block(&[("x", "y"), GET[0], GET[1], GET[2], GET[3]]);
    for bad in [
        with(&[(":method", "GET")]),
        with(&[(":status", "200")]),
        with(&[(":other", "1")]),
        with(&[(":protocol", "websocket")]),
        replaced(":path", ""),
        replaced(":method", ""),
        swapped,
        block(&GET[1..]),
        block(&[GET[0], GET[2], GET[3]]),
        block(&[GET[0], GET[1], GET[3]]),
    ] {
        assert_eq!(request(&bad).err(), Some(Malformed::PseudoField), "{}", bad.escape_ascii());
    }
    for bad in [&[(":status", "200"), (":status", "200")][..], &[(":path", "/")], &[("x", "y"), (":status", "200")]] {
        assert_eq!(response(bad).err(), Some(Malformed::PseudoField), "{bad:?}");
    }
}

#[test]
fn methods_are_tokens_in_their_case_rule_4() {
    for bad in ["G ET", "get", "Post", "G\tT", "GET\u{e9}", &"A".repeat(33)] {
        assert_eq!(request(&replaced(":method", bad)).err(), Some(Malformed::Method), "{bad}");
    }
    assert_eq!(request(&replaced(":method", "CONNECT")).err(), Some(Malformed::Connect));
    assert!(request(&replaced(":method", "PURGE")).is_ok());
}

#[test]
fn paths_are_visible_ascii_from_a_slash_rule_5() {
    for bad in ["a", "http://a/", "/a b", "/a#b", "/\u{e9}", "*"] {
        assert_eq!(request(&replaced(":path", bad)).err(), Some(Malformed::Path), "{bad}");
    }
    let peer = request(&replaced(":path", "/a/%2e?b?c")).unwrap_or_else(|rule| panic!("{rule:?}"));
    let head = &peer.head.request;
    assert_eq!(head.path.of_buf(&peer.head.text), b"/a/%2e");
    assert_eq!(head.query.map(|query| query.of_buf(&peer.head.text)), Some(&b"b?c"[..]));
}

#[test]
fn the_scheme_is_http_or_https_rule_6() {
    for bad in ["ftp", "HTTPS", "https ", "http,https"] {
        assert!(request(&replaced(":scheme", bad)).is_err(), "{bad}");
    }
}

#[test]
fn authority_is_valid_and_agrees_with_host_rule_7() {
    for bad in ["u@a", "a/b", "a,b", "a:99999", "a b"] {
        assert_eq!(request(&replaced(":authority", bad)).err(), Some(Malformed::Authority), "{bad}");
    }
    for bad in ["b.example", "a.example:80", "a.example, b", ""] {
        assert_eq!(request(&with(&[("host", bad)])).err(), Some(Malformed::Authority), "{bad}");
    }
    assert_eq!(request(&with(&[("host", "a.example"), ("host", "a.example")])).err(), Some(Malformed::Authority));
    assert!(request(&with(&[("host", "A.example:443")])).is_ok());
    assert!(request(&block(&[GET[0], GET[1], GET[2], ("host", "a.example")])).is_ok());
    assert_eq!(request(&block(&GET[..3])).err(), Some(Malformed::Authority));
}

#[test]
fn fields_of_a_connection_are_malformed_rule_8() {
    for (name, value) in [
        ("connection", "close"),
        ("proxy-connection", "close"),
        ("keep-alive", "1"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
    ] {
        assert_eq!(request(&with(&[(name, value)])).err(), Some(Malformed::ConnectionField), "{name}");
        assert_eq!(response(&[(":status", "200"), (name, value)]).err(), Some(Malformed::ConnectionField), "{name}");
    }
    assert!(request(&with(&[("te", "trailers")])).is_ok_and(|peer| peer.head.request.accepts_trailers));
}

#[test]
fn content_length_is_one_number_and_holds_rule_9() {
    for bad in ["+1", "1,1", "", "0x1", "18446744073709551616", "1 1"] {
        assert_eq!(request(&with(&[("content-length", bad)])).err(), Some(Malformed::ContentLength), "{bad}");
    }
    assert!(request(&with(&[("content-length", "0"), ("content-length", "0")])).is_err());
    assert!(request(&with(&[("content-length", "1")])).is_err(), "END_STREAM on the head");
    let post = block(&[(":method", "POST"), GET[1], GET[2], GET[3], ("content-length", "3")]);
    for (frames, is_good) in [
        (vec![(END, "abc")], true),
        (vec![(0, "a"), (END, "bc")], true),
        (vec![(0, "abc"), (END, "")], true),
        (vec![(END, "ab")], false),
        (vec![(0, "abcd")], false),
        (vec![(0, "abc"), (0, "d")], false),
    ] {
        let mut peer = Peer::server(Config::default());
        peer.feed(&frame(1, END_HEADERS, 1, &post));
        assert_eq!(peer.head.request.body, BodyLength::Exact(3));
        let mut last = Vec::new();
        for (flags, data) in &frames {
            last = peer.feed(&frame(0, *flags, 1, data.as_bytes()));
        }
        let reason = ResetReason::Malformed(Malformed::ContentLength);
        assert_eq!(last == [Event::Reset { stream: 1, reason }], !is_good, "{frames:?} {last:?}");
    }
    let mut peer = Peer::client(b"GET");
    peer.feed(&frame(1, END_HEADERS, 1, &block(&[(":status", "200"), ("content-length", "3")])));
    let reason = ResetReason::Malformed(Malformed::ContentLength);
    assert_eq!(peer.feed(&frame(0, END, 1, b"ab")), [Event::Reset { stream: 1, reason }]);
}

#[test]
fn cookie_crumbs_are_one_line_rule_12() {
    let peer =
        request(&with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")])).unwrap_or_else(|rule| panic!("{rule:?}"));
    assert_eq!(peer.field(b"cookie"), Some(&b"a=1; b=2"[..]));
    assert_eq!(peer.head.request.fields.values(Known::Cookie, &peer.head.text).count(), 1);
}

#[test]
fn trailers_end_the_stream_once_and_have_no_pseudo_field_rule_13() {
    let post = block(&[(":method", "POST"), GET[1], GET[2], GET[3]]);
    for (flags, fields, rule) in [
        (END, &[("x", "y")][..], None),
        (0, &[("x", "y")], Some(Malformed::Trailers)),
        (END, &[(":path", "/")], Some(Malformed::PseudoField)),
        (END, &[("connection", "x")], Some(Malformed::ConnectionField)),
    ] {
        let mut peer = Peer::server(Config::default());
        peer.feed(&frame(1, END_HEADERS, 1, &post));
        let events = peer.feed(&frame(1, flags | END_HEADERS, 1, &block(fields)));
        let expected = match rule {
            None => Event::Trailers { stream: 1 },
            Some(rule) => Event::Reset { stream: 1, reason: ResetReason::Malformed(rule) },
        };
        assert_eq!(events, [expected]);
        if rule.is_none() {
            assert_eq!(peer.head.trailers.get(b"x", &peer.head.text), Some(&b"y"[..]));
            peer.feed(&frame(1, END | END_HEADERS, 1, &block(fields)));
            assert_eq!(peer.error.map(|error| error.code), Some(ErrorCode::STREAM_CLOSED));
        }
    }
}

#[test]
fn responses_keep_the_rules_rules_14_and_15() {
    for bad in ["20", "2000", "0", "abc", "099", "101"] {
        assert_eq!(response(&[(":status", bad)]).err(), Some(Malformed::Status), "{bad}");
    }
    let mut peer = Peer::client(b"GET");
    for _ in 0..16 {
        let events = peer.feed(&frame(1, END_HEADERS, 1, &block(&[(":status", "103")])));
        assert_eq!(events, [Event::Interim { stream: 1 }]);
    }
    let reason = ResetReason::Malformed(Malformed::Interim);
    let events = peer.feed(&frame(1, END_HEADERS, 1, &block(&[(":status", "103")])));
    assert_eq!(events, [Event::Reset { stream: 1, reason }]);
    // The response to HEAD promises what does not come.
    let mut peer = Peer::client(b"HEAD");
    let head = block(&[(":status", "200"), ("content-length", "9")]);
    assert_eq!(peer.feed(&frame(1, END | END_HEADERS, 1, &head)), [Event::Response { stream: 1, end: true }]);
    assert_eq!(peer.head.response.content_length, Some(9));
    // Complete before its request: NO_ERROR.
    let mut peer = Peer::server(Config::default());
    peer.feed(&frame(1, END_HEADERS, 1, &block_of_get()));
    peer.connection.send_response(1, 200, std::iter::empty(), true).expect("open");
    peer.connection.release(1);
    assert_eq!(peer.output(), (Some(0), vec![1, 3]));
    assert_eq!(peer.feed(&frame(0, END, 1, b"late")), []);
    assert_eq!(peer.error, None);
}

#[test]
fn extended_connect_only_where_it_is_offered_rule_18() {
    let connect = block(&[(":method", "CONNECT"), (":protocol", "websocket"), GET[1], GET[2], GET[3]]);
    assert_eq!(request(&connect).err(), Some(Malformed::Connect));
    let config = Config { extended_connect: true, ..Config::default() };
    let peer = request_to(config, &connect).unwrap_or_else(|rule| panic!("{rule:?}"));
    let protocol = peer.head.request.connect_protocol.map(|span| span.of_buf(&peer.head.text));
    assert_eq!(protocol, Some(&b"websocket"[..]));
}

fn error_of(config: Config, frames: &[Vec<u8>]) -> Option<ErrorCode> {
    let mut peer = Peer::server(config);
    for bytes in frames {
        peer.feed(bytes);
    }
    peer.error.map(|error: Error| error.code)
}

#[test]
fn broken_frames_end_the_connection() {
    let get = frame(1, END | END_HEADERS, 1, &block_of_get());
    let open = frame(1, END_HEADERS, 1, &block_of_get());
    let part = frame(1, END, 1, &block_of_get());
    for (frames, code) in [
        (vec![frame(0, 0, 1, b"x")], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(0, 0, 0, b"x")], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(1, END_HEADERS, 2, &block_of_get())], ErrorCode::PROTOCOL_ERROR),
        (vec![get.clone(), get.clone()], ErrorCode::STREAM_CLOSED),
        (vec![get, frame(0, 0, 1, b"x")], ErrorCode::STREAM_CLOSED),
        (vec![part.clone(), frame(6, 0, 0, &[0; 8])], ErrorCode::PROTOCOL_ERROR),
        (vec![part, frame(9, 4, 3, b"")], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(9, 4, 1, b"")], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(6, 0, 0, &[0; 7])], ErrorCode::FRAME_SIZE_ERROR),
        (vec![frame(2, 0, 1, &[0; 4])], ErrorCode::FRAME_SIZE_ERROR),
        (vec![frame(4, 0, 0, &[0; 5])], ErrorCode::FRAME_SIZE_ERROR),
        (vec![frame(4, 1, 0, &[0; 6])], ErrorCode::FRAME_SIZE_ERROR),
        (vec![frame(4, 0, 0, &[0, 2, 0, 0, 0, 2])], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(4, 0, 0, &[0, 4, 0x80, 0, 0, 0])], ErrorCode::FLOW_CONTROL_ERROR),
        (vec![frame(4, 0, 0, &[0, 5, 0, 0, 0, 1])], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(5, 0, 1, &[0; 4])], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(3, 0, 1, &[0; 4])], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(8, 0, 0, &[0; 4])], ErrorCode::PROTOCOL_ERROR),
        (vec![frame(8, 0, 0, &[0x7f, 255, 255, 255])], ErrorCode::FLOW_CONTROL_ERROR),
        (vec![frame(0, 0, 1, &[0; 16_385])], ErrorCode::FRAME_SIZE_ERROR),
        (vec![frame(1, END_HEADERS, 1, &[0x80])], ErrorCode::COMPRESSION_ERROR),
        (vec![open, frame(0, 8, 1, &[5, 1, 2])], ErrorCode::PROTOCOL_ERROR),
    ] {
        assert_eq!(error_of(Config::default(), &frames), Some(code), "{:?}", frames.last());
    }
}

#[test]
fn a_continuation_flood_ends_the_connection() {
    let mut frames = vec![frame(1, END, 1, &block_of_get())];
    frames.extend(std::iter::repeat_n(frame(9, 0, 1, b""), 9));
    assert_eq!(error_of(Config::default(), &frames), Some(ErrorCode::ENHANCE_YOUR_CALM));
}

#[test]
fn a_section_above_the_limits_is_431_and_the_table_stays_right() {
    let config = Config { section: 400, ..Config::default() };
    let mut peer = Peer::server(config);
    let long = [&block_of_get()[..], &encoded(&[("x-one", &"v".repeat(100)), ("x-two", &"w".repeat(100)), ("y", "z")])]
        .concat();
    let events = peer.feed(&frame(1, END | END_HEADERS, 1, &long));
    assert_eq!(events, [Event::Reset { stream: 1, reason: ResetReason::TooLarge }]);
    assert_eq!(peer.connection.budget().points(), http2::Budget::FULL);
    peer.connection.release(1);
    // The last entry of the table is `y: z`.
    let next = [&block_of_get()[..], &[0xbe]].concat();
    assert_eq!(peer.feed(&frame(1, END | END_HEADERS, 3, &next)), [Event::Request { stream: 3, end: true }]);
    assert_eq!(peer.field(b"y"), Some(&b"z"[..]));
}

#[test]
fn rapid_reset_ends_the_connection_and_running_handlers_count() {
    let mut peer = Peer::server(Config::default());
    let mut handled = 0;
    for id in (1..2000).step_by(2) {
        let events =
            peer.feed(&[frame(1, END | END_HEADERS, id, &block_of_get()), frame(3, 0, id, &[0, 0, 0, 8])].concat());
        handled += events.iter().filter(|event| matches!(event, Event::Request { .. })).count();
        assert!(peer.connection.streams() <= 100);
        if peer.error.is_some() {
            break;
        }
    }
    assert_eq!(peer.error.map(|error| error.code), Some(ErrorCode::ENHANCE_YOUR_CALM));
    assert!(handled <= 200, "{handled}");
}

#[test]
fn floods_are_paid_from_the_budget() {
    for (flood, kind) in [
        (frame(6, 0, 0, &[0; 8]), BudgetKind::Ping),
        (frame(4, 0, 0, &[]), BudgetKind::Settings),
        (frame(0x77, 0, 0, &[]), BudgetKind::UnknownFrame),
        (frame(2, 0, 9, &[0, 0, 0, 1, 1]), BudgetKind::Priority),
        (frame(8, 0, 0, &[0, 0, 0, 1]), BudgetKind::WindowUpdate),
        (frame(0, 0, 1, &[]), BudgetKind::EmptyData),
    ] {
        let mut peer = Peer::server(Config::default());
        peer.feed(&frame(1, END_HEADERS, 1, &block_of_get()));
        for _ in 0..1000 {
            peer.feed(&flood);
        }
        assert_eq!(peer.error.map(|error| error.code), Some(ErrorCode::ENHANCE_YOUR_CALM), "{kind:?}");
        assert!(peer.connection.budget().count(kind) > 0);
    }
}

#[test]
fn data_beyond_a_window_is_refused_and_credit_comes_back_only_by_consume() {
    let config = Config { stream_window: 20_000, ..Config::default() };
    let mut peer = Peer::server(config);
    peer.feed(&frame(1, END_HEADERS, 1, &block_of_get()));
    assert_eq!(peer.feed(&frame(0, 0, 1, &[0; 16_000])).len(), 1);
    assert_eq!(peer.output().1, []);
    peer.connection.consume(1, 16_000);
    assert_eq!(peer.output().1, [8]);
    assert_eq!(peer.feed(&frame(0, 0, 1, &[0; 16_000])).len(), 1);
    let reason = ResetReason::Frame(ErrorCode::FLOW_CONTROL_ERROR);
    assert_eq!(peer.feed(&frame(0, 0, 1, &[0; 5_000])), [Event::Reset { stream: 1, reason }]);
}

#[test]
fn streams_above_the_last_of_a_goaway_were_not_processed() {
    let mut peer = Peer::client(b"GET");
    let events = peer.feed(&frame(7, 0, 0, &[0; 8]));
    let reason = ResetReason::NotProcessed;
    assert_eq!(events, [Event::GoAway { last: 0, code: ErrorCode::NO_ERROR }, Event::Reset { stream: 1, reason }]);
    assert_eq!(peer.connection.available_streams(), 0);
}

#[test]
fn after_the_last_goaway_new_streams_are_read_over_and_nothing_grows() {
    let mut peer = Peer::server(Config::default());
    peer.feed(&frame(1, END | END_HEADERS, 1, &block_of_get()));
    peer.connection.finish_drain();
    for id in (3..2003).step_by(2) {
        assert_eq!(peer.feed(&frame(1, END_HEADERS, id, &block_of_get())), []);
        assert_eq!(peer.feed(&frame(0, END, id, b"body")), []);
    }
    peer.drop_output();
    peer.connection.finish_drain();
    assert_eq!(peer.output().1, [], "a GOAWAY never names a larger stream than before");
    assert_eq!((peer.error, peer.connection.streams()), (None, 1));
    peer.connection.release(1);
    assert!(peer.connection.is_finished());
}
