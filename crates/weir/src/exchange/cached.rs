//! A request on a route with a cache: served from it, with the fetch of another request, or with a fetch that fills it.
//!
//! ```text
//! admit -- around the cache (method, credentials, no-store) --> forwarded, and what it changes is invalidated
//!   | look up
//!   +-- fresh, or stale where that is allowed ----------------> serve (and refresh behind the client's back)
//!   +-- somebody fetches it already --------------------------> follow: wait, then deliver what comes as it comes
//!   |        failed: look again (a few times; an error is shared the second time)    cannot be shared: forwarded alone
//!   `-- nobody does ------------------------------------------> lead: fetch from the origin, with validators where something is stored
//!            receive (the head is here): keep | confirmed | stale in place of an error | cannot be kept: forwarded as without a cache
//! ```
//!
//! This file decides where the response comes from; `cached/receive.rs` has what a reply means, `cached/serve.rs` writes responses, `cached/body.rs`
//! reads a POST ahead.

mod body;
mod coded;
pub mod explain;
mod receive;
mod serve;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use h1::{BodyKind, RequestHead};

use super::delivery::Delivery;
use super::{Exchange, SendState, proxy};
use crate::config::{Proxy, RouteId};
use crate::error::{Error, Reason};
use crate::policy::cache::RouteCache;
use crate::policy::cache::entry::{Entry, Head};
use crate::policy::cache::fill::{Progress, Reader};
use crate::policy::cache::lead::Lead;
use crate::policy::cache::lookup::{CacheLookup, KeyScratch};
use crate::policy::cache::remote::Remote;
use crate::policy::cache::rules::request::{Incoming, admit};
use crate::policy::cache::rules::reuse::{Reuse, assess, may_replace_error};
use crate::policy::cache::rules::status::Outcome;
use crate::policy::cache::rules::{Admission, Bypass, CacheRequest, Class, Freshness, Fwd, LiveLines, coalesce};
use crate::policy::cache::store::Slot;
use crate::policy::cache::wire::Stored;
use crate::runtime::clock;
use crate::runtime::deadline::nanos;
use crate::worker::snapshot::Snapshot;
use body::body_digest;
pub use receive::Keeping;
pub(super) use receive::{Received, kept, receive};
pub(super) use serve::tell;
use serve::{begin_delivery, deliver, serve};

/// An exchange's part in a cache.
#[derive(Default)]
pub struct CacheSide {
    /// This exchange fetches from the origin for the cache.
    pub lead: Option<Box<Lead>>,
    /// What the client still gets of what was fetched.
    delivery: Option<Delivery>,
    /// What the client gets in place of what came from the origin.
    serve: Option<Serve>,
    /// What the client is told when it gets the origin's response as it is.
    pub(super) told: Option<Outcome>,
    /// The stored response was not the one that the origin confirmed: the whole must be fetched.
    pub(super) must_fetch_whole: bool,
    /// No client waits: what cannot be kept need not be read.
    pub is_background: bool,
}

/// A response that the client gets from the cache after a request to the origin.
struct Serve {
    entry: Entry,
    outcome: Outcome,
    /// It is the origin's own to this request, which says what it says to a range.
    is_whole: bool,
}

/// A request waits for so many fetches of others that come to nothing, because their clients disconnect or the response is not for it; then it fetches
/// by itself.
const MOST_WAITS: u32 = 3;

/// What to do for a request.
enum Step {
    Serve(Entry, Freshness),
    ServeAndRefresh(Entry, Freshness),
    Lead(Box<Lead>),
    Follow(Reader),
    Forward(Fwd),
    /// `only-if-cached`, and nothing that may be used (RFC 9111 section 5.2.1.7).
    Refuse,
}

