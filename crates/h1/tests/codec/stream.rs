//! Connections as streams: pipelining, empty lines before requests, ends. RFC 9112 sections 2.2, 8 and 9.3.2.

use h1::ParseError::*;
use h1::{BodyDecoder, BodyEvent, BodyKind, ParseError};

use crate::support::feed::{End, Start};
use crate::{refuse_request, request, requests};

#[test]
fn pipelined_requests_are_split_rfc9112_9_3_2() {
    let outcome = requests(
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         1\r\nx\r\n0\r\n\r\nGET /4 HTTP/1.0\r\n\r\n",
    );
    assert_eq!(outcome.end, End::Clean);
    let found: Vec<_> = outcome
        .messages
        .iter()
        .map(|message| {
            let Start::Request { path, .. } = &message.start else { panic!() };
            (String::from_utf8_lossy(path).into_owned(), String::from_utf8_lossy(&message.body).into_owned())
        })
        .collect();
    let expected = [("/1", ""), ("/2", "abc"), ("/3", "x"), ("/4", "")];
    assert!(found.iter().map(|(path, body)| (&path[..], &body[..])).eq(expected));
}

#[test]
fn one_empty_line_before_a_request_is_passed_over_rfc9112_2_2() {
    request("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let outcome =
        requests("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((outcome.end, outcome.messages.len()), (End::Clean, 2));
}

#[test]
fn more_empty_lines_are_refused_rfc9112_2_2() {
    refuse_request("\r\n\r\n", EmptyLines);
    refuse_request("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", EmptyLines);
    refuse_request("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BareLf);
    refuse_request("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BareLf);
    refuse_request("\r\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BareCr);
    refuse_request("\r\n\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", BareCr);
    refuse_request(" \r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", RequestLine);
    refuse_request("\r\n \r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", RequestLine);
}

#[test]
fn what_breaks_off_is_no_message_rfc9112_8() {
    let whole = "\r\nGET /a HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    for length in 1..whole.len() {
        let outcome = requests(&whole[..length]);
        assert_eq!((outcome.end, outcome.messages.len()), (End::InHead(length), 0));
    }
    assert_eq!(requests("").end, End::Clean);
    let outcome = requests("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcd");
    assert_eq!(outcome.end, End::InBody);
}

/// After a refusal nothing more of the connection is read as a request.
#[test]
fn what_follows_a_refused_message_is_not_read_rule_17() {
    let outcome =
        requests("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((outcome.end, outcome.messages.len()), (End::Refused(HostMissing), 1));
}

#[test]
fn decoders_count_and_know_their_end() {
    let mut decoder = BodyDecoder::new(BodyKind::Length(5));
    assert_eq!(decoder.remaining(), Some(5));
    assert_eq!(decoder.decode(b""), Ok((0, BodyEvent::NeedMore)));
    assert_eq!(decoder.decode(b"abc"), Ok((3, BodyEvent::Data(0..3))));
    assert_eq!((decoder.remaining(), decoder.close()), (Some(2), Err(ParseError::Truncated)));
    assert_eq!(decoder.decode(b"defg"), Ok((2, BodyEvent::Data(0..2))));
    assert_eq!((decoder.is_done(), decoder.close()), (true, Ok(())));
    assert_eq!(decoder.decode(b"fg"), Ok((0, BodyEvent::End)));

    let mut decoder = BodyDecoder::new(BodyKind::None);
    assert_eq!((decoder.is_done(), decoder.close()), (true, Ok(())));
    assert_eq!(decoder.decode(b"abc"), Ok((0, BodyEvent::End)));

    let mut decoder = BodyDecoder::new(BodyKind::UntilClose);
    assert_eq!(decoder.decode(b"abc"), Ok((3, BodyEvent::Data(0..3))));
    assert_eq!(decoder.decode(b""), Ok((0, BodyEvent::NeedMore)));
    assert_eq!((decoder.remaining(), decoder.is_done(), decoder.close()), (None, false, Ok(())));

    let mut decoder = BodyDecoder::new(BodyKind::Chunked);
    assert_eq!(decoder.decode(b"3\r\nab"), Ok((5, BodyEvent::Data(3..5))));
    assert_eq!((decoder.remaining(), decoder.close()), (None, Err(ParseError::Truncated)));
    assert_eq!(decoder.decode(b"c\r\n0\r\n\r\nGET"), Ok((1, BodyEvent::Data(0..1))));
    assert_eq!(decoder.decode(b"\r\n0\r\n\r\nGET"), Ok((7, BodyEvent::End)));
    assert_eq!((decoder.is_done(), decoder.close()), (true, Ok(())));
    assert_eq!(decoder.decode(b"GET"), Ok((0, BodyEvent::End)));
}

#[test]
fn a_decoder_that_failed_stays_failed() {
    let mut decoder = BodyDecoder::new(BodyKind::Chunked);
    assert_eq!(decoder.decode(b"x"), Err(ParseError::ChunkSize));
    assert_eq!(decoder.decode(b"0\r\n\r\n"), Err(ParseError::ChunkSize));
    assert_eq!((decoder.is_done(), decoder.close()), (false, Err(ParseError::Truncated)));
}
