//! How long a response is fresh, and how old it was when it came (RFC 9111 sections 4.2.1 to 4.2.3).

use h1::Known;

use super::lines::Lines;
use super::list;
use super::policy::Mode;
use super::stored_freshness::{LifetimeSource, Times};
use super::targeted::Effective;
use super::{Policy, date, precondition};

/// Whether the status allows a lifetime that the origin did not state (RFC 9110 section 15.1).
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// When the response was made, in seconds since the epoch: its `Date`, else when it was received (RFC 9110 section 6.6.1).
pub fn date_s<'a>(lines: impl Lines<'a>, times: Times) -> i64 {
    let received_s = seconds(times.received_ms);
    lines.first(Known::Date).and_then(|value| date::parse(value, received_s)).unwrap_or(received_s)
}

/// When the response was made, to tell which of several is the most recent: its `Date`, else when its request was sent. One that came slowly is not newer
/// for that.
pub fn made_ms<'a>(lines: impl Lines<'a>, times: Times) -> u64 {
    let date_s = lines.first(Known::Date).and_then(|value| date::parse(value, seconds(times.received_ms)));
    date_s.map_or(times.sent_ms, |date_s| u64::try_from(date_s).unwrap_or(0).saturating_mul(1000))
}

/// Freshness lifetime in milliseconds, and where it comes from. `status` is the one that is sent.
pub fn lifetime<'a>(
    policy: &Policy,
    effective: &Effective,
    status: u16,
    lines: impl Lines<'a>,
    times: Times,
) -> (u64, LifetimeSource) {
    let default_ttl_ms = match policy.mode {
        Mode::Ttl(ttl_ms) => return (ttl_ms, LifetimeSource::Fixed),
        Mode::Http { default_ttl_ms } => default_ttl_ms,
    };
    let control = &effective.control;
    let (ms, source) = if let Some(age) = control.s_maxage {
        (u64::from(age) * 1000, LifetimeSource::SharedMaxAge)
    } else if let Some(age) = control.max_age {
        (u64::from(age) * 1000, LifetimeSource::MaxAge)
    } else if let Some(ms) = expires(effective, lines, times) {
        (ms, LifetimeSource::Expires)
    } else {
        let may_guess = is_heuristically_cacheable(status) || control.public;
        match default_ttl_ms {
            Some(ms) if may_guess && has_validator(lines) => (ms, LifetimeSource::Heuristic),
            _ => (0, LifetimeSource::None),
        }
    };
    if control.malformed { (0, source) } else { (ms, source) }
}

/// What `Expires` says, in milliseconds; 0 if it is not a date (RFC 9111 section 5.3), or several different ones.
fn expires<'a>(effective: &Effective, lines: impl Lines<'a>, times: Times) -> Option<u64> {
    if effective.is_targeted {
        return None;
    }
    let mut values = lines.values(Known::Expires);
    let first = values.next()?;
    if values.any(|value| value != first) {
        return Some(0);
    }
    let Some(expires_s) = date::parse(first, seconds(times.received_ms)) else { return Some(0) };
    Some(u64::try_from(expires_s.saturating_sub(date_s(lines, times))).unwrap_or(0).saturating_mul(1000))
}

/// Whether there is something to validate it by.
pub fn has_validator<'a>(lines: impl Lines<'a>) -> bool {
    precondition::entity_tag(lines).is_some() || precondition::last_modified(lines, 0).is_some()
}

/// Age at the time it came, in milliseconds (RFC 9111 section 4.2.3, corrected_initial_age; the conservative form).
pub fn initial_age_ms<'a>(lines: impl Lines<'a>, times: Times) -> u64 {
    // `Date` knows whole seconds. Compared with a finer clock every response would seem up to a second old.
    let apparent_s = u64::try_from(seconds(times.received_ms).saturating_sub(date_s(lines, times))).unwrap_or(0);
    let delay_ms = times.received_ms.saturating_sub(times.sent_ms);
    let corrected_ms = age_of(lines).unwrap_or(0).saturating_mul(1000).saturating_add(delay_ms);
    apparent_s.saturating_mul(1000).max(corrected_ms)
}

/// Whether it came with an `Age` that can be read.
pub fn has_age<'a>(lines: impl Lines<'a>) -> bool {
    age_of(lines).is_some()
}

/// `Age` in seconds: the first member of the first line; anything but a number is ignored (RFC 9111 section 5.1).
fn age_of<'a>(lines: impl Lines<'a>) -> Option<u64> {
    let first = lines.first(Known::Age).and_then(|value| list::elements(value).next());
    first.and_then(list::delta_seconds).map(u64::from)
}

fn seconds(ms: u64) -> i64 {
    // A u64 of milliseconds always fits.
    (ms / 1000) as i64
}
