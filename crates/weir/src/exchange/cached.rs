//! A request on a route with a cache: answered from it, with the fetch of another request, or with a fetch that fills it.
//!
//! ```text
//! admit -- around the cache (method, credentials, no-store) --> forwarded, and what it changes is invalidated
//!   | look up
//!   +-- fresh, or stale where that is allowed ----------------> serve (and refresh behind the client's back)
//!   +-- somebody fetches it already --------------------------> follow: wait, then deliver what comes as it comes
//!   |        failed: look again (once; then the error is shared)    cannot be shared: forwarded alone
//!   `-- nobody does ------------------------------------------> lead: ask the origin, with validators where something is stored
//!            receive (the head is here): keep | confirmed | stands in for an error | cannot be kept: forwarded as without a cache
//! ```

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use h1::{BodyDecoder, BodyEvent, BodyKind, Method, Version, encode};

use super::delivery::{Delivery, Stopped};
use super::downstream::{ClientIo, Waited};
use super::forward::write_connection;
use super::intake::Intake;
use super::{Answer, Exchange, proxy};
use crate::config::{CacheHeaders, Proxy, RouteId};
use crate::error::{Error, Reason};
use crate::policy::cache::entry::{Entry, Head};
use crate::policy::cache::fill::{Progress, Reader};
use crate::policy::cache::lead::Lead;
use crate::policy::cache::lookup::{Found, url};
use crate::policy::cache::purge::{Event, Which};
use crate::policy::cache::rules::delivery::{Delivery as Choice, choose};
use crate::policy::cache::rules::key::{BodyDigest, set_class, url_of};
use crate::policy::cache::rules::request::{Incoming, admit};
use crate::policy::cache::rules::reuse::{self, Reuse, assess, may_replace_error};
use crate::policy::cache::rules::status::{self, Outcome};
use crate::policy::cache::rules::update::{Freshened, HeadEffect};
use crate::policy::cache::rules::{
    Admission, Asked, Bypass, Class, Fwd, LiveLines, StoredLines, Terms, Times, coalesce, head, storable, update,
};
use crate::policy::cache::store::Slot;
use crate::policy::cache::wire::Stored;
use crate::policy::cache::{RouteCache, rules};
use crate::server::clock;
use crate::server::snapshot::Snapshot;

/// What the gateway calls itself in `Cache-Status`.
const NAME: &[u8] = b"weir";
/// Largest body of a POST that is read ahead for its key.
const KEYED_BODY: u64 = 64 * 1024;

/// An exchange's part in a cache.
#[derive(Default)]
pub struct CacheSide {
    /// This exchange asks the origin for the cache.
    pub lead: Option<Box<Lead>>,
    /// What the client still gets of what was fetched.
    delivery: Option<Delivery>,
    /// What the client gets in place of what came from the origin.
    serve: Option<(Arc<Entry>, Outcome)>,
    /// What the client is told when it gets the origin's answer as it is.
    pub(super) told: Option<Outcome>,
    /// The stored answer was not the one that the origin confirmed: the whole must be fetched.
    must_fetch_whole: bool,
    /// No client waits: what cannot be kept need not be read.
    pub is_background: bool,
}

/// A reply that is being kept.
pub struct Keeping {
    /// This exchange's part in the fetch.
    pub lead: Box<Lead>,
    head: Arc<Head>,
    /// The reply's body.
    pub intake: Intake,
    /// What the client gets of it; `None` once it is gone.
    pub delivery: Option<Delivery>,
    /// When the origin must have sent more, in nanoseconds since process start; 0: not known yet.
    pub upstream_due: u64,
    /// When the client must have taken more.
    pub client_due: u64,
    /// What the deadline is set to.
    pub due: u64,
}

impl Keeping {
    /// Whether nobody wants the rest: it is too large to be kept, and nobody reads it.
    pub fn is_unwanted(&self) -> bool {
        self.delivery.is_none() && self.lead.fill().is_oversize() && !self.lead.is_awaited()
    }
}

/// What the head of a reply means.
pub(super) enum Received {
    /// It goes to the client as it is.
    Forward,
    /// It is kept.
    Keep(Box<Keeping>),
    /// The client gets something else.
    Replaced,
    /// It answers nothing: the request must be sent again without conditions.
    Again,
    /// No one wants it.
    Unwanted,
}

