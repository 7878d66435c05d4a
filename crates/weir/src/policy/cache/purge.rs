//! What operators take out of a cache.

use message::validate::push_lower;
use serde::{Deserialize, Serialize};

use super::Cache;
use super::entry::Entry;
use super::rules::Policy;
use super::rules::key::{Url, url_of, without_default_port};
use crate::route::path::normalise_by;

/// Which responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Those of one URL: every variant, for every tenant.
    Url(String),
    /// Those whose URL begins so.
    Prefix(String),
    /// Those with a tag.
    Tag(String),
    /// All.
    All,
}

/// What is to be purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Name of the cache; none: all caches.
    pub cache: Option<String>,
    /// Which responses.
    pub which: Which,
    /// They are called stale rather than taken out: the origin is called again, and until it has responded they may replace it.
    pub soft: bool,
}

/// What a purge concerns; every gateway that shares a store hears of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Which responses.
    pub which: Which,
    /// They are stale rather than gone.
    pub soft: bool,
}

impl Target {
    /// As text, for a store: the same for equal targets.
    pub fn to_text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads [`to_text`](Self::to_text); `None` for anything else.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

/// An unsafe method changed what is behind a URL: what was requested until then must be confirmed, by every gateway that shares a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The URL, as keys begin with it.
    pub url: String,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

impl Change {
    /// As text, for a store.
    pub fn to_text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads [`to_text`](Self::to_text); `None` for anything else.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

/// Why a purge did not do all that it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeError {
    /// It is not a purge of this gateway's caches: nothing was done.
    Invalid(String),
    /// It was done here, but Redis was not told.
    NotShared(String),
}

/// What to look for in a key.
#[derive(Debug)]
pub enum Chosen {
    /// The URL part of a key.
    Url(Vec<u8>),
    /// The beginning of a key.
    Prefix(Vec<u8>),
    /// A tag.
    Tag(Vec<u8>),
    /// Everything.
    All,
}

impl Chosen {
    /// Whether an entry is concerned.
    pub fn holds(&self, key: &[u8], entry: &Entry) -> bool {
        match self {
            Chosen::Url(url) => url_of(key) == url,
            Chosen::Prefix(prefix) => key.starts_with(prefix),
            Chosen::Tag(tag) => entry.head.tags.iter().any(|own| **own == **tag),
            Chosen::All => true,
        }
    }
}

impl Cache {
    /// What to look for.
    ///
    /// # Errors
    /// What is wrong with the URL or prefix.
    pub fn chosen(&self, which: &Which) -> Result<Chosen, String> {
        Ok(match which {
            Which::Url(text) => Chosen::Url(self.url(text)?),
            Which::Prefix(text) => Chosen::Prefix(prefix(text)?),
            Which::Tag(tag) => Chosen::Tag(tag.clone().into_bytes()),
            Which::All => Chosen::All,
        })
    }

    /// A URL as keys of this cache begin with it.
    fn url(&self, text: &str) -> Result<Vec<u8>, String> {
        let (scheme, authority, target) = split(text)?;
        let mut scratch = Vec::new();
        let target = normalise_by(self.path, target.as_bytes(), &mut scratch)
            .map_err(|why| format!("`{text}`: {}", why.text()))?;
        let policy = Policy::new(&self.settings, [], "");
        let url =
            Url { scheme: scheme.as_bytes(), authority: authority.as_bytes(), path: target.path, query: target.query };
        let mut out = Vec::new();
        policy.write_url(&url, &mut out);
        Ok(out)
    }
}

/// The beginning of URLs, at least a whole host and `/`.
fn prefix(text: &str) -> Result<Vec<u8>, String> {
    let (scheme, authority, path) = split(text)?;
    let host = without_default_port(scheme.as_bytes(), authority.as_bytes());
    let mut out = format!("{scheme}://").to_ascii_lowercase().into_bytes();
    push_lower(&mut out, host);
    out.extend_from_slice(path.as_bytes());
    Ok(out)
}

/// Scheme, authority and the rest, which begins with a slash.
fn split(text: &str) -> Result<(&str, &str, &str), String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let is_known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let slash = rest.find('/').filter(|_| is_known);
    let slash = slash.ok_or_else(|| format!("`{text}` is not a URL of this gateway; write `http://host/path`"))?;
    Ok((scheme, &rest[..slash], &rest[slash..]))
}
