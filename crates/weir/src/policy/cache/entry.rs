//! An answer as it is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use h1::encode;

use super::key::Key;
use super::lead::Filed;
use super::lookup::Varies;
use super::rules::{Class, Lines, StoredLines, Terms};
use crate::config::Edits;

/// What is known of an answer when its head is here; its body may still be on its way.
#[derive(Debug)]
pub struct Head {
    /// How long it may be used, and for what.
    pub terms: Terms,
    /// Which requests it answers.
    pub class: Class,
    /// Field lines as they are stored: the origin's, without those of one connection, framing and `Age`.
    pub fields: Box<[u8]>,
    /// The same with the route's edits, where it has some.
    edited: Option<Box<[u8]>>,
    /// Length of the body, where the origin said it.
    pub length: Option<u64>,
    /// What it is filed under.
    pub key: Key,
    /// What tells it apart from other answers of its URL, if something does.
    pub varies: Option<Arc<Varies>>,
    /// When the origin was asked for it, in milliseconds since the Unix epoch.
    pub asked_ms: u64,
    /// Tags to purge it by.
    pub tags: Box<[Box<[u8]>]>,
}

impl Head {
    /// The head of an answer with these stored `fields`; it is put together once as clients get it.
    pub fn new(
        (terms, class): (Terms, Class),
        fields: &[u8],
        length: Option<u64>,
        (key, varies): Filed,
        asked_ms: u64,
        edits: &Edits,
        tag_fields: &[Arc<str>],
    ) -> Self {
        let edited = (*edits != Edits::default()).then(|| edit(fields, edits));
        let tags = tags(StoredLines(fields), tag_fields);
        Head { terms, class, fields: fields.into(), edited, length, key, varies, asked_ms, tags }
    }

    /// The same answer on other terms, with other fields; `filed` if it is under another key now.
    pub fn renewed(
        &self,
        terms: Terms,
        fields: &[u8],
        filed: Option<Filed>,
        asked_ms: u64,
        edits: &Edits,
        tag_fields: &[Arc<str>],
    ) -> Self {
        let filed = filed.unwrap_or_else(|| (self.key.clone(), self.varies.clone()));
        Head::new((terms, self.class), fields, self.length, filed, asked_ms, edits, tag_fields)
    }

    /// Field lines as clients get them; framing, `Age` and the fields of each answer are still to come.
    #[inline]
    pub fn lines(&self) -> &[u8] {
        self.edited.as_deref().unwrap_or(&self.fields)
    }

    /// The stored fields.
    #[inline]
    pub fn fields(&self) -> StoredLines<'_> {
        StoredLines(&self.fields)
    }

    fn size(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| tag.len() + size_of::<Box<[u8]>>()).sum();
        size_of::<Head>() + self.fields.len() + self.edited.as_ref().map_or(0, |lines| lines.len()) + tags
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

/// Whether an answer has a field that carries tags. Most have none, and need not be read for them when they are stored.
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

/// A whole answer. Never changed: one that is freshened is replaced.
#[derive(Debug)]
pub struct Entry {
    /// Its head.
    pub head: Arc<Head>,
    /// Its body; shared with those that are writing it out, never copied.
    pub body: Bytes,
    /// When an operator called it stale, in milliseconds since the Unix epoch; 0: never.
    purged_ms: AtomicU64,
    size: usize,
}

impl Entry {
    /// A whole answer.
    pub fn new(head: Arc<Head>, body: Bytes) -> Self {
        let size = size_of::<Entry>() + head.size() + body.len();
        Entry { head, body, purged_ms: AtomicU64::new(0), size }
    }

    /// The terms on which it may be used, if its URL was not invalidated.
    #[inline]
    pub fn terms(&self) -> Terms {
        let mut terms = self.head.terms;
        match self.purged_ms.load(Ordering::Relaxed) {
            0 => {}
            purged => terms.expire(purged),
        }
        terms
    }

    /// Calls it stale: it is used again only once the origin has confirmed it, or where a stale answer is allowed.
    pub fn call_stale(&self, now_ms: u64) {
        // The first time counts.
        let _ = self.purged_ms.compare_exchange(0, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::policy::cache::rules::LifetimeSource;

    /// An answer that is fresh for ten seconds from 0 on.
    pub(crate) fn entry(body: &str) -> Entry {
        let terms = Terms {
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
        };
        let filed: Filed = (Key::from(&b"key"[..]), None);
        let fields = b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nCache-Tag: a, b\r\nX-Old: 1\r\n";
        let head = Head::new((terms, Class::Get), fields, None, filed, 0, &Edits::default(), &["cache-tag".into()]);
        Entry::new(Arc::new(head), Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn a_head_has_its_tags_and_the_routes_edits() {
        let plain = entry("").head;
        assert_eq!(plain.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(plain.lines(), &*plain.fields);
        let edits = Edits {
            set: vec![("X-New".into(), "2".into())],
            remove: vec!["x-old".into(), "date".into()],
            ..Edits::default()
        };
        let edited = plain.renewed(plain.terms, &plain.fields, None, 0, &edits, &[]);
        assert_eq!(edited.lines(), b"Cache-Tag: a, b\r\nX-New: 2\r\n");
        assert!(edited.tags.is_empty());
    }

    #[test]
    fn the_first_soft_purge_counts() {
        let entry = entry("");
        assert!(entry.terms().is_fresh(5_000));
        entry.call_stale(4_000);
        entry.call_stale(4_500);
        assert_eq!(entry.terms().staleness_ms(5_000), 1_000);
    }
}