/// What to do for a request.
enum Step {
    Serve(Arc<Entry>, Terms),
    ServeAndRefresh(Arc<Entry>, Terms),
    Lead(Box<Lead>),
    Follow(Reader),
    Forward(Fwd),
    /// `only-if-cached`, and nothing that may be used (RFC 9111 section 5.2.1.7).
    Refuse,
}

/// Serves a request on a route with a cache.
///
/// # Errors
/// Why there is no complete answer.
pub async fn run<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    cache: &Rc<RouteCache>,
) -> Result<(), Error> {
    let buf = x.down.buffer.whole();
    let request = &x.scratch.request;
    let incoming = Incoming {
        method: request.method,
        has_content: request.body != BodyKind::None,
        is_upgrade: request.upgrade && !action.upgrade.is_empty(),
        lines: LiveLines::new(&request.fields, buf),
    };
    let admission = match admit(&cache.policy, incoming) {
        Admission::Use(asked) if asked.class == Class::Post => {
            Box::pin(body_digest(x)).await?.map_or(Err(Bypass::NotJson), |digest| Ok((asked, Some(digest))))
        }
        Admission::Use(asked) => Ok((asked, None)),
        Admission::Bypass(why) => Err(why),
    };
    let (asked, digest) = match admission {
        Ok(admitted) => admitted,
        Err(why) => return around(x, snapshot, route, action, cache, why).await,
    };
    let head = (&x.scratch.request, x.down.buffer.whole());
    let trusted = x.down.client.peer_is_trusted;
    cache.write_key(&mut x.scratch.key, &asked, head, &x.scratch.path, trusted, digest.as_ref());
    match next_step(x, cache, &asked) {
        Step::Serve(entry, terms) => {
            count_hit(x, cache, &terms);
            serve(x, cache, &asked, &entry, &terms, Outcome::Hit).await
        }
        step => Box::pin(fetch(x, snapshot, route, action, cache, asked, step)).await,
    }
}

/// Looks what there is for the request, and decides.
fn next_step<C: ClientIo>(x: &mut Exchange<'_, C>, cache: &RouteCache, asked: &Asked) -> Step {
    let now_ms = clock::unix_ms();
    loop {
        let mut beside = None;
        let (stored, fwd, alone) = match look_up(x, cache, asked) {
            Found::Answer(entry) => {
                let terms = cache.cache.terms(&entry);
                match assess(&terms, asked, now_ms) {
                    Reuse::Fresh | Reuse::StaleAsAsked => return Step::Serve(entry, terms),
                    Reuse::WhileRevalidating => return Step::ServeAndRefresh(entry, terms),
                    // The answer to HEAD is filed under HEAD; what it says of the one to GET is seen when it is here.
                    Reuse::Validate(fwd) if asked.class == Class::Head && entry.head.class == Class::Get => {
                        x.scratch.key.set_class(Class::Head);
                        beside = Some(entry);
                        (None, fwd, false)
                    }
                    Reuse::Validate(fwd) => (Some(entry), fwd, false),
                    Reuse::NotForThisClient => return Step::Forward(Fwd::Miss),
                }
            }
            Found::Pass => (None, Fwd::Miss, true),
            Found::Nothing if x.scratch.key.is_variant() => (None, Fwd::VaryMiss, false),
            Found::Nothing => (None, Fwd::UriMiss, false),
        };
        if asked.must_not_forward() && cache.remote.is_none() {
            return Step::Refuse;
        }
        let keys = &x.scratch.key;
        let mut lead = if alone || !coalesce::may_lead(asked) {
            Lead::alone(&cache.cache, keys, *asked, fwd)
        } else {
            match Lead::join(&cache.cache, keys, *asked, fwd) {
                Ok(lead) => {
                    // The fetch before may have ended between look-up and now.
                    match look_up(x, cache, asked) {
                        Found::Answer(entry) if !is_known(&entry, stored.as_ref(), asked) => continue,
                        _ => lead,
                    }
                }
                Err(reader) if coalesce::may_wait(asked) => return Step::Follow(reader),
                Err(_) => Lead::alone(&cache.cache, keys, *asked, fwd),
            }
        };
        lead.stored = stored;
        lead.beside = beside;
        return Step::Lead(Box::new(lead));
    }
}

/// Whether what was found on a second look is what the first one found and could not use.
fn is_known(found: &Arc<Entry>, stored: Option<&Arc<Entry>>, asked: &Asked) -> bool {
    stored.is_some_and(|stored| Arc::ptr_eq(stored, found))
        || (asked.class == Class::Head && found.head.class == Class::Get)
}

