//! A call of gRPC that has a stream of messages, in one direction or in both.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;
use tokio::sync::Notify;

use super::{Completed, KEEP, field_bytes, send};
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
) -> Result<Completed, Broken> {
    if method.takes_stream && method.returns_stream {
        let talk = Talk::default();
        let seen = tokio::select! {
            biased;
            seen = receive(method, response, keep_body, Some(&talk)) => seen,
            () = talk.send(&mut request, messages) => unreachable!("it never completes"),
        };
        let (mut seen, pings) = (seen?, talk.pings.take());
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
    let receive = receive(method, response, keep_body, None);
    let mut seen = tokio::select! {
        seen = receive => seen?,
        () = send_all => unreachable!("it never completes"),
    };
    seen.stream.sent = sent.get();
    Ok(seen.judge(method))
}

/// A call in both directions. What comes is read also while a message waits for room: a server may have ended the call already.
#[derive(Default)]
struct Talk {
    pings: RefCell<Pings>,
    news: Notify,
}

/// The messages of such a call.
#[derive(Default)]
struct Pings {
    /// Messages of which the first byte was sent, and those that were sent whole.
    begun: u64,
    sent: u64,
    begun_at: u64,
    received: u64,
    round_trips: Vec<u64>,
}

impl Pings {
    fn is_waiting(&self) -> bool {
        (self.round_trips.len() as u64) < self.begun
    }

    /// The message that is in flight may have its response.
    fn look(&mut self) {
        if self.is_waiting() && self.received >= self.begun {
            self.round_trips.push(clock::now().saturating_sub(self.begun_at));
        }
    }
}

impl Talk {
    /// Sends each message when the one before it has its response. Never completes: the response says when the call is over.
    async fn send(&self, request: &mut SendStream<Bytes>, messages: impl Iterator<Item = Bytes>) {
        for message in messages {
            {
                let mut pings = self.pings.borrow_mut();
                (pings.begun, pings.begun_at) = (pings.begun + 1, clock::now());
            }
            // A server that has ended the call already says why in its response.
            if send(request, message, false).await.is_err() {
                return std::future::pending().await;
            }
            {
                let mut pings = self.pings.borrow_mut();
                pings.sent += 1;
                pings.look();
            }
            while self.pings.borrow().is_waiting() {
                self.news.notified().await;
            }
        }
        let _ = request.send_data(Bytes::new(), true);
        std::future::pending::<()>().await;
    }

    /// So many messages have come.
    fn received(&self, received: u64) {
        let mut pings = self.pings.borrow_mut();
        pings.received = received;
        pings.look();
        self.news.notify_one();
    }
}

/// What was seen of a response.
struct Seen {
    responses: Completed,
    stream: CallStream,
}

impl Seen {
    fn judge(mut self, method: &Method) -> Completed {
        if self.responses.response.status == OK {
            let stream = &mut self.stream;
            let (messages, responses) = (u64::from(method.messages), u64::from(method.responses));
            stream.is_short = stream.sent < messages || method.returns_stream && stream.received < responses;
            if stream.is_short {
                let (sent, received) = (stream.sent, stream.received);
                let why = format!(
                    "OK after {sent} messages sent and {received} received; {messages} were to be sent, and at least {responses} received"
                );
                self.responses.why = Some(why);
            }
            self.responses.stream = Some(self.stream);
        }
        self.responses
    }
}

async fn receive(
    method: &Method,
    response: ResponseFuture,
    keep_body: bool,
    talk: Option<&Talk>,
) -> Result<Seen, Broken> {
    let (head, mut stream) = response.await.map_err(Broken::Connection)?.into_parts();
    let (status, is_complete) = (head.status.as_u16(), stream.is_end_stream());
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
        if let Some(talk) = talk {
            talk.received(seen.received);
        }
    }
    let trailers = stream.trailers().await.map_err(Broken::Connection)?;
    bytes += trailers.as_ref().map_or(0, field_bytes) as u64;
    let done = clock::now();
    let end = if is_complete { Some(&head.headers) } else { trailers.as_ref() };
    let counted = if method.returns_stream {
        Method::stream_status(status, &head.headers, end)
    } else {
        seen.received = 1;
        let counted = method.status(status, &head.headers, end, &body);
        counted.ok_or_else(|| Broken::Message("OK without exactly one valid message".to_owned()))?
    };
    if counted == OK && !frames.is_whole() {
        return Err(Broken::Message("the response ended with OK in the middle of a message".to_owned()));
    }
    let why = (counted != OK).then(|| method.why(counted, &head.headers, end));
    let response = Response { done, status: counted, bytes, marked: false, stream: None };
    Ok(Seen { responses: Completed { response, fields: head.headers, body, why, stream: None }, stream: seen })
}
