//! What holds while Redis cannot be reached: each limit's `on_store_failure`.
//!
//! - `local`: the same limit in memory, its numbers divided by `replicas`, but at least 1 of each.
//! - `open`: the request passes, uncounted.
//! - `closed`: the request gets 503.

use super::super::{Algorithm, Decision, LimitCheck, Permit, Receipt, WorkerLimits};
use super::StoreFailed;
use crate::config::OnStoreFailure;

/// Decides for those of `checks` whose index `failed` names; says whether all of these pass. If not, none of them is charged.
///
/// # Errors
/// When one of them is `closed`.
pub(super) fn check(
    limits: &WorkerLimits,
    checks: &mut [LimitCheck],
    failed: impl Fn(usize) -> bool,
    held: &mut Vec<Permit>,
) -> Result<bool, StoreFailed> {
    let closes = |check: &LimitCheck| {
        let spec = limits.get(check.limit).map(|limit| &limit.limit.spec);
        spec.is_some_and(|spec| spec.on_store_failure == OnStoreFailure::Closed && spec.enforce)
    };
    let is_closed = |(index, check): (usize, &LimitCheck)| failed(index) && closes(check);
    if checks.iter().enumerate().any(is_closed) {
        return Err(StoreFailed);
    }
    let now = limits.shared.now();
    let mut charged: Vec<(usize, Receipt)> = Vec::new();
    for index in 0..checks.len() {
        let check = &mut checks[index];
        let Some(limit) = limits.get(check.limit).filter(|_| failed(index)) else { continue };
        if limit.limit.spec.on_store_failure != OnStoreFailure::Local {
            check.decision = Decision::unlimited();
            continue;
        }
        let (decision, receipt) = limit.limit.memory.charge(check.key, check.cost, now);
        check.decision = decision;
        if decision.allowed {
            match limit.limit.algorithm {
                // Whoever refuses the request later drops what it holds.
                Algorithm::Concurrency(_) => {
                    held.push(Permit::new(limit.limit.memory.clone(), check.key, check.cost, receipt));
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
            let LimitCheck { limit, key, cost, .. } = checks[index];
            if let Some(limit) = limits.get(limit) {
                limit.limit.memory.refund(key, cost, receipt, now);
            }
        }
        return Ok(false);
    }
    Ok(true)
}