fn look_up<C: ClientIo>(x: &mut Exchange<'_, C>, cache: &RouteCache, asked: &Asked) -> Found {
    cache.cache.look_up(&mut x.scratch.key, asked, &x.scratch.request, x.down.buffer.whole())
}

/// Everything but a plain hit.
async fn fetch<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    cache: &Rc<RouteCache>,
    asked: Asked,
    first: Step,
) -> Result<(), Error> {
    let mut step = first;
    // Whether a fetch that this request waited for has failed already.
    let mut has_failed = false;
    loop {
        match step {
            Step::Serve(entry, terms) => {
                count_hit(x, cache, &terms);
                return serve(x, cache, &asked, &entry, &terms, Outcome::Hit).await;
            }
            Step::ServeAndRefresh(entry, terms) => {
                super::refresh::begin(x, snapshot, route, cache, &asked, &entry);
                count_hit(x, cache, &terms);
                return serve(x, cache, &asked, &entry, &terms, Outcome::Hit).await;
            }
            Step::Refuse => {
                cache.metrics.miss();
                x.log.cache = Some("miss");
                return Err(Reason::NotCached.into());
            }
            Step::Forward(fwd) => {
                cache.metrics.miss();
                return forward(x, snapshot, route, action, fwd, None).await;
            }
            Step::Lead(lead) => {
                return self::lead(x, snapshot, route, action, cache, lead).await;
            }
            Step::Follow(reader) => match follow(x, cache, &asked, reader).await? {
                Followed::Served => return Ok(()),
                Followed::Apart => {
                    cache.metrics.miss();
                    return forward(x, snapshot, route, action, Fwd::Miss, Some(false)).await;
                }
                Followed::Broken(Some(error)) if has_failed => {
                    cache.metrics.miss();
                    return Err(error);
                }
                Followed::Broken(error) => has_failed |= error.is_some(),
                // Its own variant has a key of its own now.
                Followed::Differs => {}
            },
        }
        step = next_step(x, cache, &asked);
    }
}

fn count_hit<C>(x: &mut Exchange<'_, C>, cache: &RouteCache, terms: &Terms) {
    cache.metrics.hit();
    x.log.cache = Some("hit");
    if !terms.is_fresh(clock::unix_ms()) {
        cache.metrics.stale();
        x.log.cache = Some("stale");
    }
}

/// The origin was asked, and a stale answer stands in for its error: a miss that was answered all the same.
fn count_stand_in<C>(x: &mut Exchange<'_, C>, cache: &RouteCache) {
    cache.metrics.stale();
    x.log.cache = Some("stale");
}

/// A request that the cache has no part in; what it changes is no longer answered from the cache.
async fn around<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    cache: &RouteCache,
    why: Bypass,
) -> Result<(), Error> {
    cache.metrics.bypassed();
    x.log.cache = Some("bypass");
    let told = Outcome::Forwarded { why: why.fwd(), status: None, stored: false, collapsed: None };
    x.cache.told = Some(told);
    proxy::run(x, snapshot, route, action).await
}

/// The request goes to the origin as without a cache.
async fn forward<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    why: Fwd,
    collapsed: Option<bool>,
) -> Result<(), Error> {
    x.log.cache = Some("miss");
    x.cache.told = Some(Outcome::Forwarded { why, status: None, stored: false, collapsed });
    proxy::run(x, snapshot, route, action).await
}