/// Serves a request on a route with a cache.
///
/// # Errors
/// Why there is no complete response.
pub async fn run(
    x: &mut Exchange<'_>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    cache: &Rc<RouteCache>,
) -> Result<(), Error> {
    let buf = x.down.buffer.whole();
    let request = &x.scratch.request;
    let incoming = Incoming {
        method: request.method,
        query: super::changed::query(x.changed.as_deref(), request, buf),
        has_content: request.body != BodyKind::None,
        is_upgrade: request.upgrade && !action.upgrade.is_empty(),
        lines: LiveLines::new(&request.fields, buf),
    };
    let admission = match admit(&cache.policy, incoming) {
        Admission::Use(wanted) if wanted.class == Class::Post => {
            Box::pin(body_digest(x)).await?.map_or(Err(Bypass::NotJson), |digest| Ok((wanted, Some(digest))))
        }
        Admission::Use(wanted) => Ok((wanted, None)),
        Admission::Bypass(why) => Err(why),
    };
    let consumer = x.identity.as_deref().and_then(|who| who.consumer.as_deref());
    // Senders without the name of a consumer cannot be distinguished.
    let is_nameless = cache.policy.by_consumer && consumer.is_none() && !x.demanded(snapshot).is_open();
    let admission = if is_nameless { Err(Bypass::Credentials) } else { admission };
    let (wanted, digest) = match admission {
        Ok(admitted) => admitted,
        Err(why) => {
            cache.metrics.bypassed();
            x.log.cache = Some("bypass");
            return forward(x, snapshot, route, action, why.fwd(), None).await;
        }
    };
    let (request, buf) = (&x.scratch.request, x.down.buffer.whole());
    let head = (request, buf, super::changed::query(x.changed.as_deref(), request, buf));
    let (trusted, scheme) = (x.down.client.peer_is_trusted, x.down.client.scheme());
    cache.write_key(&mut x.scratch.key, &wanted, head, &x.scratch.path, (trusted, scheme), (digest.as_ref(), consumer));
    match next_step(x, cache, &wanted) {
        Step::Serve(entry, freshness) => {
            count_hit(x, cache, &freshness);
            serve(x, cache, &wanted, &entry, &freshness, Outcome::Hit).await
        }
        // Apart, so that an exchange that waits is no larger than what most of them need: who fetches allocates anyway.
        step => Box::pin(fetch(x, snapshot, route, action, cache, wanted, step)).await,
    }
}

/// Looks what there is for the request, and decides.
fn next_step(x: &mut Exchange<'_>, cache: &RouteCache, wanted: &CacheRequest) -> Step {
    let now_ms = clock::unix_ms();
    let stores = &cache.cache.state.stores;
    loop {
        let seen = stores.load(Ordering::Acquire);
        let mut beside = None;
        let mut is_marked = false;
        let (stored, fwd, alone) = match look_up(x, cache, wanted) {
            CacheLookup::Response(entry) => {
                let freshness = cache.cache.freshness(&entry);
                match assess(&freshness, wanted, now_ms) {
                    Reuse::Fresh | Reuse::StaleAllowed => return Step::Serve(entry, freshness),
                    Reuse::WhileRevalidating => return Step::ServeAndRefresh(entry, freshness),
                    // The response to HEAD is stored under HEAD; what it says of the one to GET is evaluated when it has come.
                    Reuse::Validate(fwd) if wanted.class == Class::Head && entry.head.class == Class::Get => {
                        x.scratch.key.set_class(Class::Head);
                        beside = Some(entry);
                        (None, fwd, false)
                    }
                    Reuse::Validate(fwd) => {
                        let alone = wanted.has_credentials() && !entry.joins_credentials(clock::loop_ns());
                        (Some(entry), fwd, alone)
                    }
                    Reuse::NotForThisClient => return Step::Forward(Fwd::Miss),
                }
            }
            CacheLookup::HitForMiss => {
                is_marked = true;
                (None, Fwd::Miss, true)
            }
            CacheLookup::Nothing if x.scratch.key.is_variant() => (None, Fwd::VaryMiss, false),
            CacheLookup::Nothing => (None, Fwd::UriMiss, false),
        };
        if wanted.must_not_forward() && cache.remote.is_none() {
            return Step::Refuse;
        }
        let keys = &x.scratch.key;
        let mut lead = if alone || !coalesce::may_lead(wanted) {
            Lead::alone(&cache.cache, keys, *wanted, fwd)
        } else {
            match Lead::join(&cache.cache, keys, *wanted, fwd) {
                // The fetch before may have ended between look-up and now.
                Ok(lead) if stores.load(Ordering::Acquire) == seen => lead,
                Ok(lead) => match look_up(x, cache, wanted) {
                    CacheLookup::Response(entry) if !is_known(&entry, stored.as_ref(), wanted) => continue,
                    _ => lead,
                },
                Err(reader) if coalesce::may_wait(wanted) => return Step::Follow(reader),
                Err(_) => Lead::alone(&cache.cache, keys, *wanted, fwd),
            }
        };
        lead.stored = stored;
        lead.beside = beside;
        lead.skips_remote = is_marked && !wanted.must_not_forward();
        return Step::Lead(lead);
    }
}

