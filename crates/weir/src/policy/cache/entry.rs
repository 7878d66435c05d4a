//! An answer as it is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::lookup::Varies;
use super::rules::{StoredLines, Terms};

/// What is known of an answer when its head is here; its body may still be on its way.
#[derive(Debug)]
pub struct Head {
    /// How long it may be used, and for what.
    pub terms: Terms,
    /// Status line and fields as the origin sent them, without those of one connection, framing and `Age`.
    pub text: Box<[u8]>,
    /// Where in `text` the fields begin.
    pub fields_at: usize,
    /// `text` with the route's edits, where it has some.
    pub edited: Option<Box<[u8]>>,
    /// Length of the body, where the origin said it.
    pub length: Option<u64>,
    /// What it is filed under.
    pub key: Arc<[u8]>,
    /// What tells it apart from other answers of its URL, if something does.
    pub varies: Option<Arc<Varies>>,
    /// Tags to purge it by.
    pub tags: Box<[Box<[u8]>]>,
}

impl Head {
    /// Status line and fields as a client gets them; framing, `Age` and the fields of each answer are still to come.
    #[inline]
    pub fn lines(&self) -> &[u8] {
        self.edited.as_deref().unwrap_or(&self.text)
    }

    /// The origin's fields.
    #[inline]
    pub fn fields(&self) -> StoredLines<'_> {
        StoredLines(&self.text[self.fields_at..])
    }

    fn size(&self) -> usize {
        let tags: usize = self.tags.iter().map(|tag| tag.len() + size_of::<Box<[u8]>>()).sum();
        size_of::<Head>() + self.text.len() + self.edited.as_ref().map_or(0, |lines| lines.len()) + tags
    }
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
}

impl Entry {
    /// A whole answer.
    pub fn new(head: Arc<Head>, body: Bytes) -> Self {
        Entry { head, body, purged_ms: AtomicU64::new(0) }
    }

    /// The terms on which it may be used now.
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
        size_of::<Entry>() + self.head.size() + self.body.len()
    }
}
