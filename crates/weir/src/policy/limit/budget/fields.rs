//! What clients are told of limits of tokens: the fields of OpenAI's and of Anthropic's API, and the IETF's as the limit says. Nothing is told of
//! money.

use std::sync::Arc;

use h1::encode;
use llm::api::Family;

use super::super::Decision;
use super::super::fields::{until_more, write_legacy};
use super::{Budget, Now, Refused, micros};
use crate::config::BudgetUnit;
use crate::observe::clock::Rfc3339;

/// Appends the fields of a response to a call that every limit allowed. `requests`: the tightest limit of requests.
pub fn write_allowed(
    out: &mut Vec<u8>,
    told: &[(Arc<Budget>, Decision)],
    requests: Option<Decision>,
    family: Family,
    now: Now,
) {
    let told: Vec<(&Budget, &Decision)> =
        told.iter().map(|(budget, decision)| (&**budget, decision)).filter(|(budget, _)| !budget.is_money()).collect();
    write_ietf(out, &told);
    let of_unit = |unit| {
        let of_unit = told.iter().filter(|(budget, _)| budget.spec.unit == unit).map(|(_, decision)| **decision);
        of_unit.min_by_key(|decision| decision.remaining)
    };
    let tokens = of_unit(BudgetUnit::Tokens);
    match family {
        Family::Anthropic => {
            let units = [
                ("requests", requests),
                ("tokens", tokens),
                ("input-tokens", of_unit(BudgetUnit::InputTokens)),
                ("output-tokens", of_unit(BudgetUnit::OutputTokens)),
            ];
            for (unit, decision) in units.into_iter().filter_map(|(unit, decision)| Some((unit, decision?))) {
                let reset = rfc3339((micros(now) + decision.reset_ns / 1000) / 1_000_000 + 1);
                write_three(out, "anthropic-ratelimit-", "", unit, &decision, &reset);
            }
        }
        _ => {
            for (unit, decision) in [("requests", requests), ("tokens", tokens)] {
                if let Some(decision) = decision {
                    write_three(out, "x-ratelimit-", unit, "", &decision, &duration(decision.reset_ns));
                }
            }
        }
    }
}

/// Appends the fields of a refusal; `Retry-After` is not among them.
pub fn write_refused(out: &mut Vec<u8>, refused: &Refused) {
    if !refused.budget.spec.enforce {
        return;
    }
    if !refused.budget.is_money() && refused.decision.limit > 0 {
        write_ietf(out, &[(&refused.budget, &refused.decision)]);
    }
    if refused.budget.spec.headers.scope {
        encode::field(out, b"RateLimit-Scope", refused.budget.spec.name.as_bytes());
    }
}

/// OpenAI's names end with the unit, Anthropic's with the property of it.
fn write_three(out: &mut Vec<u8>, prefix: &str, last: &str, first: &str, decision: &Decision, reset: &str) {
    let name = |what: &str| {
        if first.is_empty() { format!("{prefix}{what}-{last}") } else { format!("{prefix}{first}-{what}") }
    };
    encode::field(out, name("limit").as_bytes(), decision.limit.to_string().as_bytes());
    encode::field(out, name("remaining").as_bytes(), decision.remaining.to_string().as_bytes());
    encode::field(out, name("reset").as_bytes(), reset.as_bytes());
}

fn write_ietf(out: &mut Vec<u8>, told: &[(&Budget, &Decision)]) {
    let shown: Vec<_> = told.iter().filter(|(budget, _)| budget.spec.headers.ietf).collect();
    if !shown.is_empty() {
        // Names are made of letters, digits, `-`, `_` and `.`: nothing to escape.
        let policy = shown.iter().map(|(budget, _)| {
            format!("\"{}\";q={};w={}", budget.spec.name, budget.rule.limit(), budget.rule.window_seconds().max(1))
        });
        encode::field(out, b"RateLimit-Policy", policy.collect::<Vec<_>>().join(", ").as_bytes());
        let items = shown.iter().map(|(budget, decision)| {
            let until = until_more(decision).map_or_else(String::new, |seconds| format!(";t={seconds}"));
            format!("\"{}\";r={}{until}", budget.spec.name, decision.remaining)
        });
        encode::field(out, b"RateLimit", items.collect::<Vec<_>>().join(", ").as_bytes());
    }
    let legacy = told.iter().filter(|(budget, _)| budget.spec.headers.legacy);
    if let Some((_, decision)) = legacy.min_by_key(|(_, decision)| decision.remaining) {
        write_legacy(out, decision);
    }
}

/// A time as OpenAI writes it: `20ms`, `1s`, `6m0s`, `1h0m0s`; rounded up.
fn duration(ns: u64) -> String {
    let ms = ns.div_ceil(1_000_000);
    if ms < 1000 {
        return format!("{ms}ms");
    }
    let seconds = ms.div_ceil(1000);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// A moment in seconds since 1970 as RFC 3339 writes it.
fn rfc3339(seconds: u64) -> String {
    let text = Rfc3339::default().render(seconds.saturating_mul(1000)).to_owned();
    text.replacen(".000Z", "Z", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_apis_do() {
        for (ns, text) in [
            (0, "0ms"),
            (20_000_000, "20ms"),
            (1_000_000_000, "1s"),
            (1_000_000_001, "2s"),
            (360_000_000_000, "6m0s"),
            (3_601_000_000_000, "1h0m1s"),
        ] {
            assert_eq!(duration(ns), text);
        }
        assert_eq!(rfc3339(1_709_164_801), "2024-02-29T00:00:01Z");
    }
}