/// Asks the origin, for the client and for the cache.
async fn lead<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    action: &Proxy,
    cache: &Rc<RouteCache>,
    mut lead: Box<Lead>,
) -> Result<(), Error> {
    let asked = lead.asked;
    if cache.remote.is_some()
        && let Some(entry) = recall(x, cache, &asked).await
    {
        let terms = cache.cache.terms(&entry);
        match assess(&terms, &asked, clock::unix_ms()) {
            reuse @ (Reuse::Fresh | Reuse::StaleAsAsked | Reuse::WhileRevalidating) => {
                lead.recalled(entry.clone());
                if reuse == Reuse::WhileRevalidating {
                    super::refresh::begin(x, snapshot, route, cache, &asked, &entry);
                }
                count_hit(x, cache, &terms);
                return serve(x, cache, &asked, &entry, &terms, Outcome::Hit).await;
            }
            Reuse::Validate(fwd) if entry.head.class == asked.class => {
                lead.fwd = fwd;
                lead.stored = Some(entry);
            }
            Reuse::Validate(_) | Reuse::NotForThisClient => {}
        }
    }
    cache.metrics.miss();
    x.log.cache = Some("miss");
    if asked.must_not_forward() {
        return Err(Reason::NotCached.into());
    }
    x.cache.told = Some(Outcome::Forwarded { why: lead.fwd, status: None, stored: false, collapsed: None });
    x.cache.lead = Some(lead);
    let mut result = proxy::run(x, snapshot, route, action).await;
    if std::mem::take(&mut x.cache.must_fetch_whole) {
        result = proxy::run(x, snapshot, route, action).await;
    }
    if let (Err(error), Some(lead)) = (result, x.cache.lead.take()) {
        let stand_in = lead.stored.clone().filter(|_| x.answer == Answer::None && error.reason != Reason::ClientGone);
        match stand_in.map(|entry| (cache.cache.terms(&entry), entry)) {
            Some((terms, entry)) if may_replace_error(&terms, &asked, clock::unix_ms()) => {
                x.log.error = Some(error);
                count_stand_in(x, cache);
                lead.stand_in(entry.clone());
                x.cache.serve = Some((entry, Outcome::Rescued { status: None }));
            }
            _ => {
                // What the leader's client did is no news for those who wait.
                lead.fail((error.reason != Reason::ClientGone).then_some(error));
                return Err(error);
            }
        }
    } else {
        result?;
    }
    if let Some((entry, outcome)) = x.cache.serve.take() {
        let terms = cache.cache.terms(&entry);
        return serve(x, cache, &asked, &entry, &terms, outcome).await;
    }
    match x.cache.delivery.take() {
        Some(delivery) => deliver(x, delivery).await,
        None if x.answer == Answer::Complete => Ok(()),
        // It went away while others waited on.
        None => Err(Reason::ClientGone.into()),
    }
}

/// Asks the farther level of the cache.
async fn recall<C: ClientIo>(x: &mut Exchange<'_, C>, cache: &RouteCache, asked: &Asked) -> Option<Arc<Entry>> {
    // RFC 9111 section 4: HEAD is served from answers to GET.
    let first = if asked.class == Class::Head { Class::Get } else { asked.class };
    let second = (first != asked.class).then_some(asked.class);
    for class in std::iter::once(first).chain(second) {
        if !x.scratch.key.is_variant() {
            x.scratch.key.set_class(class);
        }
        for _ in 0..2 {
            let key: Arc<[u8]> = x.scratch.key.whole().into();
            match cache.recall(&key).await {
                Some(Stored::Answer(entry)) => return Some(entry),
                Some(Stored::Varies(varies)) => {
                    x.scratch.key.select(&varies, &x.scratch.request, x.down.buffer.whole());
                    cache.cache.state.memory.put(key, Slot::Varies(varies));
                }
                None => break,
            }
        }
        x.scratch.key.set_class(class);
    }
    None
}

