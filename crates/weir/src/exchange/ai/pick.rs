//! The target of an attempt.

use std::time::Duration;

use llm::request::PrefixHashes;

use super::super::Exchange;
use super::super::proxy::{hash_of, moment, wait};
use super::super::queue_entry::queue_entry;
use super::super::stall::Stall;
use super::Call;
use super::attempt::{AttemptPlan, Failed};
use crate::config::Balance;
use crate::error::Reason;
use crate::runtime::hash::hash_key;
use crate::upstream::{Lease, Pick, Request};

/// The hashes of the prompt's start, where a replica that has seen it is preferred. Boxed: other requests have no room for it.
pub(super) fn prompt_of(x: &Exchange<'_>, call: &Call<'_>, queue_entry: &AttemptPlan<'_>) -> Option<Box<PrefixHashes>> {
    let Balance::Inference(inference) = &call.snapshot.config().upstreams[queue_entry.provider.upstream.0].balance
    else {
        return None;
    };
    let consumer = x.identity.as_deref().and_then(|who| who.consumer.as_deref()).filter(|_| inference.isolate);
    let salt = consumer.map_or(0, |consumer| hash_key(consumer.as_bytes()));
    Some(Box::new(PrefixHashes::of(call.scan, call.body, Some(&queue_entry.candidate.model), salt)))
}

/// A place at a target: one that was not tried in this request, if there is one.
///
/// # Errors
/// There is none.
pub(super) async fn pick(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    own: &AttemptPlan<'_>,
    prompt: Option<&PrefixHashes>,
) -> Result<Lease, Failed> {
    let snapshot = call.snapshot;
    let upstream = own.provider.upstream;
    let view = snapshot.views.get(upstream);
    let is_hashed = matches!(snapshot.config().upstreams[upstream.0].balance, Balance::Hash(_));
    let hash = is_hashed.then(|| hash_of(x, snapshot, upstream));
    loop {
        let tried = &x.scratch.tried;
        let request = Request { hash, prompt, wanted: None, tried, only_untried: own.is_elsewhere };
        match view.pick(&request, moment()) {
            Pick::Target(lease) => return Ok(lease),
            Pick::Unavailable if !x.scratch.tried.is_empty() && !own.is_elsewhere => x.scratch.tried.clear(),
            Pick::Unavailable => return Err(Failed::of(Reason::Unavailable.into())),
            Pick::Busy => {
                x.stalls.change(Stall::Gateway);
                let queue_entry =
                    queue_entry(x, snapshot, upstream, Some(&call.model.name), call.total_due, || call.most_tokens());
                let place = view.wait_for_untried(queue_entry, &x.scratch.tried);
                return wait(x, place, call.total_due).await.map_err(|(error, _)| {
                    // It is of this attempt: another candidate may fail for another reason.
                    Failed { retry_after: x.retry_after.take().map(Duration::from_secs), ..Failed::of(error) }
                });
            }
        }
    }
}
