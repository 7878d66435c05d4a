//! What the head of a reply means for the cache, and what happens to the reply.

use std::rc::Rc;
use std::sync::Arc;

use h1::{BodyKind, ResponseHead};

use super::Serve;
use super::count_stale_on_error;
use super::serve::begin_delivery;
use crate::config::RouteId;
use crate::exchange::delivery::Delivery;
use crate::exchange::intake::Intake;
use crate::exchange::{Exchange, changed};
use crate::io::buffer::Buffer;
use crate::policy::cache::RouteCache;
use crate::policy::cache::entry::{Entry, Head, has_tags};
use crate::policy::cache::lead::{Lead, NotShared};
use crate::policy::cache::lookup::url;
use crate::policy::cache::purge::Change;
use crate::policy::cache::rules::key::{set_class, url_of};
use crate::policy::cache::rules::reuse::{self, may_replace_error};
use crate::policy::cache::rules::status::Outcome;
use crate::policy::cache::rules::targeted::Effective;
use crate::policy::cache::rules::update::{Freshened, HeadEffect};
use crate::policy::cache::rules::{self, CacheRequest, Class, LiveLines, StoredLines, Times, head, storable, update};
use crate::runtime::clock;
use crate::worker::snapshot::Snapshot;

/// A reply that is being kept.
pub struct Keeping {
    /// This exchange's part in the fetch.
    pub lead: Box<Lead>,
    head: Arc<Head>,
    /// The reply's body.
    pub intake: Intake,
    /// What the client gets of it; `None` once it has disconnected.
    pub delivery: Option<Delivery>,
    /// When the origin must have sent more, in nanoseconds since process start; 0: not known yet.
    pub upstream_due: u64,
    /// It waited until readers took what was read, so that the origin's time begins anew.
    pub waited_for_room: bool,
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
pub(in crate::exchange) enum Received {
    /// It goes to the client as it is.
    Forward,
    /// It is kept.
    Keep(Box<Keeping>),
    /// It is kept already, because the whole of it had come: so many bytes of body. The client gets it from the cache.
    Kept(usize),
    /// The client gets something else.
    Replaced,
    /// It confirms nothing that is stored: the request must be sent again without conditions.
    Again,
    /// No one wants it.
    Unwanted,
}

/// Decides what the head of a reply means for the cache, and begins the response where the reply is kept.
pub(in crate::exchange) fn receive(
    x: &mut Exchange<'_>,
    snapshot: &Snapshot,
    route: RouteId,
    buffer: &Buffer,
) -> Received {
    let buf = buffer.whole();
    let Some(cache) = &snapshot.routes[route.0].cache else { return Received::Forward };
    let policy = &cache.policy;
    let response = &x.scratch.response;
    let lines = LiveLines::new(&response.fields, buf);
    let Some(mut lead) = x.cache.lead.take() else {
        invalidate(x, cache, response.status, lines);
        return Received::Forward;
    };
    let times = Times { sent_ms: lead.sent_ms, received_ms: clock::unix_ms() };
    let is_error = reuse::is_error(response.status);
    if let Some(get) = lead.beside.take() {
        head_says(x, cache, (&lead, &get), buf);
    }
    let response = &x.scratch.response;
    if let Some(stored) = lead.stored.clone() {
        let freshness = cache.cache.freshness(&stored);
        if response.status == 304 && lead.is_conditional {
            if !update::confirms(&freshness, stored.head.fields(), lines) {
                lead.fetch_whole();
                x.cache.must_fetch_whole = true;
                x.cache.lead = Some(lead);
                return Received::Again;
            }
            let stored_fields = stored.head.fields().0;
            let mut fields = Vec::with_capacity(stored_fields.len());
            let fresh = update::freshen(policy, &lead.wanted, &freshness, stored_fields, lines, times, &mut fields);
            let (freshness, kept) = match fresh {
                Freshened::Stored(freshness) => (freshness, true),
                Freshened::NotStored(freshness, _) => (freshness, false),
            };
            // The 304 may name other fields in `Vary` than the stored response did.
            let filed = kept.then(|| {
                let mut names = Vec::new();
                let _ = rules::vary::write_names(StoredLines(&fields), &mut names);
                lead.file(&names, &mut x.scratch.key, &x.scratch.request, x.down.buffer.whole())
            });
            let tags = &cache.cache.settings.tags;
            let entry = stored.renewed(freshness, &fields, filed, lead.began(), &cache.edits, tags);
            cache.metrics.revalidated();
            x.log.cache = Some("revalidated");
            let outcome = Outcome::Forwarded { why: lead.fwd, status: Some(304), stored: kept, collapsed: None };
            if kept {
                cache.l2_put(lead.primary(), &entry);
                lead.confirmed(entry.clone());
            } else {
                // It is for this client only, like any other response that is not stored.
                if storable::supersedes(&lead.wanted, entry.head.freshness.status) {
                    replaced(cache, &stored);
                }
                let why = NotShared::uncacheable(&lead.wanted, response.status);
                lead.not_shared(why);
            }
            x.cache.serve = Some(Serve { entry, outcome, is_whole: false });
            return Received::Replaced;
        }
        if is_error && may_replace_error(&freshness, &lead.wanted, times.received_ms) {
            let status = Some(response.status);
            count_stale_on_error(x, cache);
            lead.serve_stale(stored.clone());
            x.cache.serve = Some(Serve { entry: stored, outcome: Outcome::StaleOnError { status }, is_whole: false });
            return Received::Replaced;
        }
    }

    let length = match response.body {
        _ if lead.wanted.class == Class::Head => response.content_length,
        BodyKind::None => Some(0),
        BodyKind::Length(length) => Some(length),
        BodyKind::Chunked | BodyKind::UntilClose => None,
    };
    let length_to_keep = if lead.wanted.class == Class::Head { 0 } else { length.unwrap_or(0) };
    let effective = Effective::read(lines);
    let considered = storable::consider(policy, &lead.wanted, response.status, lines, &effective, times);
    // A part that says it is the whole must have the length of the whole.
    let is_whole = response.status != 206 || (length.is_some() && length == rules::range::whole_length(lines));
    // The response of a fallback is not what the route wants to be known for, and says nothing of the primary's.
    let is_transient = x.log.fell_back || !lead.has_room(length_to_keep);
    let freshness = match considered {
        Ok(freshness) if !is_transient && is_whole && lead.fits(length_to_keep) => freshness,
        _ => {
            cache.metrics.uncacheable();
            if let Some(stored) = &lead.stored
                && !is_transient
                && storable::supersedes(&lead.wanted, response.status)
            {
                replaced(cache, stored);
            }
            let why = match () {
                () if is_error => NotShared::Error,
                () if is_transient => NotShared::Transient,
                () => NotShared::uncacheable(&lead.wanted, response.status),
            };
            lead.not_shared(why);
            return if x.cache.is_background { Received::Unwanted } else { Received::Forward };
        }
    };
    let mut names = Vec::new();
    // This does not fail: `consider` has refused a `Vary` that no key can represent.
    let _ = rules::vary::write_names(lines, &mut names);
    let (key, varies) = lead.file(&names, &mut x.scratch.key, &x.scratch.request, x.down.buffer.whole());
    let fields = &mut x.scratch.fields;
    fields.clear();
    head::store(policy, lines, &effective, times.received_ms, fields);
    let tag_fields = &cache.cache.settings.tags[..];
    let body = whole_body(&x.scratch.response, x.body.has_read_all(), buffer.filled());
    let head = Head::new(
        (freshness, lead.wanted.class),
        (fields, body.unwrap_or_default()),
        length,
        (key, varies),
        lead.began(),
        &cache.edits,
        if has_tags(lines, tag_fields) { tag_fields } else { &[] },
    );
    if let Some(body) = body {
        let entry = Entry::at_once(head);
        let outcome = Outcome::Forwarded { why: lead.fwd, status: None, stored: true, collapsed: None };
        finish(cache, lead, &entry);
        if !x.cache.is_background {
            x.cache.serve = Some(Serve { entry, outcome, is_whole: true });
        }
        return Received::Kept(body.len());
    }
    let head = Arc::new(head);
    let delivery = if x.cache.is_background {
        lead.begin(head.clone());
        None
    } else {
        let outcome = Outcome::Forwarded { why: lead.fwd, status: None, stored: length.is_some(), collapsed: None };
        let reader = lead.begin_and_read(head.clone());
        Some(begin_delivery(x, cache, &lead.wanted, &head, reader, outcome))
    };
    let intake = Intake::new(x.scratch.response.body);
    Received::Keep(Box::new(Keeping {
        lead,
        head,
        intake,
        delivery,
        upstream_due: 0,
        waited_for_room: false,
        client_due: 0,
        due: 0,
    }))
}

/// The body of the reply, where all of it came with the head, as short ones do: then nobody has to wait for it, and nothing to be passed on in pieces.
fn whole_body<'b>(response: &ResponseHead, request_was_sent: bool, came: &'b [u8]) -> Option<&'b [u8]> {
    match response.body {
        BodyKind::Length(length) if request_was_sent => came.get(..usize::try_from(length).ok()?),
        _ => None,
    }
}

