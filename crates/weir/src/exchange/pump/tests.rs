use std::pin::Pin;
use std::task::Waker;

use h1::BodyKind;
use tokio::io::ReadBuf;

use super::*;

/// A source that has nothing more to say.
struct Silent;

impl AsyncRead for Silent {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// A sink that takes so many bytes and then none, or fails.
struct Takes {
    room: usize,
    fails: bool,
}

impl AsyncWrite for Takes {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        match (taken, self.fails) {
            (0, true) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            (0, false) => Poll::Pending,
            _ => Poll::Ready(Ok(taken)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A buffer with these bytes, none of them consumed.
fn buffer_of(bytes: &[u8]) -> Buffer {
    let mut buffer = Buffer::of(bytes);
    buffer.seek(0);
    buffer
}

fn body_of(kind: BodyKind, length: usize) -> Vec<u8> {
    match kind {
        BodyKind::Chunked => {
            let mut body = Vec::new();
            for size in [length / 3, length - length / 3].into_iter().filter(|size| *size > 0) {
                body.extend_from_slice(format!("{size:x};ext=1\r\n").as_bytes());
                body.extend(std::iter::repeat_n(b'b', size));
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
            body
        }
        _ => vec![b'b'; length],
    }
}

/// Rule 25: wherever a sink stops or breaks, and however much of the body had come by then, the next request begins behind the body's last
/// byte. The sizes are on both sides of what is copied and what is forwarded as it lies.
#[test]
fn what_follows_a_body_begins_behind_it_wherever_forwarding_stopped() {
    let next = b"GET /next HTTP/1.1\r\n\r\n";
    for length in [1, 5, COPIED - 1, COPIED, COPIED + 1, COPIED * 2 + 5] {
        for kind in [BodyKind::Length(length as u64), BodyKind::Chunked] {
            let body = body_of(kind, length);
            let all = [&body[..], next].concat();
            for came in [0, 1, 4, body.len() / 2, body.len() - 1, body.len(), all.len()] {
                for room in [0, 1, length / 2, length.saturating_sub(1), length, length * 2 + 64] {
                    for fails in [false, true] {
                        let what = format!("{kind:?}, {came} bytes came, {room} were taken, fails: {fails}");
                        let mut buffer = buffer_of(&all[..came]);
                        let mut pump = Pump::new(kind, kind, None);
                        let mut out = Outgoing::default();
                        let mut cx = Context::from_waker(Waker::noop());
                        let mut sink = Takes { room, fails };
                        let buffers = Buffers::new();
                        let source = (&mut Silent, &mut buffer, 0);
                        let poll = pump.poll(&mut cx, &buffers, source, (&mut sink, &mut out), &mut false);
                        let is_complete = matches!(poll, Poll::Ready(Ok(())));
                        let at_end = pump.skip(&mut buffer).unwrap();
                        assert_eq!(at_end, came >= body.len(), "{what}");
                        assert!(at_end || !is_complete, "{what}");
                        let behind = &all[came.min(body.len())..came];
                        assert!(buffer.filled() == behind, "{what}: {} bytes are left", buffer.filled().len());
                        // What comes later is decoded from where the decoder stands.
                        let mut later = buffer_of(&all[came..]);
                        assert!(pump.skip(&mut later).unwrap(), "{what}");
                        assert!(later.filled().len() >= next.len().min(all.len() - came), "{what}");
                        assert!(next.ends_with(later.filled()), "{what}");
                        assert!(pump.bytes == length as u64, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_body_is_sent_again_only_while_all_of_it_is_there() {
    let buffers = Buffers::new();
    let mut cx = Context::from_waker(Waker::noop());
    for (came, is_whole) in [(5, true), (4, false)] {
        let mut buffer = buffer_of(&b"first"[..came]);
        let mut pump = Pump::new(BodyKind::Length(5), BodyKind::Length(5), None);
        let mut out = Outgoing::default();
        let mut sink = Takes { room: 100, fails: false };
        let source = (&mut Silent, &mut buffer, 0);
        let poll = pump.poll(&mut cx, &buffers, source, (&mut sink, &mut out), &mut false);
        assert_eq!(poll.is_ready(), is_whole);
        assert_eq!(pump.restart(&mut buffer, 0, None), is_whole, "a read comes after the buffer was made free");
        if is_whole {
            let mut sent = Outgoing::default();
            pump.take(&mut buffer, &mut sent).unwrap();
            assert_eq!((&sent.bytes[..], pump.has_read_all()), (&b"first"[..], true));
        }
    }
}

#[test]
fn a_body_above_the_limit_leaves_the_decoder_where_the_buffer_is() {
    let mut buffer = buffer_of(b"bodybodyGET / HTTP/1.1\r\n\r\n");
    let mut pump = Pump::new(BodyKind::Length(8), BodyKind::Length(8), Some(4));
    assert!(matches!(pump.take(&mut buffer, &mut Outgoing::default()), Err(PumpError::TooLarge)));
    assert!(pump.skip(&mut buffer).unwrap());
    assert_eq!(buffer.filled(), b"GET / HTTP/1.1\r\n\r\n");
}

#[test]
fn a_body_that_breaks_a_rule_has_no_end() {
    let mut buffer = buffer_of(b"3\r\nabcdef\r\n0\r\n\r\n");
    let mut pump = Pump::new(BodyKind::Chunked, BodyKind::Chunked, None);
    assert!(matches!(pump.take(&mut buffer, &mut Outgoing::default()), Err(PumpError::Parse(_))));
    assert!(pump.skip(&mut buffer).is_err() && pump.skip(&mut buffer).is_err());
}

/// A piece may be far larger than what a slow reader takes before a deadline.
#[test]
fn any_byte_that_the_sink_takes_is_progress() {
    let buffers = Buffers::new();
    let mut cx = Context::from_waker(Waker::noop());
    for kind in [BodyKind::Length(100_000), BodyKind::Chunked] {
        let mut buffer = buffer_of(&body_of(kind, 100_000));
        let mut pump = Pump::new(kind, kind, None);
        let mut out = Outgoing::default();
        for room in [1, 0, 1, 1000, 0] {
            let mut progress = false;
            let mut sink = Takes { room, fails: false };
            let poll =
                pump.poll(&mut cx, &buffers, (&mut Silent, &mut buffer, 0), (&mut sink, &mut out), &mut progress);
            assert!(poll.is_pending() && pump.waits_for_sink(&out));
            assert_eq!(progress, room > 0, "{kind:?}: {room} bytes were taken");
        }
    }
}

/// Coding takes time that other exchanges of the worker wait for.
#[test]
fn one_call_codes_a_bounded_piece_and_the_next_one_goes_on() {
    let buffers = Buffers::new();
    let mut cx = Context::from_waker(Waker::noop());
    let mut buffer = buffer_of(&body_of(BodyKind::Chunked, 100_000));
    let mut pump = Pump::new(BodyKind::Chunked, BodyKind::Chunked, None);
    let rules = crate::config::Compression {
        codings: vec![::compress::Coding::Gzip],
        levels: [3, 5, 5],
        min_bytes: 0,
        types: ::compress::MediaTypes::default(),
        with_set_cookie: false,
    };
    let encoder = crate::policy::compress::Memory::default().encoder(&rules, ::compress::Coding::Gzip, None).unwrap();
    pump.code(Some(Box::new(Coder::new(encoder))));
    let (mut out, mut sink) = (Outgoing::default(), Takes { room: usize::MAX, fails: false });
    let mut rounds = Vec::new();
    loop {
        let before = pump.bytes;
        let mut progress = false;
        let poll = pump.poll(&mut cx, &buffers, (&mut Silent, &mut buffer, 0), (&mut sink, &mut out), &mut progress);
        rounds.push(pump.bytes - before);
        assert!(progress && !pump.waits_for_sink(&out));
        if poll.is_ready() {
            break;
        }
    }
    let queue_entry = BYTES_AT_ONCE as u64;
    assert_eq!(rounds, [queue_entry, queue_entry, queue_entry, 100_000 - 3 * queue_entry]);
    assert!(pump.sent_bytes() < 100_000 && pump.has_read_all());
}

/// A source that always has as many chunks of one byte as fit.
struct TinyChunks {
    bytes: u64,
}

impl AsyncRead for TinyChunks {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while buffer.remaining() >= 6 {
            buffer.put_slice(b"1\r\nx\r\n");
            self.bytes += 1;
        }
        Poll::Ready(Ok(()))
    }
}

/// Nor may anyone keep a worker with chunks that cost more than they carry.
#[test]
fn a_body_in_tiny_chunks_does_not_starve_others() {
    let buffers = Buffers::new();
    let mut cx = Context::from_waker(Waker::noop());
    let mut source = TinyChunks { bytes: 0 };
    let mut buffer = buffer_of(b"");
    let mut pump = Pump::new(BodyKind::Chunked, BodyKind::Chunked, None);
    let (mut out, mut sink) = (Outgoing::default(), Takes { room: usize::MAX, fails: false });
    for queue_entry in 1..10 {
        let before = pump.bytes;
        let mut progress = false;
        let poll = pump.poll(&mut cx, &buffers, (&mut source, &mut buffer, 0), (&mut sink, &mut out), &mut progress);
        assert!(poll.is_pending() && progress && !pump.waits_for_sink(&out));
        let taken = pump.bytes - before;
        assert!((1..=u64::from(EVENTS) + LARGE as u64 / 6).contains(&taken), "turn {queue_entry}: {taken} chunks");
        assert_eq!(pump.bytes, source.bytes);
    }
}
