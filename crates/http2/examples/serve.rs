//! A small HTTP/2 server in clear text, one thread per connection, for h2spec: `serve 127.0.0.1:8080`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use http2::{Config, Connection, Event, Head};
use message::Known;

const BODY: &[u8] = b"hello from the codec\n";

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    for stream in TcpListener::bind(address)?.incoming() {
        let stream = stream?;
        std::thread::spawn(move || drop(serve(stream)));
    }
    Ok(())
}

fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    let start = Instant::now();
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.set_nodelay(true)?;
    let mut connection = Connection::server(Config::default(), 0);
    let (mut head, mut input, mut buffer) = (Head::default(), Vec::new(), vec![0; 32 * 1024]);
    // Stream and bytes of the body sent.
    let mut responses: Vec<(u32, usize)> = Vec::new();
    loop {
        let (mut at, mut is_closing) = (0, false);
        connection.begin_iteration();
        loop {
            let now_ms = start.elapsed().as_millis() as u64;
            let Ok((used, event)) = connection.decode(&input[at..], &mut head, now_ms) else {
                is_closing = true;
                break;
            };
            at += used;
            match event {
                Event::NeedMore => break,
                Event::Flush => flush(&mut connection, &mut socket)?,
                Event::Yield => connection.begin_iteration(),
                Event::Data { stream, range, end } => {
                    connection.consume(stream, range.len());
                    if end {
                        respond(&mut connection, stream, &mut responses);
                    }
                }
                Event::Request { stream, end: true } | Event::Trailers { stream } => {
                    respond(&mut connection, stream, &mut responses);
                }
                Event::Reset { stream, .. } => {
                    responses.retain(|response| response.0 != stream);
                    connection.release(stream);
                }
                _ => {}
            }
        }
        input.drain(..at.min(input.len()));
        for (stream, sent) in &mut responses {
            while *sent < BODY.len() {
                match connection.send_data(*stream, &BODY[*sent..], true) {
                    Ok(0) => break,
                    Ok(length) => *sent += length,
                    Err(_) => *sent = BODY.len(),
                }
            }
            if *sent == BODY.len() {
                connection.release(*stream);
            }
        }
        responses.retain(|response| response.1 < BODY.len());
        flush(&mut connection, &mut socket)?;
        if is_closing || connection.is_finished() {
            return Ok(());
        }
        let length = socket.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..length]);
    }
}

fn respond(connection: &mut Connection, stream: u32, responses: &mut Vec<(u32, usize)>) {
    let length = BODY.len().to_string();
    let fields = [(Known::ContentLength, &b"content-length"[..], length.as_bytes())];
    if connection.send_response(stream, 200, fields.into_iter(), false).is_ok() {
        responses.push((stream, 0));
    }
}

fn flush(connection: &mut Connection, socket: &mut TcpStream) -> std::io::Result<()> {
    socket.write_all(connection.output())?;
    let length = connection.output().len();
    connection.advance(length);
    Ok(())
}
