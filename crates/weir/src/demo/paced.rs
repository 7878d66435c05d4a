//! A response whose pieces are sent when they are due, for as long as the client is there.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::load::LoadSlot;

/// What is sent, with the time after admission when it is due; ascending.
type Pieces = Box<dyn Iterator<Item = (Duration, Bytes)> + Send>;

/// Waits for the first piece; status and fields go with it. hyper drops this future, or the body, when the client has
/// gone, and with it the place.
pub(super) async fn response(
    place: LoadSlot,
    pieces: impl Iterator<Item = (Duration, Bytes)> + Send + 'static,
    content_type: &'static str,
    length: Option<u64>,
) -> Response<Body> {
    let start = Instant::now();
    let mut pieces: Pieces = Box::new(pieces);
    let next = pieces.next();
    let due = start + next.as_ref().map_or(Duration::ZERO, |(due, _)| *due);
    tokio::time::sleep_until(due).await;
    let body = Paced { start, pieces, next, left: length, timer: Box::pin(sleep_until(due)), place: Some(place) };
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

struct Paced {
    start: Instant,
    pieces: Pieces,
    next: Option<(Duration, Bytes)>,
    /// Bytes that are left, of a response that says its length.
    left: Option<u64>,
    /// Rings when `next` is due.
    timer: Pin<Box<Sleep>>,
    place: Option<LoadSlot>,
}

impl hyper::body::Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.next.is_none() {
            return Poll::Ready(None);
        }
        ready!(self.timer.as_mut().poll(cx));
        let Some((_, piece)) = self.next.take() else { return Poll::Ready(None) };
        self.next = self.pieces.next();
        match &self.next {
            Some((due, _)) => {
                let due = self.start + *due;
                self.timer.as_mut().reset(due);
            }
            None => {
                if let Some(place) = self.place.take() {
                    place.done();
                }
            }
        }
        self.left = self.left.map(|left| left - piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
