//! A response as it is kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use compress::Coding;
use h1::encode;

use super::flights::Began;
use super::key::Key;
use super::lead::Filed;
use super::lookup::Varies;
use super::rules::{Class, Freshness, Lines, StoredLines};
use crate::config::Edits;

/// What is known of a response when its head is here; its body may still be on its way. All of a response is one piece of memory, and its text
/// another: what is evicted has long left the processor's caches, and each piece that must be freed is fetched once more for it.
#[derive(Debug)]
pub struct Head {
    /// How long it may be used, and for what.
    pub freshness: Freshness,
    /// Which requests it responds to.
    pub class: Class,
    /// Field lines as they are stored: the origin's, without those of one connection, framing and `Age`. Behind them the body, where it came
    /// with the head.
    text: Box<[u8]>,
    /// Length of the field lines.
    fields: usize,
    /// The field lines with the route's edits, where it has some.
    edited: Option<Box<[u8]>>,
    /// Length of the body, where the origin said it.
    pub length: Option<u64>,
    /// What it is filed under.
    pub key: Key,
    /// What tells it apart from other responses of its URL, if something does.
    pub varies: Option<Arc<Varies>>,
    /// When the request for it was sent to the origin, in milliseconds since the Unix epoch.
    pub requested_ms: u64,
    /// The generation of purges that was known when its fetch began.
    pub generation: u64,
    /// Tags to purge it by.
    pub tags: Box<[Box<[u8]>]>,
    /// The body, once it is whole, if it came after the head.
    body: OnceLock<Bytes>,
    /// The body in other codings, once a client took it in one.
    coded: OnceLock<Arc<Coded>>,
    /// When an operator called it stale, in milliseconds since the Unix epoch; 0: never.
    purged_ms: AtomicU64,
    /// Until then (nanoseconds since process start) requests with credentials validate it each for itself: the origin's last response to one of
    /// them was not for others.
    credentials_alone_until_ns: AtomicU64,
}

impl Head {
    /// The head of a response with these stored `fields`; it is put together once as clients get it. `body` is the whole body if it is here
    /// already ([`Entry::at_once`]), else nothing.
    pub fn new(
        (freshness, class): (Freshness, Class),
        (fields, body): (&[u8], &[u8]),
        length: Option<u64>,
        (key, varies): Filed,
        began: Began,
        edits: &Edits,
        tag_fields: &[Arc<str>],
    ) -> Self {
        let edited = (!edits.is_empty()).then(|| edit(fields, edits));
        let tags = tags(StoredLines(fields), tag_fields);
        let mut text = Vec::with_capacity(fields.len() + body.len());
        text.extend_from_slice(fields);
        text.extend_from_slice(body);
        Head {
            freshness,
            class,
            text: text.into(),
            fields: fields.len(),
            edited,
            length,
            key,
            varies,
            requested_ms: began.at_ms,
            generation: began.generation,
            tags,
            body: OnceLock::new(),
            coded: OnceLock::new(),
            purged_ms: AtomicU64::new(0),
            credentials_alone_until_ns: AtomicU64::new(0),
        }
    }

    /// Field lines as clients get them; framing, `Age` and the fields of each response are still to come.
    #[inline]
    pub fn lines(&self) -> &[u8] {
        self.edited.as_deref().unwrap_or(&self.text[..self.fields])
    }

    /// The stored fields.
    #[inline]
    pub fn fields(&self) -> StoredLines<'_> {
        StoredLines(&self.text[..self.fields])
    }
}

fn edit(fields: &[u8], edits: &Edits) -> Box<[u8]> {
    let is_edited = |name: &[u8]| {
        edits.remove.iter().any(|removed| name.eq_ignore_ascii_case(removed.as_bytes()))
            || edits.set.iter().any(|(set, _)| name.eq_ignore_ascii_case(set.as_bytes()))
    };
    let mut lines = Vec::with_capacity(fields.len());
    for line in StoredLines(fields).all().filter(|line| !is_edited(line.name)) {
        encode::field(&mut lines, line.name, line.value);
    }
    for (name, value) in edits.set.iter().chain(&edits.add) {
        encode::field(&mut lines, name.as_bytes(), value.as_bytes());
    }
    lines.into()
}

/// Whether a response has a field that carries tags. Most have none, and need not be read for them when they are stored.
pub fn has_tags<'a>(lines: impl Lines<'a>, names: &[Arc<str>]) -> bool {
    !names.is_empty() && lines.all().any(|line| names.iter().any(|name| line.is(name.as_bytes())))
}

/// Tags are separated by commas or spaces: the services that made the two fields known disagree.
fn tags(fields: StoredLines<'_>, names: &[Arc<str>]) -> Box<[Box<[u8]>]> {
    if names.is_empty() {
        return Box::default();
    }
    let named = fields.all().filter(|line| names.iter().any(|name| line.is(name.as_bytes())));
    let tags = named.flat_map(|line| line.value.split(|byte| matches!(byte, b',' | b' ' | b'\t')));
    tags.filter(|tag| !tag.is_empty()).map(Into::into).collect()
}