/// Decides what the head of a reply means for the cache, and begins to answer where the reply is kept.
pub(super) fn receive<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    snapshot: &Snapshot,
    route: RouteId,
    buf: &[u8],
) -> Received {
    let Some(cache) = &snapshot.routes[route.0].cache else { return Received::Forward };
    let policy = &cache.policy;
    let reply = &x.scratch.response;
    let lines = LiveLines::new(&reply.fields, buf);
    let Some(mut lead) = x.cache.lead.take() else {
        invalidate(x, cache, reply.status, lines);
        return Received::Forward;
    };
    let times = Times { sent_ms: lead.sent_ms, received_ms: clock::unix_ms() };
    let is_error = reuse::is_error(reply.status);
    if let Some(get) = lead.beside.take() {
        head_says(x, cache, snapshot, route, (&lead, &get), buf);
    }
    let reply = &x.scratch.response;
    if let Some(stored) = lead.stored.clone() {
        let terms = cache.cache.terms(&stored);
        if reply.status == 304 {
            if !update::confirms(&terms, stored.head.fields(), lines) {
                lead.stored = None;
                x.cache.must_fetch_whole = true;
                x.cache.lead = Some(lead);
                return Received::Again;
            }
            let mut fields = Vec::with_capacity(stored.head.fields.len());
            let fresh = update::freshen(policy, &lead.asked, &terms, &stored.head.fields, lines, times, &mut fields);
            let (terms, kept) = match fresh {
                Freshened::Stored(terms) => (terms, true),
                Freshened::NotStored(terms, _) => (terms, false),
            };
            let edits = &snapshot.config().routes[route.0].headers.response;
            // The 304 may name other fields in `Vary` than the stored answer did.
            let filed = kept.then(|| {
                let mut names = Vec::new();
                let _ = rules::vary::write_names(StoredLines(&fields), &mut names);
                lead.file(&names, &mut x.scratch.key, &x.scratch.request, x.down.buffer.whole())
            });
            let tags = &cache.cache.settings.tags;
            let head = stored.head.renewed(terms, fields, filed, lead.sent_ms, edits, tags);
            let entry = Arc::new(Entry::new(Arc::new(head), stored.body.clone()));
            cache.metrics.revalidated();
            x.log.cache = Some("revalidated");
            let outcome = Outcome::Forwarded { why: lead.fwd, status: Some(304), stored: kept, collapsed: None };
            if kept {
                cache.remember(&lead.primary(), &entry);
            } else {
                replaced(cache, &stored);
            }
            lead.confirmed(entry.clone(), kept);
            x.cache.serve = Some((entry, outcome));
            return Received::Replaced;
        }
        if is_error && may_replace_error(&terms, &lead.asked, times.received_ms) {
            let status = Some(reply.status);
            count_stand_in(x, cache);
            lead.stand_in(stored.clone());
            x.cache.serve = Some((stored, Outcome::Rescued { status }));
            return Received::Replaced;
        }
    }

    let length = match reply.body {
        _ if lead.asked.class == Class::Head => reply.content_length,
        BodyKind::None => Some(0),
        BodyKind::Length(length) => Some(length),
        BodyKind::Chunked | BodyKind::UntilClose => None,
    };
    let has_room = lead.asked.class == Class::Head || lead.has_room(length.unwrap_or(0));
    let considered = storable::consider(policy, &lead.asked, reply.status, lines, times);
    // A part that says it is the whole must have the length of the whole.
    let is_whole = reply.status != 206 || (length.is_some() && length == rules::range::whole_length(lines));
    // What stands in for the first choice is not what the route wants to be known for.
    let terms = match considered {
        Ok(terms) if has_room && x.log.slot <= 1 && is_whole => terms,
        _ => {
            cache.metrics.uncacheable();
            if let (Some(stored), false) = (&lead.stored, is_error) {
                replaced(cache, stored);
            }
            lead.apart(is_error);
            return if x.cache.is_background { Received::Unwanted } else { Received::Forward };
        }
    };
    let mut names = Vec::new();
    // What cannot be told apart was not considered fit.
    let _ = rules::vary::write_names(lines, &mut names);
    let (key, varies) = lead.file(&names, &mut x.scratch.key, &x.scratch.request, x.down.buffer.whole());
    let mut fields = Vec::with_capacity(reply.end);
    head::store(policy, lines, times.received_ms, &mut fields);
    let edits = &snapshot.config().routes[route.0].headers.response;
    let head = Head::new(
        (terms, lead.asked.class),
        fields,
        length,
        (key, varies),
        lead.sent_ms,
        edits,
        &cache.cache.settings.tags,
    );
    let head = Arc::new(head);
    lead.begin(head.clone());
    let delivery = if x.cache.is_background {
        None
    } else {
        let outcome = Outcome::Forwarded { why: lead.fwd, status: None, stored: length.is_some(), collapsed: None };
        lead.reader().map(|reader| begin_delivery(x, cache, &lead.asked, &head, reader, outcome))
    };
    let intake = Intake::new(x.scratch.response.body);
    Received::Keep(Box::new(Keeping { lead, head, intake, delivery, upstream_due: 0, client_due: 0, due: 0 }))
}

