//! What a request finds.

use h1::{Known, RequestHead};

use super::entry::Entry;
use super::key::{Key, KeyRef, hash_of};
use super::rules::key::{BodyDigest, Url, sized, url_of};
use super::rules::{CacheRequest, Class, LiveLines, vary};
use super::store::{Memory, Slot};
use super::{Cache, RouteCache};
use crate::runtime::clock;

/// Working memory for keys, so that making one allocates nothing.
#[derive(Debug, Default)]
pub struct KeyScratch {
    /// The key: what the request says by itself, then what `Vary` adds.
    key: Vec<u8>,
    /// Length of the first part.
    primary: usize,
    /// Hash of the key.
    hash: u64,
    /// Where the first part says its class.
    class_at: usize,
    /// Canonical form of a body.
    pub canonical: Vec<u8>,
}

impl KeyScratch {
    /// What all variants share.
    pub fn primary(&self) -> &[u8] {
        &self.key[..self.primary]
    }

    /// What the response is filed under, as far as is known.
    #[inline]
    pub fn whole(&self) -> KeyRef<'_> {
        KeyRef::hashed(&self.key, self.hash)
    }

    /// Whether it is the key of one variant among several.
    pub fn is_variant(&self) -> bool {
        self.key.len() > self.primary
    }

    /// Makes the key of the variant that this request selects among responses that differ by `names`.
    pub fn select(&mut self, varies: &Varies, head: &RequestHead, buf: &[u8]) {
        self.key.truncate(self.primary);
        self.key.extend_from_slice(&varies.born.to_be_bytes());
        vary::write_secondary(&varies.names, LiveLines::new(&head.fields, buf), &mut self.key);
        self.hash = hash_of(&self.key);
    }

    /// Goes back to a primary key.
    pub fn set_primary(&mut self, primary: &Key) {
        self.key.clear();
        self.key.extend_from_slice(primary);
        self.is_primary(url_of(primary).len() + 1);
    }

    /// The key is a primary one now, with its class at this place.
    fn is_primary(&mut self, class_at: usize) {
        self.primary = self.key.len();
        self.class_at = class_at;
        self.hash = hash_of(&self.key);
    }

    /// Goes back to the primary key of another class.
    pub fn set_class(&mut self, class: Class) {
        let was_primary = !self.is_variant();
        self.key.truncate(self.primary);
        let Some(own) = self.key.get_mut(self.class_at) else { return };
        if was_primary && *own == class.byte() {
            return;
        }
        *own = class.byte();
        self.hash = hash_of(&self.key);
    }
}

/// Says that the responses of a key differ by request fields.
#[derive(Debug)]
pub struct Varies {
    /// Names of the fields, as [`vary::write_names`] gives them.
    pub names: Box<[u8]>,
    /// Part of the variants' keys: once this is forgotten none of them is found again, which is how all are invalidated at once.
    pub born: u64,
}

/// What is there.
#[derive(Debug)]
pub enum CacheLookup {
    /// A response; whether it may be used is another question.
    Response(Entry),
    /// Nothing, and requests like this do not wait for one another.
    HitForMiss,
    /// Nothing.
    Nothing,
}

impl RouteCache {
    /// Makes the key of a request.
    pub fn write_key(
        &self,
        scratch: &mut KeyScratch,
        wanted: &CacheRequest,
        (head, buf, query): (&RequestHead, &[u8], Option<&[u8]>),
        path: &[u8],
        (peer_is_trusted, scheme): (bool, &str),
        (body, consumer): (Option<&BodyDigest>, Option<&str>),
    ) {
        let lines = LiveLines::new(&head.fields, buf);
        let url = url((head, buf, query), path, (peer_is_trusted, scheme));
        scratch.key.clear();
        let class_at = self.policy.write_key(wanted.class, &url, peer_is_trusted, lines, body, &mut scratch.key);
        if self.policy.by_consumer {
            match consumer {
                Some(consumer) => {
                    scratch.key.push(1);
                    sized(&mut scratch.key, consumer.as_bytes());
                }
                None => scratch.key.push(0),
            }
        }
        scratch.is_primary(class_at);
    }
}

/// The URL of a request as its client sees it: `scheme` is that of its connection, which a trusted peer may correct.
pub fn url<'a>(
    (head, buf, query): (&'a RequestHead, &'a [u8], Option<&'a [u8]>),
    path: &'a [u8],
    (peer_is_trusted, scheme): (bool, &'a str),
) -> Url<'a> {
    let proto = if peer_is_trusted { head.fields.first(Known::XForwardedProto, buf) } else { None };
    Url {
        scheme: proto.unwrap_or(scheme.as_bytes()),
        authority: head.authority.map_or(&b""[..], |authority| authority.of_buf(buf)),
        path,
        query,
    }
}

impl Cache {
    /// Looks a request up; afterwards `scratch` holds the key under which its response is, or would be.
    pub fn look_up(
        &self,
        scratch: &mut KeyScratch,
        wanted: &CacheRequest,
        head: &RequestHead,
        buf: &[u8],
    ) -> CacheLookup {
        let memory = &self.state.memory;
        scratch.set_class(wanted.class);
        if wanted.class == Class::Head {
            // RFC 9111 section 4: HEAD is served from responses to GET.
            scratch.set_class(Class::Get);
            let found = find(memory, scratch, wanted, head, buf);
            if let CacheLookup::Response(_) = found {
                return found;
            }
            scratch.set_class(Class::Head);
        }
        find(memory, scratch, wanted, head, buf)
    }
}

fn find(
    memory: &Memory,
    scratch: &mut KeyScratch,
    wanted: &CacheRequest,
    head: &RequestHead,
    buf: &[u8],
) -> CacheLookup {
    let slot = match memory.get(scratch.whole()) {
        Some(Slot::Varies(varies)) => {
            scratch.select(&varies, head, buf);
            memory.get(scratch.whole())
        }
        slot => slot,
    };
    match slot {
        Some(Slot::Response(entry)) => CacheLookup::Response(entry),
        Some(Slot::HitForMiss(mark))
            if clock::loop_ns() < mark.until_ns && (!mark.credentials_only || wanted.has_credentials()) =>
        {
            CacheLookup::HitForMiss
        }
        _ => CacheLookup::Nothing,
    }
}
