//! A call of gRPC that has a stream of messages, in one direction or in both.

use std::cell::Cell;

use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;

use super::{Answered, KEEP, field_bytes, send};
use crate::load::engine::clock;
use crate::load::engine::recorder::{CallStream, Response};
use crate::load::grpc::{Frames, Method, OK};

/// Why a call has no response.
pub(super) enum Broken {
    Connection(h2::Error),
    /// What is wrong with its messages.
    Message(String),
}

/// Sends the messages of a call and reads what comes. Where the method returns a stream too, one message is in flight: the next is sent when as many have
/// come back as were sent.
pub(super) async fn stream(
    method: &Method,
    response: ResponseFuture,
    mut request: SendStream<Bytes>,
    mut messages: impl Iterator<Item = Bytes>,
    keep_body: bool,
) -> Result<Answered, Broken> {
    if method.takes_stream && method.returns_stream {
        let mut pings = Pings { request, messages, sent: 0, sent_at: 0, is_closed: false, round_trips: Vec::new() };
        pings.next().await;
        let mut seen = receive(method, response, keep_body, Some(&mut pings)).await?;
        seen.stream.sent = pings.sent;
        seen.stream.round_trips = pings.round_trips;
        return Ok(seen.judge(method));
    }
    let sent = Cell::new(0);
    let send_all = async {
        let mut next = messages.next();
        while let Some(message) = next {
            next = messages.next();
            // A server that has ended the call already says why in its response.
            if send(&mut request, message, next.is_none()).await.is_err() {
                break;
            }
            sent.set(sent.get() + 1);
        }
        std::future::pending::<()>().await;
    };
    let receive = receive(method, response, keep_body, None::<&mut Pings<std::iter::Empty<Bytes>>>);
    let mut seen = tokio::select! {
        seen = receive => seen?,
        () = send_all => unreachable!("it never completes"),
    };
    seen.stream.sent = sent.get();
    Ok(seen.judge(method))
}

/// The messages of a call in both directions.
struct Pings<M> {
    request: SendStream<Bytes>,
    messages: M,
    sent: u64,
    sent_at: u64,
    is_closed: bool,
    round_trips: Vec<u64>,
}

impl<M: Iterator<Item = Bytes>> Pings<M> {
    async fn next(&mut self) {
        let Some(message) = self.messages.next() else {
            self.is_closed = true;
            // A server may have ended the call meanwhile.
            let _ = self.request.send_data(Bytes::new(), true);
            return;
        };
        self.sent_at = clock::now();
        match send(&mut self.request, message, false).await {
            Ok(()) => self.sent += 1,
            Err(_) => self.is_closed = true,
        }
    }

    /// So many messages have come.
    async fn received(&mut self, received: u64) {
        while !self.is_closed && received >= self.sent {
            self.round_trips.push(clock::now().saturating_sub(self.sent_at));
            self.next().await;
        }
    }
}

/// What was seen of a response.
struct Seen {
    answered: Answered,
    stream: CallStream,
}

impl Seen {
    fn judge(mut self, method: &Method) -> Answered {
        if self.answered.response.status == OK {
            let stream = &mut self.stream;
            let (messages, responses) = (u64::from(method.messages), u64::from(method.responses));
            stream.is_short = stream.sent < messages || method.returns_stream && stream.received < responses;
            if stream.is_short {
                let (sent, received) = (stream.sent, stream.received);
                let why = format!(
                    "OK after {sent} messages sent and {received} received; {messages} were to be sent, and at least {responses} received"
                );
                self.answered.why = Some(why);
            }
            self.answered.stream = Some(self.stream);
        }
        self.answered
    }
}

async fn receive<M: Iterator<Item = Bytes>>(
    method: &Method,
    response: ResponseFuture,
    keep_body: bool,
    mut pings: Option<&mut Pings<M>>,
) -> Result<Seen, Broken> {
    let (head, mut stream) = response.await.map_err(Broken::Connection)?.into_parts();
    let status = head.status.as_u16();
    let mut bytes = field_bytes(&head.headers) as u64;
    let (mut body, mut frames, mut seen) = (Vec::new(), Frames::default(), CallStream::default());
    while let Some(data) = stream.data().await {
        let data = data.map_err(Broken::Connection)?;
        bytes += data.len() as u64;
        let _ = stream.flow_control().release_capacity(data.len());
        if keep_body && body.len() < KEEP {
            body.extend_from_slice(&data);
        }
        // What an intermediary sends with another status is no message.
        if !method.returns_stream || status != 200 {
            continue;
        }
        let mut is_valid = true;
        let taken = frames.data(&data, |message| {
            seen.received += 1;
            is_valid &= method.returns(message);
        });
        taken.map_err(Broken::Message)?;
        if !is_valid {
            return Err(Broken::Message("a message is not one that the method returns".to_owned()));
        }
        if seen.first == 0 && seen.received > 0 {
            seen.first = clock::now();
        }
        if let Some(pings) = &mut pings {
            pings.received(seen.received).await;
        }
    }
    let trailers = stream.trailers().await.map_err(Broken::Connection)?;
    bytes += trailers.as_ref().map_or(0, field_bytes) as u64;
    let done = clock::now();
    let counted = if method.returns_stream {
        Method::stream_status(status, &head.headers, trailers.as_ref())
    } else {
        seen.received = 1;
        let counted = method.status(status, &head.headers, trailers.as_ref(), &body);
        counted.ok_or_else(|| Broken::Message("OK without exactly one valid message".to_owned()))?
    };
    if counted == OK && !frames.is_whole() {
        return Err(Broken::Message("the response ended with OK in the middle of a message".to_owned()));
    }
    let why = (counted != OK).then(|| method.why(counted, &head.headers, trailers.as_ref()));
    let response = Response { done, status: counted, bytes, marked: false, stream: None };
    Ok(Seen { answered: Answered { response, fields: head.headers, body, why, stream: None }, stream: seen })
}
