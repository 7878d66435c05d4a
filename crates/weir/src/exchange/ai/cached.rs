//! A call on a route with a cache: served from it, with the response of an equal call in flight, or by a call that others may join.
//!
//! ```text
//! key -- none (`cache_key.rs`: random, with state, `no-store`, an unknown tenant) ----> as without a cache
//!   | look up
//!   +-- stored, in memory or in Redis ----------------> replayed; nothing is reserved or charged
//!   +-- an equal call is in flight -------------------> join: everything from the start, then what comes as it comes
//!   |        failed before it began: look again (a few times; an error is shared the second time)
//!   `-- none is --------------------------------------> lead: tokens are reserved, the call is made by an exchange of its own (`shared.rs`),
//!                                                       and this one reads from it as all others do
//! ```
//!
//! What is stored is decided in `storable.rs`.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use h1::{BodyKind, Version, encode};
use llm::error::ApiError;

use super::super::cached::tell;
use super::super::stall::Stall;
use super::super::{Exchange, SendState};
use super::cache_key::key_of;
use super::candidates::pause;
use super::guard::Text;
use super::heartbeat::{self, Heartbeat};
use super::problem::Stop;
use super::{Call, budget, guard, request, shared};
use crate::error::{Error, Reason};
use crate::policy::ai::Held;
use crate::policy::ai::metrics::{CacheResult, Moment};
use crate::policy::cache::RouteCache;
use crate::policy::cache::calls::{CallLead, Refusal, client_lines};
use crate::policy::cache::entry::{Entry, Head};
use crate::policy::cache::fill::{Piece, Progress, Reader};
use crate::policy::cache::key::KeyRef;
use crate::policy::cache::recording::{Part, Player};
use crate::policy::cache::rules::status::{self, Outcome};
use crate::policy::cache::rules::{Freshness, Fwd};
use crate::policy::limit::budget::Reservation;
use crate::runtime::clock;

/// A request waits for so many calls of others that come to nothing; then it makes its own.
const MOST_WAITS: u32 = 3;
/// Bytes for the client that are put together before they are written.
const WRITTEN: usize = 64 * 1024;
/// Longest pause between two pieces that are replayed as they came.
const LONGEST_PAUSE_MS: u32 = 100;
/// How long the line of a client that has disconnected waits for the end of its call.
const END: Duration = Duration::from_secs(1);
/// How long a client waits behind the end of the time for a call, which it has made itself.
const GRACE_NS: u64 = 1_000_000_000;
/// What the gateway calls itself in `Cache-Status`.
const NAME: &[u8] = b"weir";

/// Serves a call on a route with a cache; `None`: it is made as without one.
pub(super) async fn run(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    cache: &Rc<RouteCache>,
    held: &mut Held,
) -> Option<Result<(), Stop>> {
    let mut heartbeat = Heartbeat::new(call);
    let result = look_up(x, call, cache, held, &mut heartbeat).await?;
    Some(heartbeat.finish(x, call, result).await)
}

async fn look_up(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    cache: &Rc<RouteCache>,
    held: &mut Held,
    heartbeat: &mut Heartbeat,
) -> Option<Result<(), Stop>> {
    let Some(key) = key_of(x, call, cache) else {
        cache.metrics.bypassed();
        note(x, call, CacheResult::Bypass);
        x.cache.told = Some(forwarded(Fwd::Bypass, None));
        return None;
    };
    let mut has_failed = false;
    for waits in 0.. {
        let key = KeyRef::of(&key);
        if let Some(entry) = cache.find_call(key) {
            return Some(hit(x, call, cache, &entry, heartbeat).await);
        }
        let reader = match CallLead::join(cache, key, &call.model.name) {
            Ok((lead, reader)) => {
                // The one before may have stored it between the two lines above.
                if let Some(entry) = cache.find_call(key) {
                    lead.found(entry.clone());
                    return Some(hit(x, call, cache, &entry, heartbeat).await);
                }
                return Some(self::lead(x, call, cache, (lead, reader), held, heartbeat).await);
            }
            Err(reader) => reader,
        };
        if waits == MOST_WAITS {
            break;
        }
        match follow(x, call, cache, &reader, heartbeat).await {
            Followed::Served(result) => return Some(result),
            Followed::CacheLookup(entry) => return Some(hit(x, call, cache, &entry, heartbeat).await),
            Followed::Failed(Some(error)) if has_failed => {
                miss(x, call, cache);
                return Some(Err(error.into()));
            }
            Followed::Failed(error) => has_failed |= error.is_some(),
        }
    }
    miss(x, call, cache);
    x.cache.told = Some(forwarded(Fwd::Miss, Some(false)));
    if call.has_own_exchange() {
        return Some(heartbeat::alone(x, call, held, heartbeat).await);
    }
    None
}

