//! What holds while Redis cannot be reached: each limit's `on_store_failure`.
//!
//! - `local`: the same limit in memory, its numbers divided by `replicas`, but at least 1 of each.
//! - `open`: the request passes, uncounted.
//! - `closed`: the request gets 503.

use super::super::{Algorithm, Ask, Decision, Permit, Receipt, WorkerLimits};
use super::StoreFailed;
use crate::config::OnStoreFailure;

/// Decides for those of `asks` whose index `failed` names; says whether all of these pass. If not, none of them is charged.
///
/// # Errors
/// When one of them is `closed`.
pub(super) fn ask(
    limits: &WorkerLimits,
    asks: &mut [Ask],
    failed: impl Fn(usize) -> bool,
    held: &mut Vec<Permit>,
) -> Result<bool, StoreFailed> {
    let closes = |ask: &Ask| {
        let spec = limits.get(ask.limit).map(|limit| &limit.limit.spec);
        spec.is_some_and(|spec| spec.on_store_failure == OnStoreFailure::Closed && spec.enforce)
    };
    let is_closed = |(index, ask): (usize, &Ask)| failed(index) && closes(ask);
    if asks.iter().enumerate().any(is_closed) {
        return Err(StoreFailed);
    }
    let now = limits.shared.now();
    let mut charged: Vec<(usize, Receipt)> = Vec::new();
    for index in 0..asks.len() {
        let ask = &mut asks[index];
        let Some(limit) = limits.get(ask.limit).filter(|_| failed(index)) else { continue };
        if limit.limit.spec.on_store_failure != OnStoreFailure::Local {
            ask.decision = Decision::unlimited();
            continue;
        }
        let (decision, receipt) = limit.limit.memory.charge(ask.key, ask.cost, now);
        ask.decision = decision;
        if decision.allowed {
            match limit.limit.algorithm {
                // Whoever refuses the request later drops what it holds.
                Algorithm::Concurrency(_) => {
                    held.push(Permit::new(limit.limit.memory.clone(), ask.key, ask.cost, receipt));
                }
                _ => charged.push((index, receipt)),
            }
            continue;
        }
        if !limit.limit.spec.enforce {
            continue;
        }
        let now = limits.shared.now();
        for (index, receipt) in charged {
            let Ask { limit, key, cost, .. } = asks[index];
            if let Some(limit) = limits.get(limit) {
                limit.limit.memory.refund(key, cost, receipt, now);
            }
        }
        return Ok(false);
    }
    Ok(true)
}