/// What the answer to a forwarded HEAD says of a stored answer to GET (RFC 9111 section 4.3.5): it is confirmed, or another answer by now.
/// In mode `ttl` it says nothing: there the time decides.
fn head_says<C: ClientIo>(
    x: &Exchange<'_, C>,
    cache: &Rc<RouteCache>,
    snapshot: &Snapshot,
    route: RouteId,
    (lead, get): (&Lead, &Arc<Entry>),
    buf: &[u8],
) {
    let reply = &x.scratch.response;
    let (policy, lines) = (&cache.policy, LiveLines::new(&reply.fields, buf));
    let terms = cache.cache.terms(get);
    if !policy.is_http() {
        return;
    }
    match update::head_effect(&terms, get.head.fields(), get.body.len() as u64, reply.status, lines) {
        HeadEffect::None => {}
        HeadEffect::Invalidate => {
            // All that were asked for until then; what this HEAD brings was asked for later.
            let until_ms = lead.sent_ms.saturating_sub(1).max(get.head.asked_ms);
            change(cache, url_of(&get.head.key), until_ms);
        }
        HeadEffect::Freshen => {
            let times = Times { sent_ms: lead.sent_ms, received_ms: clock::unix_ms() };
            let asked = Asked { class: Class::Get, ..lead.asked };
            let mut fields = Vec::with_capacity(get.head.fields.len());
            let fresh = update::freshen(policy, &asked, &terms, &get.head.fields, lines, times, &mut fields);
            let mut names = Vec::new();
            let _ = rules::vary::write_names(StoredLines(&fields), &mut names);
            let same = names == get.head.varies.as_ref().map_or(&[][..], |varies| &varies.names);
            let Freshened::Stored(terms) = fresh else { return replaced(cache, get) };
            if !same {
                return replaced(cache, get);
            }
            let edits = &snapshot.config().routes[route.0].headers.response;
            let tags = &cache.cache.settings.tags;
            let head = get.head.renewed(terms, fields, None, lead.sent_ms, edits, tags);
            let entry = Arc::new(Entry::new(Arc::new(head), get.body.clone()));
            cache.metrics.revalidated();
            if lead.store(&entry) {
                let mut primary = lead.primary().to_vec();
                set_class(&mut primary, Class::Get);
                cache.remember(&primary, &entry);
            }
        }
    }
}

/// What an unsafe method changed is not answered from the cache any more (RFC 9111 section 4.4).
fn invalidate<C>(x: &Exchange<'_, C>, cache: &RouteCache, status: u16, reply: LiveLines<'_>) {
    let request = &x.scratch.request;
    if rules::invalidate::is_invalidating(&cache.policy, request.method) {
        let trusted = x.down.client.peer_is_trusted;
        let url = url((request, x.down.buffer.whole()), &x.scratch.path, trusted);
        let now_ms = clock::unix_ms();
        rules::invalidate::each_url(&cache.policy, &url, status, reply, |url| change(cache, url, now_ms));
    }
}

/// The origin has another answer by now, which is not kept: what is stored, in a farther level too, is not used as it is.
fn replaced(cache: &RouteCache, stored: &Entry) {
    cache.cache.state.memory.remove(&stored.head.key);
    if cache.remote.is_some() {
        change(cache, url_of(&stored.head.key), stored.head.asked_ms);
    }
}

/// What is stored of a URL and was asked for until then must be confirmed, here and in every gateway that shares the store.
fn change(cache: &RouteCache, url: &[u8], until_ms: u64) {
    cache.cache.state.invalidated.note(url, until_ms);
    if cache.remote.is_some() {
        let which = Which::Url(String::from_utf8_lossy(url).into_owned());
        cache.announce(&Event { which, soft: false, is_change: true, at_ms: until_ms });
    }
}

/// The whole reply is here; the client may still wait for a part of it.
pub(super) fn kept<C: ClientIo>(x: &mut Exchange<'_, C>, snapshot: &Snapshot, route: RouteId, keeping: Keeping) {
    let Keeping { lead, head, delivery, .. } = keeping;
    let primary = lead.primary();
    if let (Some(entry), Some(cache)) = (lead.finish(head), &snapshot.routes[route.0].cache) {
        cache.metrics.stored();
        cache.remember(&primary, &entry);
    }
    x.cache.delivery = delivery;
}

/// What came of waiting for the fetch of another request.
enum Followed {
    /// The client has its answer.
    Served,
    /// Each must ask for itself.
    Apart,
    /// The fetch failed, for this reason if there was one.
    Broken(Option<Error>),
    /// The answer is not for a request like this.
    Differs,
}