fn note(x: &mut Exchange<'_>, call: &Call<'_>, result: CacheResult) {
    x.log.cache = Some(result.name());
    call.snapshot.generation.ai.counters.cached(result);
}

fn miss(x: &mut Exchange<'_>, call: &Call<'_>, cache: &RouteCache) {
    cache.metrics.miss();
    note(x, call, CacheResult::Miss);
}

fn forwarded(why: Fwd, collapsed: Option<bool>) -> Outcome {
    Outcome::Forwarded { why, status: None, stored: false, collapsed }
}

/// Calls the provider, for this client and all that come until it has responded.
async fn lead(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    cache: &Rc<RouteCache>,
    (lead, reader): (CallLead, Reader),
    held: &mut Held,
    heartbeat: &mut Heartbeat,
) -> Result<(), Stop> {
    if cache.remote.is_some()
        && let Some(entry) = cache.get_call(lead.key()).await
    {
        lead.found(entry.clone());
        return hit(x, call, cache, &entry, heartbeat).await;
    }
    miss(x, call, cache);
    // Before others wait for it: the limits of another client may let the call pass.
    let reservation = budget::reserve(x, call).await?;
    serve(x, call, Some(cache), (lead, reader), reservation, held, heartbeat).await
}

/// Has a call made by an exchange of its own, and sends its response to the client that caused it.
///
/// # Errors
/// Why there is none.
pub(super) async fn serve(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    cache: Option<&Rc<RouteCache>>,
    (lead, reader): (CallLead, Reader),
    reservation: Option<Reservation>,
    held: &mut Held,
    heartbeat: &mut Heartbeat,
) -> Result<(), Stop> {
    let fill = lead.fill().clone();
    // The body is in memory until the call is over, and until this client has its response.
    let room = Rc::new(std::mem::replace(held, call.snapshot.generation.ai.hold()));
    let mut reported = shared::begin(x, call, lead, room.clone(), reservation)?;
    // The call ends by itself when it takes too long, and says so.
    let due = call.total_due.saturating_add(GRACE_NS);
    let started = progress(x, call, &reader, heartbeat, due).await;
    let has_begun = matches!(started, Ok(Started::Begun(_)));
    let served = match started {
        Ok(Started::Begun(head)) => {
            let outcome = forwarded(Fwd::UriMiss, None);
            deliver(x, call, cache, (&*head, &reader), outcome, heartbeat).await
        }
        Ok(Started::CacheLookup(entry)) => match cache {
            Some(cache) => return hit(x, call, cache, &entry, heartbeat).await,
            None => Err(Reason::SharedFetchFailed.into()),
        },
        // The report says why.
        Ok(Started::Failed(_)) => Err(Reason::SharedFetchFailed.into()),
        Err(error) => Err(error.into()),
    };
    drop(reader);
    let is_disconnected = served.as_ref().is_err_and(Stop::is_disconnected);
    let report = match is_disconnected {
        // The others have it to its end; this client's line does not wait.
        true if fill.readers() > 0 => None,
        true => tokio::time::timeout(END, &mut reported).await.ok().and_then(Result::ok),
        false => (&mut reported).await.ok(),
    };
    let Some(mut report) = report else { return served };
    report.note(x);
    // A call that this client has given up ends as one whose client has disconnected. This one has not.
    let told = report.result.err().filter(|told| !told.is_disconnected());
    match served {
        _ if is_disconnected => Err(Reason::ClientDisconnected.into()),
        Ok(()) => Ok(()),
        Err(stop) if has_begun => Err(told.unwrap_or(stop)),
        Err(stop) => match report.refusal.take() {
            Some(refusal) if heartbeat.refuse(x, call, &refusal).await? => Ok(()),
            Some(refusal) => send_refusal(x, call, cache.is_none(), &refusal).await,
            None => Err(told.unwrap_or(stop)),
        },
    }
}

