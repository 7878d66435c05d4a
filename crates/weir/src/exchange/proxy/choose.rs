//! Which upstream of a split, and which target of a consistent hash, a request belongs to.

use super::super::Exchange;
use crate::config::{Balance, HashKey, Split, UpstreamId};
use crate::route::split::{self, Sender};
use crate::runtime::hash::hash_key;
use crate::worker::snapshot::Snapshot;

/// The upstream of a split that takes the request.
pub(super) fn pick_member(x: &Exchange<'_>, split: &Split) -> usize {
    let Some(by) = &split.by else { return split.member_at(x.worker.random()) };
    let (fields, buf) = (&x.scratch.request.fields, x.down.buffer.whole());
    let consumer = x.identity.as_deref().and_then(|who| who.consumer.as_deref());
    let sender = Sender { address: x.down.client.address, consumer };
    split.member_at(split::point(by, sender, |name| {
        let is_named = move |name_in_head: &[u8]| name_in_head.eq_ignore_ascii_case(name.as_bytes());
        let named = fields.iter().filter(move |field| is_named(field.name.of_buf(buf)));
        named.map(|field| field.value.of_buf(buf))
    }))
}

/// What a consistent hash is taken of.
pub(in super::super) fn hash_of(x: &Exchange<'_>, snapshot: &Snapshot, upstream: UpstreamId) -> u64 {
    let buf = x.down.buffer.whole();
    let by_client = || x.down.client.address.with_bytes(16, hash_key);
    match &snapshot.config().upstreams[upstream.0].balance {
        Balance::Hash(HashKey::Header(name)) => {
            x.scratch.request.fields.get(name.as_bytes(), buf).map_or_else(by_client, hash_key)
        }
        Balance::Hash(HashKey::Path) => hash_key(&x.scratch.path),
        _ => by_client(),
    }
}
