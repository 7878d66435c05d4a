//! Bodies of POST, read ahead for their keys.

use std::future::poll_fn;

use h1::{BodyDecoder, BodyEvent, BodyKind};

use crate::client::downstream::Waited;
use crate::error::{Error, Reason};
use crate::exchange::{Exchange, proxy};
use crate::policy::cache::rules::key::BodyDigest;

/// Largest body of a POST that is read ahead for its key.
const KEYED_BODY: u64 = 64 * 1024;

/// Reads the body of a POST ahead, without using it up, for the key. `None` when it has no canonical form, or is large.
///
/// # Errors
/// The body cannot be read.
pub(super) async fn body_digest(x: &mut Exchange<'_>) -> Result<Option<BodyDigest>, Error> {
    let kind = x.scratch.request.body;
    if matches!(kind, BodyKind::Length(length) if length > KEYED_BODY) {
        return Ok(None);
    }
    if x.expects_continue() {
        proxy::send_continue(x).await?;
    }
    let start = x.down.buffer.start();
    let idle = x.snapshot.config().server.body_idle_timeout;
    loop {
        let mut body = Vec::new();
        match read_body(kind, x.down.buffer.filled(), &mut body)? {
            Ahead::Whole => return Ok(BodyDigest::of(&body, &mut x.scratch.key.canonical).ok()),
            Ahead::TooLarge => return Ok(None),
            Ahead::NeedsMore => {}
        }
        x.down.deadline.set(idle);
        let waited = poll_fn(|cx| x.down.poll_fill(cx, &x.worker.buffers)).await;
        debug_assert_eq!(start, x.down.buffer.start(), "what is read ahead stays");
        match waited {
            Waited::Bytes => {}
            Waited::Closed => return Err(Reason::ClientDisconnected.into()),
            Waited::Late => return Err(Reason::BodyTimeout.into()),
        }
    }
}

enum Ahead {
    Whole,
    NeedsMore,
    TooLarge,
}

fn read_body(kind: BodyKind, mut input: &[u8], body: &mut Vec<u8>) -> Result<Ahead, Error> {
    // Chunk framing may be several times the data.
    if input.len() as u64 > KEYED_BODY * 2 {
        return Ok(Ahead::TooLarge);
    }
    let mut decoder = BodyDecoder::new(kind);
    loop {
        let (consumed, event) = decoder.decode(input).map_err(|error| Error::new(Reason::BadRequest, error.text()))?;
        match event {
            BodyEvent::Data(range) => body.extend_from_slice(&input[range]),
            BodyEvent::NeedMore => return Ok(Ahead::NeedsMore),
            BodyEvent::End => return Ok(Ahead::Whole),
        }
        if body.len() as u64 > KEYED_BODY {
            return Ok(Ahead::TooLarge);
        }
        input = &input[consumed..];
    }
}
