//! What clients are told of limits of tokens: the fields of OpenAI's and of Anthropic's API, and the IETF's as the limit says. Nothing is told of
//! money.

use std::sync::Arc;

use h1::encode;
use llm::api::Family;

use super::super::Decision;
use super::super::fields::{write_left, write_legacy};
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
    let told = told.iter().map(|(budget, decision)| (&**budget, decision)).filter(|(budget, _)| !budget.is_money());
    write_ietf(out, told.clone());
    let of_unit = |unit| {
        let of_unit = told.clone().filter(|(budget, _)| budget.spec.unit == unit).map(|(_, decision)| *decision);
        of_unit.min_by_key(|decision| decision.remaining)
    };
    let tokens = of_unit(BudgetUnit::Tokens);
    if family == Family::Anthropic {
        let units = [
            ("requests", requests),
            ("tokens", tokens),
            ("input-tokens", of_unit(BudgetUnit::InputTokens)),
            ("output-tokens", of_unit(BudgetUnit::OutputTokens)),
        ];
        for (unit, decision) in units {
            let Some(decision) = decision else { continue };
            write_three(
                out,
                |what| ["anthropic-ratelimit-", unit, what],
                &decision,
                |out| {
                    write_moment(out, (micros(now) + decision.reset_ns / 1000) / 1_000_000 + 1);
                },
            );
        }
    } else {
        for (unit, decision) in [("requests", requests), ("tokens", tokens)] {
            let Some(decision) = decision else { continue };
            let reset = |out: &mut Vec<u8>| write_duration(out, decision.reset_ns);
            write_three(out, |what| ["x-ratelimit-", what, unit], &decision, reset);
        }
    }
}

/// Appends the fields of a refusal; `Retry-After` is not among them.
pub fn write_refused(out: &mut Vec<u8>, refused: &Refused) {
    if !refused.budget.spec.enforce {
        return;
    }
    if !refused.budget.is_money() && refused.decision.limit > 0 {
        write_ietf(out, std::iter::once((&*refused.budget, &refused.decision)));
    }
    if refused.budget.spec.headers.scope {
        encode::field(out, b"RateLimit-Scope", refused.budget.spec.name.as_bytes());
    }
}

/// A limit, what is left of it, and when it is whole again. `name`: the parts of a field's name; OpenAI's end with the unit, Anthropic's with the
/// property of it.
fn write_three<'a>(
    out: &mut Vec<u8>,
    name: impl Fn(&'static str) -> [&'a str; 3],
    decision: &Decision,
    reset: impl FnOnce(&mut Vec<u8>),
) {
    let begin = |out: &mut Vec<u8>, what| {
        let [prefix, first, last] = name(what);
        for part in [prefix, first, "-", last, ": "] {
            out.extend_from_slice(part.as_bytes());
        }
    };
    for (what, number) in [("limit", decision.limit), ("remaining", decision.remaining)] {
        begin(out, what);
        encode::decimal(out, number);
        encode::end_field(out);
    }
    begin(out, "reset");
    reset(out);
    encode::end_field(out);
}

fn write_ietf<'a>(out: &mut Vec<u8>, told: impl Iterator<Item = (&'a Budget, &'a Decision)> + Clone) {
    let shown = told.clone().filter(|(budget, _)| budget.spec.headers.ietf);
    if shown.clone().next().is_some() {
        let begin_item = |out: &mut Vec<u8>, number, budget: &Budget| {
            // Names are made of letters, digits, `-`, `_` and `.`: nothing to escape.
            out.extend_from_slice(if number == 0 { b"\"" } else { b", \"" });
            out.extend_from_slice(budget.spec.name.as_bytes());
        };
        out.extend_from_slice(b"RateLimit-Policy: ");
        for (number, (budget, _)) in shown.clone().enumerate() {
            begin_item(out, number, budget);
            out.extend_from_slice(b"\";q=");
            encode::decimal(out, budget.rule.limit());
            out.extend_from_slice(b";w=");
            encode::decimal(out, budget.rule.window_seconds().max(1));
        }
        encode::end_field(out);
        out.extend_from_slice(b"RateLimit: ");
        for (number, (budget, decision)) in shown.enumerate() {
            begin_item(out, number, budget);
            out.extend_from_slice(b"\";r=");
            write_left(out, decision);
        }
        encode::end_field(out);
    }
    let legacy = told.filter(|(budget, _)| budget.spec.headers.legacy);
    if let Some((_, decision)) = legacy.min_by_key(|(_, decision)| decision.remaining) {
        write_legacy(out, decision);
    }
}

/// A time as OpenAI writes it: `20ms`, `1s`, `6m0s`, `1h0m0s`; rounded up.
fn write_duration(out: &mut Vec<u8>, ns: u64) {
    let ms = ns.div_ceil(1_000_000);
    if ms < 1000 {
        encode::decimal(out, ms);
        out.extend_from_slice(b"ms");
        return;
    }
    let seconds = ms.div_ceil(1000);
    if seconds >= 3600 {
        encode::decimal(out, seconds / 3600);
        out.push(b'h');
    }
    if seconds >= 60 {
        encode::decimal(out, seconds / 60 % 60);
        out.push(b'm');
    }
    encode::decimal(out, seconds % 60);
    out.push(b's');
}

/// A moment in seconds since 1970 as RFC 3339 writes it.
fn write_moment(out: &mut Vec<u8>, seconds: u64) {
    let mut clock = Rfc3339::default();
    let text = clock.render(seconds.saturating_mul(1000));
    out.extend_from_slice(text.strip_suffix(".000Z").unwrap_or(text).as_bytes());
    out.push(b'Z');
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
            let mut out = Vec::new();
            write_duration(&mut out, ns);
            assert_eq!(out, text.as_bytes());
        }
        let mut out = Vec::new();
        write_moment(&mut out, 1_709_164_801);
        assert_eq!(out, b"2024-02-29T00:00:01Z");
    }
}