/// Sends the provider's own response, which is an error.
async fn send_refusal(x: &mut Exchange<'_>, call: &Call<'_>, tells: bool, refusal: &Refusal) -> Result<(), Stop> {
    let framing = match refusal.body.len() {
        0 => BodyKind::None,
        length => BodyKind::Length(length as u64),
    };
    let out = &mut x.down.out.bytes;
    encode::status_line(out, refusal.status, encode::reason(refusal.status).as_bytes());
    out.extend_from_slice(&refusal.lines);
    clock::date_line(out);
    if tells {
        tell(out, x.cache.told, call.snapshot, call.route);
    }
    x.end_head(refusal.status, framing);
    x.send_put(&refusal.body).await?;
    x.send_state = SendState::Complete;
    Err(Stop::Sent)
}

/// What came of waiting for the call of another request.
enum Followed {
    /// The client has its response, or as much of it as there is.
    Served(Result<(), Stop>),
    /// L2 had it.
    CacheLookup(Entry),
    /// It failed before it began, for this reason if another call would meet it too.
    Failed(Option<Error>),
}

async fn follow(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    cache: &Rc<RouteCache>,
    reader: &Reader,
    heartbeat: &mut Heartbeat,
) -> Followed {
    match progress(x, call, reader, heartbeat, call.total_due).await {
        Ok(Started::Begun(head)) => {
            cache.metrics.miss();
            cache.metrics.coalesced();
            note(x, call, CacheResult::Coalesced);
            let outcome = forwarded(Fwd::UriMiss, Some(true));
            Followed::Served(deliver(x, call, Some(cache), (&*head, reader), outcome, heartbeat).await)
        }
        Ok(Started::CacheLookup(entry)) => Followed::CacheLookup(entry),
        Ok(Started::Failed(error)) => Followed::Failed(error),
        Err(error) => Followed::Served(Err(error.into())),
    }
}

/// How a call goes that this client waits for.
enum Started {
    /// The response has begun.
    Begun(Arc<Head>),
    /// L2 had it.
    CacheLookup(Entry),
    /// It failed before.
    Failed(Option<Error>),
}

/// Waits until a call begins to have a response, with heartbeats for the client.
async fn progress(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    reader: &Reader,
    heartbeat: &mut Heartbeat,
    last_due: u64,
) -> Result<Started, Error> {
    loop {
        x.stalls.change(Stall::UpstreamHead);
        let due = heartbeat.due().min(last_due);
        x.down.deadline.set_at(due);
        let waited = poll_fn(|cx| {
            if let Poll::Ready(progress) = reader.poll_progress(Some(cx)) {
                return Poll::Ready(Ok(Some(match progress {
                    Progress::Begun(head) => Started::Begun(head),
                    Progress::Whole(entry) => Started::Begun(entry.head),
                    Progress::CacheLookup(entry) => Started::CacheLookup(entry),
                    Progress::Broken(error) => Started::Failed(error),
                    Progress::StaleOnError(_) | Progress::NotShared { .. } => Started::Failed(None),
                })));
            }
            if x.down.poll_disconnect(cx, &x.worker.buffers).is_ready() {
                return Poll::Ready(Err(Reason::ClientDisconnected));
            }
            match x.down.deadline.poll_passed(cx) {
                true if due == last_due => Poll::Ready(Err(Reason::TotalTimeout)),
                true => Poll::Ready(Ok(None)),
                false => Poll::Pending,
            }
        });
        match waited.await? {
            Some(started) => return Ok(started),
            None => heartbeat.beat(x, call).await?,
        }
    }
}

