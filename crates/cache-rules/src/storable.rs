//! Which responses are stored, and on what terms (RFC 9111 section 3).

use h1::Known;

use super::lines::Lines;
use super::request::CacheRequest;
use super::stored_freshness::{Freshness, LifetimeSource, Times};
use super::targeted::Effective;
use super::{Policy, freshness, range, vary};

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotStored {
    /// Its status is not one that this cache stores.
    Status,
    /// 206 with less than everything.
    Partial,
    /// `no-store`.
    NoStore,
    /// `private`.
    Private,
    /// The request was authorized, and nothing says that others may have the response (RFC 9111 section 3.5).
    Authorized,
    /// The request had a cookie, or a field or query parameter that a limit keys on, and nothing says that the response is for all.
    Guarded,
    /// `Set-Cookie`, which no `no-cache` or `private` withholds.
    SetCookie,
    /// `must-understand` with a status that is not understood.
    NotUnderstood,
    /// `Vary: *`, or by something that each client has of its own, or by too much.
    Vary,
    /// Nothing says that it may be fresh.
    NoFreshness,
    /// Never fresh, never allowed stale, and nothing to validate it by.
    Useless,
}

/// Statuses whose caching rules this cache implements (RFC 9111 section 3, "understood").
fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 400 | 403 | 404 | 405 | 410 | 414 | 451 | 500..=504
    )
}

/// Statuses that are never stored, whatever the response says: those that depend on request fields that are in no key (412, 416, 417),
/// that speak of one connection or client (401 and 407 carry challenges; 408, 421, 425, 426), and those whose definition forbids it
/// (RFC 6585: 428, 429, 431, 511).
fn is_never_stored(status: u16) -> bool {
    matches!(status, 0..=199 | 304 | 401 | 407 | 408 | 412 | 416 | 417 | 421 | 425 | 426 | 428 | 429 | 431 | 511 | 600..)
}

/// Whether a response that is not stored shows that the stored one is out of date, so that it must go. Not an error of the origin, which the stored
/// response may replace, and not what may concern this client alone: a refusal (400, 403, 429, 431, ...), a part, a 304 to its own condition,
/// anything that was sent to its credentials. Otherwise any client could evict any response by a request with `no-cache`.
pub fn supersedes(wanted: &CacheRequest, status: u16) -> bool {
    !wanted.has_credentials() && matches!(status, 200..=205 | 207..=303 | 305..=399 | 404 | 410 | 451)
}

/// Decides whether the response to a request is stored, by its head. `lines` are the upstream's, `effective` what they say to this cache.
///
/// # Errors
/// Why it is not.
pub fn consider<'a>(
    policy: &Policy,
    wanted: &CacheRequest,
    status: u16,
    lines: impl Lines<'a>,
    effective: &Effective,
    times: Times,
) -> Result<Freshness, NotStored> {
    let control = &effective.control;
    let status = storable_status(policy, status, lines)?;

    if control.must_understand && !is_understood(status) {
        return Err(NotStored::NotUnderstood);
    }
    // Who understands `must-understand` and the status ignores the `no-store` that is there for others (section 5.2.2.3).
    if control.no_store && !(control.must_understand && policy.is_http()) {
        return Err(NotStored::NoStore);
    }
    if control.private {
        return Err(NotStored::Private);
    }
    let (for_authorized, for_all) = (control.allows_authorized(), control.is_for_all());
    if wanted.is_authorized && !for_authorized {
        return Err(NotStored::Authorized);
    }
    if wanted.is_guarded && !for_all {
        return Err(NotStored::Guarded);
    }
    // RFC 9111 section 7.3 leaves it to the origin. A cookie is nearly always meant for one client, also where a framework or a proxy in between adds
    // `public` to everything; nginx and Varnish store no such response either.
    let has_cookie = !policy.strips_set_cookie && lines.first(Known::SetCookie).is_some();
    if has_cookie && !effective.withholds(lines, b"set-cookie") {
        return Err(NotStored::SetCookie);
    }
    vary::check(lines).map_err(|_| NotStored::Vary)?;
    if vary::names(lines).any(|name| policy.unseen.contains(name)) {
        return Err(NotStored::Vary);
    }

    let freshness = freshness(policy, effective, status, lines, times);
    if freshness.source == LifetimeSource::None && !(freshness.always_validate && freshness.has_validator) {
        return Err(NotStored::NoFreshness);
    }
    if freshness.is_useful() { Ok(freshness) } else { Err(NotStored::Useless) }
}

/// The status to store it under.
fn storable_status<'a>(policy: &Policy, status: u16, lines: impl Lines<'a>) -> Result<u16, NotStored> {
    if !policy.is_http() {
        return if status == 200 { Ok(200) } else { Err(NotStored::Status) };
    }
    match status {
        // Section 3.4: a part that is everything is as good as the whole. Other parts are not kept: ranges are cut from whole entries.
        206 if range::is_everything(lines) => Ok(200),
        206 => Err(NotStored::Partial),
        _ if is_never_stored(status) => Err(NotStored::Status),
        _ => Ok(status),
    }
}

/// The terms of a response that may be stored.
pub(super) fn freshness<'a>(
    policy: &Policy,
    effective: &Effective,
    status: u16,
    lines: impl Lines<'a>,
    times: Times,
) -> Freshness {
    let control = &effective.control;
    let (lifetime_ms, source) = freshness::lifetime(policy, effective, status, lines, times);
    let is_http = policy.is_http();
    // In mode `ttl` the origin has no say in how long, and so none in how long beyond.
    let allowance = |said: Option<u32>, configured: Option<u64>| match said {
        Some(seconds) if is_http => u64::from(seconds) * 1000,
        _ => configured.unwrap_or(0),
    };
    Freshness {
        status,
        received_ms: times.received_ms,
        initial_age_ms: freshness::initial_age_ms(lines, times),
        lifetime_ms,
        source,
        stale_while_revalidate_ms: allowance(control.stale_while_revalidate, policy.stale_while_revalidate_ms),
        stale_if_error_ms: allowance(control.stale_if_error, policy.stale_if_error_ms),
        date_ms: freshness::made_ms(lines, times),
        always_validate: is_http && control.no_cache,
        never_stale: is_http && control.forbids_stale(),
        for_authorized: control.allows_authorized(),
        for_all: control.is_for_all(),
        has_validator: freshness::has_validator(lines),
        has_age: freshness::has_age(lines),
    }
}