/// What the response to a forwarded HEAD says of a stored response to GET (RFC 9111 section 4.3.5): it is confirmed, or the origin has another one by
/// now. In mode `ttl` it says nothing: there the time decides.
fn head_says(x: &Exchange<'_>, cache: &Rc<RouteCache>, (lead, get): (&Lead, &Entry), buf: &[u8]) {
    let response = &x.scratch.response;
    let (policy, lines) = (&cache.policy, LiveLines::new(&response.fields, buf));
    let freshness = cache.cache.freshness(get);
    if !policy.is_http() {
        return;
    }
    match update::head_effect(&freshness, get.head.fields(), get.body().len() as u64, response.status, lines) {
        HeadEffect::None => {}
        HeadEffect::Invalidate => {
            // All that were requested until then; the response to this HEAD was requested later.
            let until_ms = lead.sent_ms.saturating_sub(1).max(get.head.requested_ms);
            change(cache, url_of(&get.head.key), until_ms);
        }
        HeadEffect::Freshen => {
            let times = Times { sent_ms: lead.sent_ms, received_ms: clock::unix_ms() };
            let wanted = CacheRequest { class: Class::Get, ..lead.wanted };
            let stored_fields = get.head.fields().0;
            let mut fields = Vec::with_capacity(stored_fields.len());
            let fresh = update::freshen(policy, &wanted, &freshness, stored_fields, lines, times, &mut fields);
            let mut names = Vec::new();
            let _ = rules::vary::write_names(StoredLines(&fields), &mut names);
            let same = names == get.head.varies.as_ref().map_or(&[][..], |varies| &varies.names);
            let Freshened::Stored(freshness) = fresh else { return replaced(cache, get) };
            if !same {
                return replaced(cache, get);
            }
            let tags = &cache.cache.settings.tags;
            let entry = get.renewed(freshness, &fields, None, lead.began(), &cache.edits, tags);
            cache.metrics.revalidated();
            if lead.store(&entry) {
                let mut primary = lead.primary().to_vec();
                set_class(&mut primary, Class::Get);
                cache.l2_put(&primary, &entry);
            }
        }
    }
}