/// A whole response: a head whose body is here. Never changed, but for a soft purge: one that is freshened is replaced. A clone is the same response.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its head.
    pub head: Arc<Head>,
    /// Bytes of its codings that count. Those of the head grow, and what a store weighs must not change while it is there.
    coded_bytes: usize,
}

impl Entry {
    /// The response whose body came after its head, and is whole now.
    pub fn new(head: Arc<Head>, body: Bytes) -> Self {
        let is_first = head.body.set(body).is_ok();
        debug_assert!(is_first, "a body is whole once");
        Entry { head, coded_bytes: 0 }
    }

    /// The response whose body came with its head.
    pub fn at_once(head: Head) -> Self {
        Entry { head: Arc::new(head), coded_bytes: 0 }
    }

    /// The same response on other terms, with other fields; `filed` if it is under another key now.
    pub fn renewed(
        &self,
        freshness: Freshness,
        fields: &[u8],
        filed: Option<Filed>,
        began: Began,
        edits: &Edits,
        tag_fields: &[Arc<str>],
    ) -> Self {
        let head = &self.head;
        let filed = filed.unwrap_or_else(|| (head.key.clone(), head.varies.clone()));
        let renew =
            |body| Head::new((freshness, head.class), (fields, body), head.length, filed, began, edits, tag_fields);
        let renewed = match head.body.get() {
            Some(shared) => Entry::new(Arc::new(renew(&[])), shared.clone()),
            None => Entry::at_once(renew(self.body())),
        };
        if let Some(coded) = head.coded.get() {
            // The body is the same, and so is what was made of it.
            let _ = renewed.head.coded.set(coded.clone());
        }
        renewed.weighed()
    }

    /// The same response, with the weight of the codings that it has now.
    #[must_use]
    pub fn weighed(self) -> Self {
        let coded_bytes = self.head.coded.get().map_or(0, |coded| coded.size());
        Entry { coded_bytes, ..self }
    }

    /// Its body in a coding, if that was made before: `Some(None)` where it would be no shorter.
    pub fn coded(&self, coding: Coding) -> Option<Option<Bytes>> {
        self.head.coded.get()?.bodies[coding.index()].get().cloned()
    }

    /// Begins to make its body in a coding; `None` if it is there, or somebody makes it now.
    pub fn begin_coding(&self, coding: Coding) -> Option<CodingOf> {
        let coded = self.head.coded.get_or_init(Arc::default).clone();
        let is_first = coded.bodies[coding.index()].get().is_none()
            && !coded.are_made[coding.index()].swap(true, Ordering::Relaxed);
        is_first.then_some(CodingOf { coded, coding })
    }

    /// Its body.
    #[inline]
    pub fn body(&self) -> &[u8] {
        self.head.body.get().map_or(&self.head.text[self.head.fields..], |body| body)
    }

    /// Its body from a position on, shared with those that are writing it out, never copied.
    pub fn rest(&self, at: usize) -> Bytes {
        match self.head.body.get() {
            Some(body) => body.slice(at..),
            None => Bytes::from_owner(BodyOf(self.clone())).slice(at..),
        }
    }

    /// Whether it is the same response: not one that replaced it, or is as good.
    pub fn is(&self, other: &Entry) -> bool {
        Arc::ptr_eq(&self.head, &other.head)
    }

    /// The terms on which it may be used, if its URL was not invalidated.
    #[inline]
    pub fn freshness(&self) -> Freshness {
        let mut freshness = self.head.freshness;
        match self.head.purged_ms.load(Ordering::Relaxed) {
            0 => {}
            purged => freshness.expire(purged),
        }
        freshness
    }