/// Writes the head of a response, unless heartbeats have begun it; returns how its body goes to this client.
fn write_head(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    cache: Option<&Rc<RouteCache>>,
    head: &Head,
    freshness: Option<&Freshness>,
    outcome: Outcome,
    heartbeat: &Heartbeat,
) -> BodyKind {
    if let Some(framing) = heartbeat.hand_over() {
        return framing;
    }
    let framing = match (head.length, x.scratch.request.version) {
        (Some(0), _) => BodyKind::None,
        (Some(length), _) => BodyKind::Length(length),
        (None, Version::Http11) => BodyKind::Chunked,
        (None, Version::Http10) => BodyKind::UntilClose,
    };
    x.frame_by_close(framing);
    let status = head.freshness.status;
    let out = &mut x.down.out.bytes;
    encode::status_line(out, status, encode::reason(status).as_bytes());
    out.extend_from_slice(client_lines(head));
    clock::date_line(out);
    match cache {
        Some(cache) => status::write(cache.policy.headers, outcome, freshness, clock::unix_ms(), NAME, out),
        None => tell(out, x.cache.told, call.snapshot, call.route),
    }
    x.end_head(status, framing);
    framing
}

/// Replays a stored response.
async fn hit(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    cache: &Rc<RouteCache>,
    entry: &Entry,
    heartbeat: &Heartbeat,
) -> Result<(), Stop> {
    cache.metrics.hit();
    note(x, call, CacheResult::Hit);
    guarded(x, call, entry.body()).await?;
    let head = &entry.head;
    let framing = write_head(x, call, Some(cache), head, Some(&cache.cache.freshness(entry)), Outcome::Hit, heartbeat);
    let is_paced = head.length.is_none() && cache.cache.settings.calls().is_some_and(|calls| calls.is_paced);
    let mut player = Player::default();
    let mut rest = entry.body();
    while let Some(part) = player.next(&mut rest) {
        match part {
            Part::Pause(ms) if is_paced && ms > 0 => {
                x.send_put(&[]).await?;
                pause(x, Duration::from_millis(u64::from(ms.min(LONGEST_PAUSE_MS))), u64::MAX).await?;
            }
            Part::Pause(_) => {}
            Part::Bytes(bytes) => write(x, framing, bytes).await?,
        }
    }
    x.end_body(framing).await?;
    Ok(())
}

/// Sends the response of a call to a client: as it comes, or whole when the guard has read it.
async fn deliver(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    cache: Option<&Rc<RouteCache>>,
    (head, reader): (&Head, &Reader),
    outcome: Outcome,
    heartbeat: &mut Heartbeat,
) -> Result<(), Stop> {
    let mut player = Player::default();
    // With the memory that it takes, until the client has it.
    let held = match call.guard {
        Some(_) => Some(hold(x, call, reader, heartbeat).await?),
        None => None,
    };
    let framing = write_head(x, call, cache, head, None, outcome, heartbeat);
    if let Some((recording, _room)) = &held {
        play(x, framing, &mut player, recording).await?;
    } else {
        loop {
            let Some(piece) = next_piece(x, reader, u64::MAX).await? else { continue };
            let (bytes, is_last) = match piece {
                Piece::Bytes(bytes) => (bytes, false),
                Piece::Rest(entry, at) => (entry.rest(at), true),
                Piece::End => break,
                Piece::Broken => return Ok(break_off(x, call, (head, reader), &player, framing).await?),
            };
            play(x, framing, &mut player, &bytes).await?;
            if is_last {
                break;
            }
        }
    }
    // The event that says so was the last one.
    if player.has_failed() && x.log.error.is_none() {
        x.log.error = Some(Error::new(Reason::AiCut, "F10"));
        // The exchange that made the call has counted it for the one that caused it.
        if matches!(outcome, Outcome::Forwarded { collapsed: Some(true), .. }) {
            x.worker.metrics.not_served(Reason::AiCut);
        }
    }
    Ok(x.end_body(framing).await?)
}

