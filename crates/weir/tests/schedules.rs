//! The fuzzer's schedules as tests: every input that it starts from, every one that once broke something, and random ones. Here time passes in
//! earnest, so that timeouts are short and few.

#[allow(unreachable_pub)]
#[path = "../fuzz/src/exchange/mod.rs"]
mod exchange;

use std::path::Path;

use exchange::Lab;

/// Random schedules of a run.
const RANDOM: u64 = 100;

#[test]
fn every_schedule_of_the_corpus_keeps_the_invariants() {
    let lab = Lab::default();
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let mut files = Vec::new();
    for folder in ["corpus/exchange", "artifacts/exchange"] {
        let Ok(entries) = std::fs::read_dir(fuzz.join(folder)) else { continue };
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    assert!(files.len() >= 10, "the target has a corpus");
    files.sort();
    for file in files {
        println!("{}", file.display());
        lab.run(&std::fs::read(&file).unwrap());
    }
}

#[test]
fn random_schedules_keep_the_invariants() {
    let lab = Lab::default();
    let (mut responses, mut forwarded) = (0, 0);
    for seed in 1..=RANDOM {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        let length = 12 + usize::from(random()) % 60;
        let input: Vec<u8> = (0..length).map(|_| random()).collect();
        println!("schedule {seed}");
        let outcome = lab.run(&input);
        responses += outcome.responses;
        forwarded += outcome.forwarded;
    }
    println!("{RANDOM} schedules: {forwarded} requests reached an upstream, {responses} responses the client");
    assert!(forwarded as u64 > RANDOM / 4 && responses as u64 > RANDOM / 4, "the schedules lead nowhere");
}

/// Review A10: event streams and tunnels are not requests that wait for a response.
#[test]
fn a_request_waits_until_its_response_begins() {
    let lab = Lab::default();
    let get = "GET /once/0 HTTP/1.1\r\nHost: a\r\n\r\n";
    let websocket = "GET /once/0 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    for (request, response) in [
        (get, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n"),
        (get, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin"),
        (websocket, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
    ] {
        assert_eq!(
            lab.waiting(request, "HTTP/1.1 103 Early Hints\r\n\r\n"),
            (1, false),
            "nothing but an interim response"
        );
        assert_eq!(lab.waiting(request, response), (0, true), "{response}");
    }
    let cached = request_to("ttl");
    let kept = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin";
    assert_eq!(lab.waiting(&cached, kept), (0, true), "while the cache is filled");
}

fn request_to(route: &str) -> String {
    format!("GET /{route}/0 HTTP/1.1\r\nHost: a\r\n\r\n")
}
