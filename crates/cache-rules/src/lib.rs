//! The rules of a shared cache, without input or output and without a clock: heads in, decisions out.
//!
//! RFC 9111 (HTTP caching), RFC 5861 (stale responses), RFC 9213 (`CDN-Cache-Control`), RFC 9211 (`Cache-Status`) and the parts of RFC 9110
//! on ranges and preconditions. `docs/cache-rfc9111.md` lists every requirement with the test that shows it.
//!
//! In the order of a request:
//!
//! 1. [`Policy`] is made once per route that has a cache.
//! 2. [`admit`](request::admit) reads the request once: around the cache, or a [`CacheRequest`].
//! 3. [`Policy::write_key`] writes the primary key; [`vary::write_secondary`] the secondary one, where a stored response has `Vary`.
//! 4. [`assess`](reuse::assess) says whether a stored response may be used: its [`Freshness`] against what was requested, now.
//! 5. [`choose`](delivery::choose) says how much of it is sent: all, a range, or 304; [`head::write_fields`] and
//!    [`status::write`] write the head.
//! 6. What must be fetched is fetched with [`update::write_conditions`]; while it is, [`coalesce`] says who may wait for it.
//! 7. [`consider`](storable::consider) says whether what came is stored, on what terms; [`update`] what a 304 does to a stored
//!    response; [`invalidate`] what an unsafe method does.
//!
//! All times are wall-clock milliseconds since the Unix epoch, because stored responses outlive a process and are shared between machines.

pub mod cache_control;
pub mod coalesce;
pub mod date;
pub mod delivery;
pub mod forwarded;
pub mod freshness;
pub mod head;
pub mod invalidate;
pub mod json;
pub mod key;
pub mod lines;
pub mod list;
pub mod policy;
pub mod precondition;
pub mod query;
pub mod range;
pub mod request;
pub mod reuse;
pub mod sf;
pub mod status;
pub mod storable;
pub mod stored_freshness;
pub mod targeted;
pub mod update;
pub mod vary;

pub use lines::{Line, Lines, LiveLines, StoredLines};
pub use policy::Policy;
pub use request::{Admission, Bypass, CacheRequest, Class};
pub use status::Fwd;
pub use stored_freshness::{Freshness, LifetimeSource, Times};

#[cfg(test)]
mod tests;