async fn follow<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    cache: &RouteCache,
    asked: &Asked,
    reader: Reader,
) -> Result<Followed, Error> {
    let progress = poll_fn(|cx| {
        if let Poll::Ready(progress) = reader.poll_progress(Some(cx)) {
            return Poll::Ready(Ok(progress));
        }
        if x.down.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(Error::from(Reason::ClientGone)));
        }
        Poll::Pending
    });
    let progress = progress.await?;
    let now_ms = clock::unix_ms();
    let outcome = Outcome::Forwarded { why: Fwd::UriMiss, status: None, stored: false, collapsed: Some(true) };
    match progress {
        Progress::Apart => Ok(Followed::Apart),
        Progress::Broken(error) => Ok(Followed::Broken(error)),
        Progress::StandsIn(entry) => {
            let terms = cache.cache.terms(&entry);
            if !is_same_variant(x, &entry.head) || !may_replace_error(&terms, asked, now_ms) {
                return Ok(Followed::Apart);
            }
            cache.metrics.miss();
            count_stand_in(x, cache);
            serve(x, cache, asked, &entry, &terms, Outcome::Rescued { status: None }).await?;
            Ok(Followed::Served)
        }
        Progress::Found(entry) => {
            let terms = cache.cache.terms(&entry);
            let same = is_same_variant(x, &entry.head);
            if !coalesce::may_share(&terms, asked, same, now_ms) {
                return Ok(if same { Followed::Apart } else { Followed::Differs });
            }
            count_hit(x, cache, &terms);
            serve(x, cache, asked, &entry, &terms, Outcome::Hit).await?;
            Ok(Followed::Served)
        }
        Progress::Whole(entry) => {
            let same = is_same_variant(x, &entry.head);
            if !coalesce::may_share(&entry.head.terms, asked, same, now_ms) {
                return Ok(if same { Followed::Apart } else { Followed::Differs });
            }
            count_collapsed(x, cache);
            serve(x, cache, asked, &entry, &entry.head.terms, outcome).await?;
            Ok(Followed::Served)
        }
        Progress::Begun(head) => {
            let same = is_same_variant(x, &head);
            if !coalesce::may_share(&head.terms, asked, same, now_ms) {
                return Ok(if same { Followed::Apart } else { Followed::Differs });
            }
            count_collapsed(x, cache);
            x.skip_body();
            let delivery = begin_delivery(x, cache, asked, &head, reader, outcome);
            deliver(x, delivery).await?;
            Ok(Followed::Served)
        }
    }
}

fn count_collapsed<C>(x: &mut Exchange<'_, C>, cache: &RouteCache) {
    cache.metrics.miss();
    cache.metrics.coalesced();
    x.log.cache = Some("coalesced");
}

/// Whether the request selects this answer among those of its URL.
fn is_same_variant<C: ClientIo>(x: &mut Exchange<'_, C>, head: &Head) -> bool {
    let Some(varies) = &head.varies else { return true };
    x.scratch.key.select(varies, &x.scratch.request, x.down.buffer.whole());
    *x.scratch.key.whole() == *head.key
}

/// Answers from a whole entry.
async fn serve<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    cache: &RouteCache,
    asked: &Asked,
    entry: &Entry,
    terms: &Terms,
    outcome: Outcome,
) -> Result<(), Error> {
    x.skip_body();
    let lines = LiveLines::new(&x.scratch.request.fields, x.down.buffer.whole());
    // A stored answer to HEAD has no body, but knows the length of one.
    let length = match entry.head.class {
        Class::Head => entry.head.length,
        Class::Get | Class::Post => Some(entry.body.len() as u64),
    };
    let choice = choose(asked, lines, terms, entry.head.fields(), length.unwrap_or(0));
    let announced = length.and_then(|length| choice.content_length(terms, length));
    let framing = announced.map_or(BodyKind::None, BodyKind::Length);
    write_head(x, cache, &entry.head, terms, choice, (framing, length.unwrap_or(0)), outcome);
    let body = match choice {
        _ if x.scratch.request.method == Method::Head => &[],
        Choice::Whole => &entry.body[..],
        Choice::Part { first, last } => {
            let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(entry.body.len());
            &entry.body[at(first)..at(last.saturating_add(1))]
        }
        Choice::NotModified | Choice::Unsatisfiable => &[],
    };
    x.answer = Answer::Begun;
    x.log.response_bytes += (x.down.out.bytes.len() + body.len()) as u64;
    let idle = x.snapshot.config().server.body_idle_timeout;
    x.down.send(body, idle).await.map_err(|_| Error::from(Reason::ClientGone))?;
    x.answer = Answer::Complete;
    Ok(())
}