/// Whether what was found on a second look is what the first one found and could not use.
fn is_known(found: &Entry, stored: Option<&Entry>, wanted: &CacheRequest) -> bool {
    stored.is_some_and(|stored| stored.is(found)) || (wanted.class == Class::Head && found.head.class == Class::Get)
}

fn look_up(x: &mut Exchange<'_>, cache: &RouteCache, wanted: &CacheRequest) -> CacheLookup {
    cache.cache.look_up(&mut x.scratch.key, wanted, &x.scratch.request, x.down.buffer.whole())
}

/// Everything but a plain hit.
async fn fetch(
    x: &mut Exchange<'_>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    cache: &Rc<RouteCache>,
    wanted: CacheRequest,
    first: Step,
) -> Result<(), Error> {
    let mut step = first;
    // How many fetches this request waited for in vain, and whether one of them failed for a reason that is the origin's.
    let mut waits = 0;
    let mut has_failed = false;
    loop {
        match step {
            Step::Serve(entry, freshness) => {
                count_hit(x, cache, &freshness);
                return serve(x, cache, &wanted, &entry, &freshness, Outcome::Hit).await;
            }
            Step::ServeAndRefresh(entry, freshness) => {
                super::refresh::begin(x, snapshot, route, cache, &wanted, &entry);
                count_hit(x, cache, &freshness);
                return serve(x, cache, &wanted, &entry, &freshness, Outcome::Hit).await;
            }
            Step::Refuse => {
                count_miss(x, cache);
                return Err(Reason::NotCached.into());
            }
            Step::Forward(fwd) => {
                count_miss(x, cache);
                return forward(x, snapshot, route, action, fwd, None).await;
            }
            Step::Lead(lead) => {
                return self::lead(x, snapshot, route, action, cache, lead).await;
            }
            Step::Follow(reader) if waits == MOST_WAITS => {
                drop(reader);
                count_miss(x, cache);
                return forward(x, snapshot, route, action, Fwd::Miss, Some(false)).await;
            }
            Step::Follow(reader) => match follow(x, snapshot, route, cache, &wanted, reader).await? {
                Followed::Served => return Ok(()),
                Followed::NotShared => {
                    count_miss(x, cache);
                    return forward(x, snapshot, route, action, Fwd::Miss, Some(false)).await;
                }
                Followed::Broken(Some(error)) if has_failed => {
                    count_miss(x, cache);
                    return Err(error);
                }
                Followed::Broken(error) => has_failed |= error.is_some(),
                // Its own variant has a key of its own now.
                Followed::Differs => {}
            },
        }
        waits += 1;
        step = next_step(x, cache, &wanted);
    }
}

fn count_hit(x: &mut Exchange<'_>, cache: &RouteCache, freshness: &Freshness) {
    cache.metrics.hit();
    x.log.cache = Some("hit");
    if !freshness.is_fresh(clock::unix_ms()) {
        cache.metrics.stale();
        x.log.cache = Some("stale");
    }
}

fn count_miss(x: &mut Exchange<'_>, cache: &RouteCache) {
    cache.metrics.miss();
    x.log.cache = Some("miss");
}

/// The request went to the origin, and a stale response is served in place of its error.
fn count_stale_on_error(x: &mut Exchange<'_>, cache: &RouteCache) {
    cache.metrics.stale();
    x.log.cache = Some("stale");
}

/// The request goes to the origin as without a cache; what it changes is no longer served from the cache.
async fn forward(
    x: &mut Exchange<'_>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    why: Fwd,
    collapsed: Option<bool>,
) -> Result<(), Error> {
    x.cache.told = Some(Outcome::Forwarded { why, status: None, stored: false, collapsed });
    proxy::run(x, snapshot, route, action).await
}

