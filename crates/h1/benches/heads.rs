//! What a head costs: `cargo bench -p h1`. Ten fields each, as a browser behind a load balancer sends them and as a small
//! JSON service sends.

use divan::{Bencher, black_box, counter::BytesCount};
use h1::{BodyDecoder, BodyEvent, BodyKind, HeadScanner, Limits, Method, RequestHead, ResponseHead};

fn main() {
    divan::main();
}

const REQUEST: &[u8] = b"GET /v1/models/small/completions?stream=true&limit=20 HTTP/1.1\r\n\
    Host: api.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: application/json, text/plain, */*\r\n\
    Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\
    X-Forwarded-For: 203.0.113.7\r\n\
    X-Request-Id: 5f0c8f6e-0e2f-4a4b-9b1e-3a7f0f4f7c11\r\n\
    Cache-Control: no-cache\r\n\
    Connection: keep-alive\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Date: Mon, 06 Jul 2026 09:00:00 GMT\r\n\
    Server: uvicorn\r\n\
    Content-Type: application/json; charset=utf-8\r\n\
    Content-Length: 128\r\n\
    Cache-Control: public, max-age=60\r\n\
    ETag: \"33a64df551425fcc55e4d42a148795d9f25f89d4\"\r\n\
    Vary: Accept-Encoding, Origin\r\n\
    X-Request-Id: 5f0c8f6e-0e2f-4a4b-9b1e-3a7f0f4f7c11\r\n\
    X-Process-Time: 0.0004\r\n\
    Connection: keep-alive\r\n\r\n";

#[divan::bench]
fn request(bencher: Bencher<'_, '_>) {
    let limits = Limits::default();
    let mut scanner = HeadScanner::new();
    let mut head = RequestHead::default();
    bencher.counter(BytesCount::of_slice(REQUEST)).bench_local(|| {
        scanner.reset();
        let buf = black_box(REQUEST);
        let end = scanner.scan(buf, &limits).unwrap().unwrap();
        head.parse(buf, 0, end, &limits).unwrap();
        head.fields.len()
    });
}

#[divan::bench]
fn response(bencher: Bencher<'_, '_>) {
    let limits = Limits::default();
    let mut scanner = HeadScanner::new();
    let mut head = ResponseHead::default();
    bencher.counter(BytesCount::of_slice(RESPONSE)).bench_local(|| {
        scanner.reset();
        let buf = black_box(RESPONSE);
        let end = scanner.scan(buf, &limits).unwrap().unwrap();
        head.parse(buf, 0, end, Method::Get, &limits).unwrap();
        head.fields.len()
    });
}

#[divan::bench]
fn scan_request(bencher: Bencher<'_, '_>) {
    let limits = Limits::default();
    let mut scanner = HeadScanner::new();
    bencher.counter(BytesCount::of_slice(REQUEST)).bench_local(|| {
        scanner.reset();
        scanner.scan(black_box(REQUEST), &limits).unwrap().unwrap()
    });
}

/// A chunked body of a hundred pieces, each of 64 bytes: the shape of a token stream.
#[divan::bench]
fn chunked_body(bencher: Bencher<'_, '_>) {
    let mut body = Vec::new();
    for _ in 0..100 {
        h1::encode::chunk(&mut body, &[b'x'; 64]);
    }
    h1::encode::last_chunk(&mut body);
    bencher.counter(BytesCount::of_slice(&body)).bench_local(|| {
        let mut decoder = BodyDecoder::new(BodyKind::Chunked);
        let (mut at, mut data) = (0, 0);
        loop {
            let (consumed, event) = decoder.decode(&black_box(&body)[at..]).unwrap();
            at += consumed;
            match event {
                BodyEvent::Data(range) => data += range.len(),
                BodyEvent::End | BodyEvent::NeedMore => return data,
            }
        }
    });
}