/// Writes the head of an answer whose body is still on its way.
fn begin_delivery<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    cache: &RouteCache,
    asked: &Asked,
    head: &Head,
    reader: Reader,
    outcome: Outcome,
) -> Delivery {
    x.close |= !x.body_read;
    let lines = LiveLines::new(&x.scratch.request.fields, x.down.buffer.whole());
    // A request for a part neither leads nor follows: its own fields were passed on.
    let whole = Asked { has_range: false, ..*asked };
    let choice = choose(&whole, lines, &head.terms, head.fields(), head.length.unwrap_or(0));
    let framing = match (choice, head.length, x.scratch.request.version) {
        (Choice::Whole, Some(_), _) if head.terms.status == 204 => BodyKind::None,
        (Choice::Whole, Some(length), _) => BodyKind::Length(length),
        (Choice::Whole, None, _) if head.class == Class::Head => BodyKind::None,
        (Choice::Whole, None, Version::Http11) => BodyKind::Chunked,
        (Choice::Whole, None, Version::Http10) => BodyKind::UntilClose,
        _ => BodyKind::None,
    };
    x.close |= framing == BodyKind::UntilClose;
    write_head(x, cache, head, &head.terms, choice, (framing, head.length.unwrap_or(0)), outcome);
    x.answer = Answer::Begun;
    x.log.response_bytes += x.down.out.bytes.len() as u64;
    let has_body = choice == Choice::Whole && x.scratch.request.method != Method::Head;
    Delivery::new(reader, framing, has_body)
}

fn write_head<C: ClientIo>(
    x: &mut Exchange<'_, C>,
    cache: &RouteCache,
    head: &Head,
    terms: &Terms,
    choice: Choice,
    (framing, length): (BodyKind, u64),
    outcome: Outcome,
) {
    let status = choice.status(terms);
    let out = &mut x.down.out.bytes;
    encode::status_line(out, status, encode::reason(status).as_bytes());
    head::write_fields(head.lines(), choice, length, out);
    status::write(cache.policy.headers, outcome, Some(terms), clock::unix_ms(), NAME, out);
    out.extend_from_slice(&x.scratch.answer_lines);
    match framing {
        BodyKind::Length(length) => encode::content_length(out, length),
        BodyKind::Chunked => encode::chunked(out),
        BodyKind::None | BodyKind::UntilClose => {}
    }
    write_connection(out, x.scratch.request.version, x.close);
    out.extend_from_slice(b"\r\n");
    x.log.status = status;
}

/// Appends what the client of an answer that goes through as it is learns of the cache.
pub(super) fn tell(out: &mut Vec<u8>, told: Option<Outcome>, snapshot: &Snapshot, route: RouteId) {
    if let (Some(outcome), Some(cache)) = (told, &snapshot.routes[route.0].cache) {
        // `X-Cache` is for what was cacheable.
        let headers = CacheHeaders { x_cache: false, ..cache.policy.headers };
        status::write(headers, outcome, None, clock::unix_ms(), NAME, out);
    }
}

/// Brings the rest of an answer to the client.
async fn deliver<C: ClientIo>(x: &mut Exchange<'_, C>, mut delivery: Delivery) -> Result<(), Error> {
    let idle = x.snapshot.config().server.body_idle_timeout;
    let mut was_blocked = false;
    let result = poll_fn(|cx| {
        let mut progress = false;
        if let Poll::Ready(result) = delivery.poll(cx, x.down, false, &mut progress) {
            return Poll::Ready(result);
        }
        let is_blocked = delivery.is_blocked(&x.down.out);
        if progress || is_blocked != was_blocked {
            // Who waits for the origin waits as long as the one who asked it.
            x.down.deadline.set(if is_blocked { idle } else { None });
            was_blocked = is_blocked;
        }
        if (!is_blocked && x.down.poll_gone(cx).is_ready()) || (is_blocked && x.down.deadline.poll_passed(cx)) {
            return Poll::Ready(Err(Stopped::Gone));
        }
        Poll::Pending
    })
    .await;
    x.log.response_bytes += delivery.bytes;
    match result {
        Ok(()) => {
            x.answer = Answer::Complete;
            Ok(())
        }
        Err(Stopped::Gone) => Err(Reason::ClientGone.into()),
        Err(Stopped::Broken) => Err(Error::new(Reason::BodyTruncated, "the fetch that this request shared broke off")),
    }
}

/// Reads the body of a POST ahead, without using it up, for the key. `None` when it has no canonical form, or is large.
///
/// # Errors
/// The body cannot be read.
async fn body_digest<C: ClientIo>(x: &mut Exchange<'_, C>) -> Result<Option<BodyDigest>, Error> {
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
            Waited::Closed => return Err(Reason::ClientGone.into()),
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