/// Fetches from the origin, for the client and for the cache.
async fn lead(
    x: &mut Exchange<'_>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    cache: &Rc<RouteCache>,
    mut lead: Box<Lead>,
) -> Result<(), Error> {
    let wanted = lead.wanted;
    if let Some(remote) = &cache.remote
        && !lead.skips_remote
        && let Some(entry) = Box::pin(get_within_timeout(x, cache, remote, &wanted)).await
    {
        let freshness = cache.cache.freshness(&entry);
        match assess(&freshness, &wanted, clock::unix_ms()) {
            reuse @ (Reuse::Fresh | Reuse::StaleAllowed | Reuse::WhileRevalidating) => {
                lead.l2_hit(entry.clone());
                if reuse == Reuse::WhileRevalidating {
                    super::refresh::begin(x, snapshot, route, cache, &wanted, &entry);
                }
                count_hit(x, cache, &freshness);
                return serve(x, cache, &wanted, &entry, &freshness, Outcome::Hit).await;
            }
            Reuse::Validate(fwd) if entry.head.class == wanted.class => {
                lead.fwd = fwd;
                lead.stored = Some(entry);
            }
            Reuse::Validate(_) | Reuse::NotForThisClient => {}
        }
    }
    count_miss(x, cache);
    if wanted.must_not_forward() {
        return Err(Reason::NotCached.into());
    }
    x.cache.told = Some(Outcome::Forwarded { why: lead.fwd, status: None, stored: false, collapsed: None });
    x.cache.lead = Some(lead);
    let mut result = proxy::run(x, snapshot, route, action).await;
    if std::mem::take(&mut x.cache.must_fetch_whole) {
        result = proxy::run(x, snapshot, route, action).await;
    }
    if let (Err(error), Some(lead)) = (result, x.cache.lead.take()) {
        let serve_stale = lead
            .stored
            .clone()
            .filter(|_| x.send_state == SendState::None && error.reason != Reason::ClientDisconnected);
        match serve_stale.map(|entry| (cache.cache.freshness(&entry), entry)) {
            Some((freshness, entry)) if may_replace_error(&freshness, &wanted, clock::unix_ms()) => {
                x.log.error = Some(error);
                count_stale_on_error(x, cache);
                lead.serve_stale(entry.clone());
                x.cache.serve = Some(Serve { entry, outcome: Outcome::StaleOnError { status: None }, is_whole: false });
            }
            _ => {
                // What the leader's client did is no news for those who wait.
                lead.fail((error.reason != Reason::ClientDisconnected).then_some(error));
                return Err(error);
            }
        }
    } else {
        result?;
    }
    if let Some(Serve { entry, outcome, is_whole }) = x.cache.serve.take() {
        let wanted = CacheRequest { has_range: wanted.has_range && !is_whole, ..wanted };
        let freshness = if is_whole { entry.head.freshness } else { cache.cache.freshness(&entry) };
        return serve(x, cache, &wanted, &entry, &freshness, outcome).await;
    }
    match x.cache.delivery.take() {
        Some(delivery) => deliver(x, delivery).await,
        None if x.send_state == SendState::Complete => Ok(()),
        // The client disconnected while others waited on.
        None => Err(Reason::ClientDisconnected.into()),
    }
}

/// Looks in Redis, for no longer than one call may take, however many it needs.
async fn get_within_timeout(
    x: &mut Exchange<'_>,
    cache: &RouteCache,
    remote: &Remote,
    wanted: &CacheRequest,
) -> Option<Entry> {
    let result = tokio::time::timeout(remote.timeout(), l2_get(x, cache, wanted)).await;
    result.unwrap_or_else(|_| {
        cache.metrics.store_error();
        x.scratch.key.set_class(wanted.class);
        None
    })
}

/// Looks in Redis.
async fn l2_get(x: &mut Exchange<'_>, cache: &RouteCache, wanted: &CacheRequest) -> Option<Entry> {
    get_into(cache, &mut x.scratch.key, wanted, &x.scratch.request, x.down.buffer.whole()).await
}

/// Looks in Redis; afterwards `keys` holds the key under which the response is.
async fn get_into(
    cache: &RouteCache,
    keys: &mut KeyScratch,
    wanted: &CacheRequest,
    head: &RequestHead,
    buf: &[u8],
) -> Option<Entry> {
    // RFC 9111 section 4: HEAD is served from responses to GET.
    let first = if wanted.class == Class::Head { Class::Get } else { wanted.class };
    let second = (first != wanted.class).then_some(wanted.class);
    for class in std::iter::once(first).chain(second) {
        if !keys.is_variant() {
            keys.set_class(class);
        }
        for _ in 0..2 {
            let key = keys.whole().to_key();
            match cache.l2_get(&key).await {
                Some(Stored::Response(entry)) => return Some(entry),
                Some(Stored::Varies(varies)) => {
                    keys.select(&varies, head, buf);
                    cache.cache.state.memory.put(key, Slot::Varies(varies));
                }
                None => break,
            }
        }
        keys.set_class(class);
    }
    None
}

