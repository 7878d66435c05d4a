//! HTTP/2 connections of clients. One task owns a connection: its socket, its codec, and a slot for each stream. A stream runs the same exchange as
//! a request of HTTP/1.1 does, over a [`Pipe`] in memory: the task writes the request in HTTP/1.1 from the fields that the codec has validated
//! ([`request`]), and turns the response into frames ([`response`]). The life of a connection is described in `LIFECYCLE.md` beside this file.

mod driver;
mod request;
mod response;
mod slots;

use std::rc::Rc;

use crate::client::downstream::Downstream;
use crate::config::Server;
use crate::downstream::http1;
use crate::io::stream::Stream;
use crate::runtime::deadline::nanos;
use crate::streams::pipe::Pipe;
use crate::worker::Worker;
use driver::Driver;
use slots::Spares;

/// Serves a connection whose client speaks HTTP/2; `down.buffer` may hold the first bytes.
pub async fn serve(worker: Rc<Worker>, down: Downstream) {
    let (client, origin) = (down.client.clone(), down.origin.clone());
    let of_streams = worker.clone();
    let make = move |pipe: &Pipe| {
        http1::serve_one(of_streams.clone(), Stream::Http2(pipe.clone()), client.clone(), origin.clone())
    };
    let spares = spares(&worker, &make);
    let mut driver = Driver::new(worker, down, spares, make);
    std::future::poll_fn(|cx| driver.poll(cx)).await;
    driver.end();
}

/// The worker's free slots for streams whose exchanges `make` makes; the type of an exchange has no name.
fn spares<F: Future<Output = ()> + 'static>(worker: &Worker, _make: &impl Fn(&Pipe) -> F) -> Rc<Spares<F>> {
    let known = worker.http2_slots.borrow().clone();
    known.and_then(|known| known.downcast().ok()).unwrap_or_else(|| {
        let spares = Rc::<Spares<F>>::default();
        *worker.http2_slots.borrow_mut() = Some(spares.clone());
        spares
    })
}

/// The limits of a connection.
fn codec_config(server: &Server, requests_left: u32, offers_websocket: bool) -> ::http2::Config {
    let milliseconds = |time: Option<std::time::Duration>| time.map_or(u64::MAX / 4, |time| nanos(time) / 1_000_000);
    let http2 = &server.http2;
    ::http2::Config {
        max_concurrent_streams: http2.max_concurrent_streams,
        stream_window: http2.stream_window,
        connection_window: http2.connection_window,
        section: server.head_bytes,
        block: server.head_bytes / 2,
        // The two that HTTP/1.1 adds: Host, and the framing.
        fields: server.fields + PSEUDO_FIELDS,
        head_timeout_ms: milliseconds(server.head_timeout),
        idle_timeout_ms: milliseconds(server.keep_alive),
        extended_connect: offers_websocket,
        max_streams: http2.max_requests.unwrap_or(1 << 30).min(requests_left),
        ..::http2::Config::default()
    }
}

/// Pseudo-fields of a request, which the codec counts among its fields.
const PSEUDO_FIELDS: usize = 5;
