//! A whole connection in the server's role: no panic, heads keep their invariants, an error is final.
#![no_main]

use http2::{Config, Connection, Event, Head};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut connection = Connection::server(Config { extended_connect: true, ..Config::default() }, 0);
    let mut head = Head::default();
    let mut at = 0;
    let mut now_ms = 0;
    loop {
        now_ms += 7;
        let Ok((used, event)) = connection.decode(&input[at..], &mut head, now_ms) else {
            assert!(connection.decode(&input[at..], &mut head, now_ms).is_err());
            return;
        };
        match event {
            Event::NeedMore => return,
            Event::Flush => connection.advance(connection.output().len()),
            Event::Yield => connection.begin_iteration(),
            Event::Request { stream, .. } => {
                head.request.fields.verify(&head.text).expect("invariants of fields");
                let _ = connection.send_response(stream, 200, std::iter::empty(), false);
                let _ = connection.send_data(stream, &[0; 100], stream % 4 == 1);
            }
            Event::Response { .. } | Event::Interim { .. } => {
                head.response.fields.verify(&head.text).expect("invariants of fields");
            }
            Event::Trailers { stream } => {
                head.trailers.verify(&head.text).expect("invariants of fields");
                connection.release(stream);
            }
            Event::Data { stream, range, end } => {
                assert!(range.end <= used && input[at..].len() >= used);
                connection.consume(stream, range.len());
                if end {
                    connection.release(stream);
                }
            }
            Event::Reset { stream, .. } => connection.release(stream),
            _ => {}
        }
        at += used;
    }
});