/// What came of waiting for the fetch of another request.
enum Followed {
    /// The client has its response.
    Served,
    /// Each must fetch by itself.
    NotShared,
    /// The fetch failed, for this reason if there was one.
    Broken(Option<Error>),
    /// The response is not for a request like this.
    Differs,
}

async fn follow(
    x: &mut Exchange<'_>,
    snapshot: &Snapshot,
    route: RouteId,
    cache: &RouteCache,
    wanted: &CacheRequest,
    reader: Reader,
) -> Result<Followed, Error> {
    // A request that waits has the same total timeout as one that fetches by itself.
    let total = snapshot.routes[route.0].total();
    x.down.deadline.set_at(total.map_or(u64::MAX, |total| x.log.started_ns.saturating_add(nanos(total))));
    let progress = poll_fn(|cx| {
        if let Poll::Ready(progress) = reader.poll_progress(Some(cx)) {
            return Poll::Ready(Ok(progress));
        }
        if x.down.poll_disconnect(cx, &x.worker.buffers).is_ready() {
            return Poll::Ready(Err(Error::from(Reason::ClientDisconnected)));
        }
        if x.down.deadline.poll_passed(cx) {
            return Poll::Ready(Err(Error::from(Reason::TotalTimeout)));
        }
        Poll::Pending
    });
    let progress = progress.await;
    if progress.as_ref().is_err_and(|error| error.reason == Reason::TotalTimeout) {
        count_miss(x, cache);
    }
    let progress = progress?;
    let now_ms = clock::unix_ms();
    let outcome = Outcome::Forwarded { why: Fwd::UriMiss, status: None, stored: false, collapsed: Some(true) };
    match progress {
        // One of those without credentials leads.
        Progress::NotShared { by_credentials: true } if !wanted.has_credentials() => Ok(Followed::Broken(None)),
        Progress::NotShared { .. } => Ok(Followed::NotShared),
        Progress::Broken(error) => Ok(Followed::Broken(error)),
        Progress::StaleOnError(entry) => {
            let freshness = cache.cache.freshness(&entry);
            if !is_same_variant(x, &entry.head) || !may_replace_error(&freshness, wanted, now_ms) {
                return Ok(Followed::NotShared);
            }
            cache.metrics.miss();
            count_stale_on_error(x, cache);
            serve(x, cache, wanted, &entry, &freshness, Outcome::StaleOnError { status: None }).await?;
            Ok(Followed::Served)
        }
        Progress::CacheLookup(entry) => {
            let freshness = cache.cache.freshness(&entry);
            let same = is_same_variant(x, &entry.head);
            if !coalesce::may_share(&freshness, wanted, same, now_ms) {
                return Ok(if same { Followed::NotShared } else { Followed::Differs });
            }
            count_hit(x, cache, &freshness);
            serve(x, cache, wanted, &entry, &freshness, Outcome::Hit).await?;
            Ok(Followed::Served)
        }
        Progress::Whole(entry) => {
            let same = is_same_variant(x, &entry.head);
            if !coalesce::may_share(&entry.head.freshness, wanted, same, now_ms) {
                return Ok(if same { Followed::NotShared } else { Followed::Differs });
            }
            count_collapsed(x, cache);
            serve(x, cache, wanted, &entry, &entry.head.freshness, outcome).await?;
            Ok(Followed::Served)
        }
        Progress::Begun(head) => {
            let same = is_same_variant(x, &head);
            if !coalesce::may_share(&head.freshness, wanted, same, now_ms) {
                return Ok(if same { Followed::NotShared } else { Followed::Differs });
            }
            count_collapsed(x, cache);
            x.skip_body();
            let delivery = begin_delivery(x, cache, wanted, &head, reader, outcome);
            deliver(x, delivery).await?;
            Ok(Followed::Served)
        }
    }
}

fn count_collapsed(x: &mut Exchange<'_>, cache: &RouteCache) {
    cache.metrics.miss();
    cache.metrics.coalesced();
    x.log.cache = Some("coalesced");
}

/// Whether the request selects this response among those of its URL.
fn is_same_variant(x: &mut Exchange<'_>, head: &Head) -> bool {
    let Some(varies) = &head.varies else { return true };
    x.scratch.key.select(varies, &x.scratch.request, x.down.buffer.whole());
    *x.scratch.key.whole() == *head.key
}