/// Waits for the whole response of a call, with heartbeats for the client, and lets the guard read it; returns its recording.
///
/// # Errors
/// It is not whole, too large to be held, or refused. The client has nothing of it.
async fn hold(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    reader: &Reader,
    heartbeat: &mut Heartbeat,
) -> Result<(Vec<u8>, Held), Stop> {
    let mut room = call.snapshot.generation.ai.hold();
    let mut recording = Vec::new();
    loop {
        let Some(piece) = next_piece(x, reader, heartbeat.due()).await? else {
            heartbeat.beat(x, call).await?;
            continue;
        };
        let (bytes, is_last) = match piece {
            Piece::Bytes(bytes) => (bytes, false),
            Piece::Rest(entry, at) => (entry.rest(at), true),
            Piece::End => break,
            Piece::Broken => return Err(Error::new(Reason::AiCut, "before the guard had read it").into()),
        };
        request::take(&mut room, (recording.len() + bytes.len()) as u64)?;
        recording.extend_from_slice(&bytes);
        if is_last {
            break;
        }
    }
    guarded(x, call, &recording).await?;
    Ok((recording, room))
}

/// Lets the guard of the route read a response, if it does so.
///
/// # Errors
/// The response may not pass.
async fn guarded(x: &mut Exchange<'_>, call: &Call<'_>, recording: &[u8]) -> Result<(), Stop> {
    let Some(guard) = call.guard else { return Ok(()) };
    let (mut text, mut rest, mut player) = (Vec::with_capacity(recording.len()), recording, Player::default());
    while let Some(part) = player.next(&mut rest) {
        if let Part::Bytes(bytes) = part {
            text.extend_from_slice(bytes);
        }
    }
    let question =
        guard::question(x, call, Moment::After, if call.streams { Text::Events(&text) } else { Text::Json(&text) });
    drop(text);
    Box::pin(guard::call_guard(x, call, guard, Moment::After, question)).await
}

/// Sends a part of a recording.
async fn play(x: &mut Exchange<'_>, framing: BodyKind, player: &mut Player, mut rest: &[u8]) -> Result<(), Error> {
    while let Some(part) = player.next(&mut rest) {
        if let Part::Bytes(bytes) = part {
            write(x, framing, bytes).await?;
        }
    }
    x.send_put(&[]).await
}

/// Sends bytes in parts, each of which the client takes before the next one is copied.
async fn write(x: &mut Exchange<'_>, framing: BodyKind, bytes: &[u8]) -> Result<(), Error> {
    for bytes in bytes.chunks(WRITTEN) {
        x.put(framing, bytes);
        if x.down.out.bytes.len() >= WRITTEN {
            x.send_put(&[]).await?;
        }
    }
    Ok(())
}

/// The next piece of a response; `None` if there is none until `due`, in nanoseconds since process start.
async fn next_piece(x: &mut Exchange<'_>, reader: &Reader, due: u64) -> Result<Option<Piece>, Error> {
    x.stalls.change(Stall::UpstreamBody);
    match due {
        u64::MAX => x.down.deadline.set(None),
        due => x.down.deadline.set_at(due),
    }
    let piece = poll_fn(|cx| {
        if let Poll::Ready(piece) = reader.poll_piece(Some(cx)) {
            return Poll::Ready(Ok(Some(piece)));
        }
        if x.down.poll_disconnect(cx, &x.worker.buffers).is_ready() {
            return Poll::Ready(Err(Reason::ClientDisconnected.into()));
        }
        match x.down.deadline.poll_passed(cx) {
            true => Poll::Ready(Ok(None)),
            false => Poll::Pending,
        }
    });
    let piece = piece.await;
    x.stalls.change(Stall::None);
    piece
}

/// The rest will never come: a stream ends with an event that says so, where one may stand; everything else without an end.
async fn break_off(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    (head, reader): (&Head, &Reader),
    player: &Player,
    framing: BodyKind,
) -> Result<(), Error> {
    let error = match reader.is_cut() {
        true => Error::new(Reason::AiCut, "others waited for this client, which read a shared response too slowly"),
        false => Error::new(Reason::AiCut, "the call that this request shared broke off"),
    };
    if head.length.is_some() || !call.streams || !player.is_between() {
        return Err(error);
    }
    let own =
        ApiError { status: 502, code: "upstream_cut", message: "The response broke off before its end", param: None };
    let event = x.error_event(call.api, &own, 0);
    x.put(framing, &event);
    x.log.error = Some(error);
    x.worker.metrics.not_served(error.reason);
    x.end_body(framing).await
}
