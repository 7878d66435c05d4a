//! No bytes make the codec panic: the fuzzers' corpus, and random frames.

use http2::{Config, Connection, Event, Head};
use proptest::prelude::*;

fn run(mut connection: Connection, input: &[u8]) {
    let (mut head, mut at) = (Head::default(), 0);
    while let Ok((used, event)) = connection.decode(&input[at..], &mut head, at as u64) {
        match event {
            Event::NeedMore => break,
            Event::Flush => connection.advance(connection.output().len()),
            Event::Yield => connection.begin_iteration(),
            Event::Request { stream, .. } => {
                assert_eq!(head.request.fields.verify(&head.text), Ok(()));
                let _ = connection.send_response(stream, 200, std::iter::empty(), false);
                let _ = connection.send_data(stream, &[0; 100], stream % 4 == 1);
            }
            Event::Response { .. } | Event::Interim { .. } => {
                assert_eq!(head.response.fields.verify(&head.text), Ok(()));
            }
            Event::Data { stream, range, .. } => {
                assert!(range.end <= used);
                connection.consume(stream, range.len());
            }
            Event::Trailers { stream } | Event::Reset { stream, .. } => connection.release(stream),
            _ => {}
        }
        at += used;
    }
}

fn client() -> Connection {
    let mut connection = Connection::client(Config::default(), 0);
    let line = http2::RequestLine { method: b"GET", scheme: b"https", authority: b"a", path: b"/", protocol: None };
    connection.send_request(line, std::iter::empty(), true).expect("a stream is free");
    connection
}

#[test]
fn the_corpus_is_read_without_panic() {
    for role in ["server", "client"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(role);
        let mut count = 0;
        for file in std::fs::read_dir(folder).expect("a corpus") {
            let input = std::fs::read(file.expect("a file").path()).expect("readable");
            run(if role == "server" { Connection::server(Config::default(), 0) } else { client() }, &input);
            count += 1;
        }
        assert!(count > 2);
    }
}

proptest! {
    #[test]
    fn random_frames_are_read_without_panic(
        frames in proptest::collection::vec((0..18_u8, any::<u8>(), 0..6_u32, proptest::collection::vec(any::<u8>(), 0..24)), 0..40),
    ) {
        let mut input = crate::support::frame(4, 0, 0, &[]);
        for (kind, flags, stream, payload) in frames {
            input.extend(crate::support::frame(kind, flags, stream, &payload));
        }
        run(client(), &input);
        run(Connection::server(Config::default(), 0), &[&http2::PREFACE[..], &input].concat());
    }
}
