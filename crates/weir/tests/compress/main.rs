//! Compression of responses: which are compressed, what their heads say, and that every decoder reads the upstream's bytes.

mod bodies;
mod cached;
#[path = "../http2/client.rs"]
#[allow(dead_code)]
mod client;
mod heads;
mod neighbours;
mod streams;

use std::io::Read;

use testkit::{Message, Upstream, Weir};

/// A body that is worth compressing.
fn text(length: usize) -> Vec<u8> {
    b"All work and no play makes Jack a dull boy. ".iter().copied().cycle().take(length).collect()
}

/// A gateway for both protocols. `top` and `route` are more lines of the file.
fn gateway_with(upstream: &Upstream, top: &str, route: &str) -> Weir {
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(config(upstream, top, route)).start()
}

fn config(upstream: &Upstream, top: &str, route: &str) -> String {
    format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\n{top}upstreams:\n  u: {{targets: [{}], eject: none, retry: none}}\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n{route}",
        upstream.url()
    )
}

/// A gateway whose one route compresses.
fn gateway(upstream: &Upstream) -> Weir {
    gateway_with(upstream, "", "    compress: [zstd, br, gzip]\n")
}

/// What a coded body holds; less than all of it where it is not complete. No coding: as it is.
fn decode(coding: Option<&str>, coded: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut from: Box<dyn Read + '_> = match coding {
        None => return coded.to_vec(),
        Some("br") => Box::new(brotli::Decompressor::new(coded, 4096)),
        Some("gzip") => Box::new(flate2::read::GzDecoder::new(coded)),
        Some("zstd") => return decode_zstd(coded),
        Some(other) => panic!("a coding that nobody offered: {other}"),
    };
    let mut piece = vec![0; 4096];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        body.extend_from_slice(&piece[..count]);
    }
    body
}

fn decode_zstd(coded: &[u8]) -> Vec<u8> {
    let (mut body, mut context, mut input) =
        (Vec::new(), zstd_safe::DCtx::create(), zstd_safe::InBuffer::around(coded));
    loop {
        let mut piece = Vec::with_capacity(4096);
        let result = context.decompress_stream(&mut zstd_safe::OutBuffer::around(&mut piece), &mut input);
        body.extend_from_slice(&piece);
        if result.is_err() || (piece.is_empty() && input.pos() == coded.len()) {
            return body;
        }
    }
}

/// The coding of a response.
fn coding(response: &Message) -> Option<&str> {
    response.field("content-encoding")
}

/// A GET with some fields.
fn get(weir: &Weir, fields: &[(&str, &str)]) -> Message {
    weir.request("GET", "/x", fields, "")
}