    /// Calls it stale: it is used again only once the origin has confirmed it, or where a stale response is allowed.
    pub fn call_stale(&self, now_ms: u64) {
        // The first time counts.
        let _ = self.head.purged_ms.compare_exchange(0, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether it replaces another one of its key: not where that was requested later, and is no older by its date. A fetch that took an hour is a clock
    /// that was wrong.
    pub fn replaces(&self, other: &Entry) -> bool {
        let ahead_ms = other.head.requested_ms.saturating_sub(self.head.requested_ms);
        !(1..3_600_000).contains(&ahead_ms) || other.head.freshness.date_ms < self.head.freshness.date_ms
    }

    /// Until then requests with credentials do not wait for one another to validate it.
    pub fn separate_credentials(&self, until_ns: u64) {
        self.head.credentials_alone_until_ns.fetch_max(until_ns, Ordering::Relaxed);
    }

    /// Whether requests with credentials wait for one another to validate it.
    pub fn joins_credentials(&self, now_ns: u64) -> bool {
        self.head.credentials_alone_until_ns.load(Ordering::Relaxed) <= now_ns
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        let head = &self.head;
        let tags: usize = head.tags.iter().map(|tag| tag.len() + size_of::<Box<[u8]>>()).sum();
        let edited = head.edited.as_ref().map_or(0, |lines| lines.len());
        let body = head.body.get().map_or(0, Bytes::len);
        size_of::<Head>() + head.text.len() + edited + tags + body + self.coded_bytes
    }
}

/// The codings of one body, by [`Coding::index`].
#[derive(Debug, Default)]
struct Coded {
    /// Empty where the coded body would be no shorter.
    bodies: [OnceLock<Option<Bytes>>; 3],
    /// Somebody makes it now.
    are_made: [AtomicBool; 3],
}

impl Coded {
    fn size(&self) -> usize {
        let bodies = self.bodies.iter().filter_map(|body| body.get()?.as_ref());
        size_of::<Coded>() + bodies.map(Bytes::len).sum::<usize>()
    }
}

/// A body that is being coded. Dropped, somebody else may do it.
#[derive(Debug)]
pub struct CodingOf {
    coded: Arc<Coded>,
    coding: Coding,
}

impl CodingOf {
    /// The coded body, or that it would be no shorter.
    pub fn done(self, body: Option<Bytes>) {
        // It is the first: it alone makes it.
        let _ = self.coded.bodies[self.coding.index()].set(body);
    }
}

impl Drop for CodingOf {
    fn drop(&mut self) {
        self.coded.are_made[self.coding.index()].store(false, Ordering::Relaxed);
    }
}

/// A body that lies in the text of its response.
struct BodyOf(Entry);

impl AsRef<[u8]> for BodyOf {
    fn as_ref(&self) -> &[u8] {
        self.0.body()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::policy::cache::rules::LifetimeSource;

    /// A head that is fresh for ten seconds from 0 on, with a body or before it.
    pub(crate) fn head(body: &str) -> Head {
        let freshness = Freshness {
            status: 200,
            received_ms: 0,
            initial_age_ms: 0,
            lifetime_ms: 10_000,
            source: LifetimeSource::Fixed,
            stale_while_revalidate_ms: 0,
            stale_if_error_ms: 0,
            date_ms: 0,
            always_validate: false,
            never_stale: false,
            for_authorized: false,
            for_all: false,
            has_validator: false,
            has_age: false,
        };
        let filed: Filed = (Key::from(&b"key"[..]), None);
        let fields = b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nCache-Tag: a, b\r\nX-Old: 1\r\n";
        let text = (&fields[..], body.as_bytes());
        Head::new(
            (freshness, Class::Get),
            text,
            None,
            filed,
            Began::default(),
            &Edits::default(),
            &["cache-tag".into()],
        )
    }

    /// The same as a whole response.
    pub(crate) fn entry(body: &str) -> Entry {
        Entry::at_once(head(body))
    }

    #[test]
    fn a_head_has_its_tags_and_the_routes_edits() {
        let plain = entry("body");
        assert_eq!(plain.head.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(plain.head.lines(), plain.head.fields().0);
        let edits = Edits {
            set: vec![("X-New".into(), "2".into())],
            remove: vec!["x-old".into(), "date".into()],
            ..Edits::default()
        };
        let edited = plain.renewed(plain.head.freshness, plain.head.fields().0, None, Began::default(), &edits, &[]);
        assert_eq!(edited.head.lines(), b"Cache-Tag: a, b\r\nX-New: 2\r\n");
        assert!(edited.head.tags.is_empty());
    }

    /// Whether a body came with its head or after it makes no difference to who uses the response.
    #[test]
    fn a_body_is_the_same_wherever_it_lies() {
        let (with, after) = (entry("0123"), Entry::new(Arc::new(head("")), Bytes::from_static(b"0123")));
        for entry in [&with, &after] {
            assert_eq!(
                (entry.body(), &*entry.rest(1), entry.head.lines()),
                (&b"0123"[..], &b"123"[..], with.head.lines())
            );
            let renewed =
                entry.renewed(entry.head.freshness, b"A: 1\r\n", None, Began::default(), &Edits::default(), &[]);
            assert_eq!(
                (renewed.body(), &*renewed.rest(4), renewed.head.lines()),
                (&b"0123"[..], &b""[..], &b"A: 1\r\n"[..])
            );
            assert!(renewed.is(&renewed.clone()) && !renewed.is(entry));
        }
        assert_eq!(with.size(), after.size());
        let rest = with.rest(2);
        drop((with, after));
        assert_eq!(&*rest, b"23", "what is being written stays");
    }

    #[test]
    fn the_first_soft_purge_counts() {
        let entry = entry("");
        assert!(entry.freshness().is_fresh(5_000));
        entry.call_stale(4_000);
        entry.call_stale(4_500);
        assert_eq!(entry.freshness().staleness_ms(5_000), 1_000);
    }
}