/// What an unsafe method changed is not served from the cache any more (RFC 9111 section 4.4).
fn invalidate(x: &Exchange<'_>, cache: &RouteCache, status: u16, response: LiveLines<'_>) {
    let request = &x.scratch.request;
    if rules::invalidate::is_invalidating(&cache.policy, request.method) {
        let trusted = x.down.client.peer_is_trusted;
        let buf = x.down.buffer.whole();
        let query = changed::query(x.changed.as_deref(), request, buf);
        let url = url((request, buf, query), &x.scratch.path, (trusted, x.down.client.scheme()));
        let now_ms = clock::unix_ms();
        rules::invalidate::each_url(&cache.policy, &url, status, response, |url| change(cache, url, now_ms));
    }
}

/// The origin has another response by now, which is not kept: what is stored, in L2 too, is not used as it is.
fn replaced(cache: &RouteCache, stored: &Entry) {
    // Only this one: a newer one may have taken its place.
    cache.cache.state.memory.remove_response(&stored.head.key, stored);
    if cache.remote.is_some() {
        change(cache, url_of(&stored.head.key), stored.head.requested_ms);
    }
}

/// What is stored of a URL and was requested until then must be confirmed, here and in every gateway that shares the store.
fn change(cache: &RouteCache, url: &[u8], until_ms: u64) {
    cache.cache.state.invalidated.note(url, until_ms);
    if cache.remote.is_some() {
        cache.announce(Change { url: String::from_utf8_lossy(url).into_owned(), at_ms: until_ms });
    }
}

/// Keeps a whole response, in L1 and in L2.
fn finish(cache: &Rc<RouteCache>, lead: Box<Lead>, entry: &Entry) {
    let primary = cache.remote.is_some().then(|| lead.primary().clone());
    if lead.finish(entry) {
        cache.metrics.stored();
        if let Some(primary) = primary {
            cache.l2_put(&primary, entry);
        }
    }
}

/// The whole reply is here; the client may still wait for a part of it.
pub(in crate::exchange) fn kept(x: &mut Exchange<'_>, snapshot: &Snapshot, route: RouteId, keeping: Keeping) {
    let Keeping { lead, head, delivery, .. } = keeping;
    match (lead.fill().take_body(), &snapshot.routes[route.0].cache) {
        (Some(body), Some(cache)) => finish(cache, lead, &Entry::new(head, body)),
        _ => lead.end(),
    }
    if delivery.is_some() {
        // The exchange ends with its client, not with the fetch.
        x.log.ended_ns = 0;
    }
    x.cache.delivery = delivery;
}
