//! Tokens and money of a call: the most that it may use is reserved from the route's limits before the first attempt, and what it used takes
//! the place of that when it is over, however it ends.

use std::time::Duration;

use llm::money::{OutputLimit, Price, Tokens};

use super::super::Exchange;
use super::super::checks::input;
use super::Call;
use super::problem::{Problem, Stop};
use crate::error::Reason;
use crate::policy::limit::budget::{self, Amounts, RefusedFor, Reservation, Wish};
use crate::runtime::clock;

/// Reserves what the call may use; nothing where the route has no such limits, or the call only counts tokens.
///
/// # Errors
/// A refusal, which is final where the same call can never pass.
pub(super) async fn reserve(x: &mut Exchange<'_>, call: &Call<'_>) -> Result<Option<Reservation>, Stop> {
    let snapshot = call.snapshot;
    let route = &snapshot.routes[call.route.0].limits;
    if !route.has_budgets() || call.counts {
        return Ok(None);
    }
    let left_ns = call.total_due.saturating_sub(clock::now_ns());
    let wish = Wish {
        amounts: most(call),
        deadline: call.model.total.map(|_| Duration::from_nanos(left_ns)),
        id: u128::from(x.worker.random()) << 64 | u128::from(x.worker.random()),
    };
    let name = &snapshot.config().routes[call.route.0].name;
    let input = input(&x.scratch.request, x.down, x.identity.as_deref(), name, Some(&call.model.name));
    let reserved = budget::reserve(&snapshot.limits, route, &input, &wish).await;
    let lines = &mut x.scratch.response_lines;
    match reserved.map_err(|_| Reason::LimitStore)? {
        Ok((reservation, told)) => {
            let requests = x.scratch.limits.tightest(&snapshot.limits);
            budget::write_allowed(lines, &told, requests, call.api.family(), snapshot.limits.shared.now());
            if let Some(record) = &mut x.ai {
                record.reserved = Some(wish.amounts.input.saturating_add(wish.amounts.output));
                record.would_refuse = reservation.would_refuse.clone();
            }
            Ok(Some(reservation))
        }
        Err(refused) => {
            budget::write_refused(lines, &refused);
            x.log.limit = Some(refused.budget.spec.name.clone());
            let (reason, code) = match refused.reason {
                RefusedFor::MissingKey => (Reason::MissingKey, "missing_key"),
                _ if refused.is_quota() => (Reason::RateLimited, "insufficient_quota"),
                _ => (Reason::RateLimited, "rate_limit_exceeded"),
            };
            let status = match (&refused.reason, &refused.budget.spec.missing_key) {
                (RefusedFor::MissingKey, crate::config::MissingKey::Refuse { status, .. }) => *status,
                _ => refused.budget.spec.refusal_status,
            };
            let is_final = refused.is_quota() || refused.reason != RefusedFor::Exceeded;
            let (message, retry_after) = (refused.message(), refused.retry_after());
            Err(Problem { reason, status, code: code.into(), message, param: None, retry_after, is_final }.into())
        }
    }
}

impl Call<'_> {
    /// What a response in the background is charged that nobody here saw the end of: the provider goes on with it. `None` for other calls.
    pub(super) fn background_tokens(&self) -> Option<[u64; 3]> {
        let is_background = self.state.is_some_and(|state| state.is_background);
        is_background.then(|| [self.estimate, self.most_tokens().saturating_sub(self.estimate), 0])
    }

    /// The most tokens that it may use: the estimate of its input, and the longest output of any candidate.
    pub(super) fn most_tokens(&self) -> u64 {
        let most = most(self);
        most.input.saturating_add(most.output)
    }
}

/// The most that a call may use: the estimate of its input, the longest output of any candidate, and the money of the dearest one.
fn most(call: &Call<'_>) -> Amounts {
    let config = call.snapshot.config();
    let requested = match call.api {
        api if !api.generates_text() => Some(0),
        _ => call.scan.max_output(call.api, call.body),
    };
    let mut most = Amounts { input: call.estimate, ..Amounts::default() };
    for candidate in &call.model.candidates {
        let limit = OutputLimit {
            choices: call.scan.choices(call.api, call.body),
            requested,
            max_output: candidate.max_output,
            reserve_output: config.ai.reserve_output,
        };
        let price = candidate.price.unwrap_or_default();
        let reserved = llm::money::Reservation::new(call.estimate, limit, &[price]);
        most.output = most.output.max(reserved.output);
        most.money = most.money.max(reserved.money);
    }
    most
}

/// Notes what the call has cost, and settles its reservation. Nothing was used where no provider responded; where the client disconnected while
/// one worked on it, the input.
pub(super) async fn settle(
    x: &mut Exchange<'_>,
    call: &Call<'_>,
    result: &Result<(), Stop>,
    reservation: Option<Reservation>,
) {
    let is_disconnected = matches!(result, Err(Stop::Error(error)) if error.reason == Reason::ClientDisconnected);
    let mut used = Amounts::default();
    if let Some(record) = &mut x.ai {
        if record.tokens.is_none() && is_disconnected && record.was_sent && !call.counts {
            record.tokens = Some(call.background_tokens().unwrap_or([record.estimate, 0, 0]));
            record.estimated = true;
        }
        if let Some([input, output, cached]) = record.tokens {
            let tokens = Tokens { input, output, cached, cache_write: record.cache_write };
            record.cost = record.price.map(|price: Price| price.cost(&tokens));
            used = Amounts { input, output, money: record.cost.unwrap_or(0) };
        }
    }
    if let Some(reservation) = reservation {
        reservation.settle(&used, &call.snapshot.limits).await;
    }
}
