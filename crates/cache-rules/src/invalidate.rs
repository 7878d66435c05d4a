//! Invalidation by unsafe methods (RFC 9111 section 4.4).

use h1::{Known, Method};

use super::key::Url;
use super::lines::Lines;
use super::{Policy, key};
use message::path::normalise_by;

/// Whether a response to this request invalidates: the method is unsafe, or nobody knows that it is safe. A POST that is keyed by its body is a
/// question, not a change.
pub fn is_invalidating(policy: &Policy, method: Method) -> bool {
    let is_question = policy.post_json && method == Method::Post;
    !method.is_safe() && !is_question
}

/// Hands out the URLs whose stored responses are invalid after such a request got this response, in the form that [`Policy::write_url`] gives them: the
/// target, and what `Location` and `Content-Location` name, if it is of the same origin. Nothing after an error.
pub fn each_url<'a>(
    policy: &Policy,
    target: &Url<'_>,
    status: u16,
    response: impl Lines<'a>,
    mut invalid: impl FnMut(&[u8]),
) {
    if !(200..400).contains(&status) {
        return;
    }
    let mut url = Vec::new();
    policy.write_url(target, &mut url);
    invalid(&url);
    for line in response.all().filter(|line| line.known == Known::Location || line.is(b"content-location")) {
        let mut scratch = Vec::new();
        let mut path = Vec::new();
        if let Some(reference) = resolve(target, line.value, &mut path)
            && let Ok(normal) = normalise_by(policy.path, reference, &mut scratch)
        {
            let other = Url { path: normal.path, query: normal.query, ..*target };
            let mut other_url = Vec::new();
            policy.write_url(&other, &mut other_url);
            if other_url != url {
                invalid(&other_url);
            }
        }
    }
}

/// Path and query of a URI reference (RFC 3986 section 5.2), relative to the target; `None` for another origin.
fn resolve<'p>(target: &Url<'_>, reference: &[u8], path: &'p mut Vec<u8>) -> Option<&'p [u8]> {
    let reference = &reference[..memchr::memchr(b'#', reference).unwrap_or(reference.len())];
    let (scheme, rest) = match scheme_length(reference) {
        Some(length) => (&reference[..length], &reference[length + 1..]),
        None => (target.scheme, reference),
    };
    if !scheme.eq_ignore_ascii_case(target.scheme) {
        return None;
    }
    if let Some(rest) = rest.strip_prefix(b"//") {
        let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(length);
        let same = key::without_default_port(scheme, authority)
            .eq_ignore_ascii_case(key::without_default_port(target.scheme, target.authority));
        if !same {
            return None;
        }
        if rest.first() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(rest);
    } else if rest.len() != reference.len() {
        // `http:path` is no reference that anyone agrees on.
        return None;
    } else if rest.first() == Some(&b'/') {
        path.extend_from_slice(rest);
    } else {
        let directory = match rest.first() {
            // Nothing, or a query alone: the path of the target.
            None | Some(b'?') => target.path.len(),
            _ => target.path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1),
        };
        path.extend_from_slice(&target.path[..directory]);
        path.extend_from_slice(rest);
        if rest.is_empty()
            && let Some(query) = target.query
        {
            path.push(b'?');
            path.extend_from_slice(query);
        }
    }
    Some(path)
}

/// Length of a scheme that a colon follows.
fn scheme_length(reference: &[u8]) -> Option<usize> {
    let length = reference.iter().position(|byte| matches!(byte, b':' | b'/' | b'?'))?;
    let is_scheme = reference[length] == b':'
        && reference.first().is_some_and(u8::is_ascii_alphabetic)
        && reference[..length].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme.then_some(length)
}
