//! What a request says, and what is replaced in it before anybody reads it.

use llm::redact::{Pattern, redact};
use llm::request::{Member, RequestScan, scan};

use super::problem::Problem;
use crate::policy::ai::metrics::Redacted;

/// Reads the body of a request. Where `patterns` find something, the body that is used from here on is without it.
///
/// # Errors
/// It cannot be read, or not be searched.
pub(super) fn scanned(body: Vec<u8>, patterns: &[Pattern]) -> Result<(Vec<u8>, RequestScan, Redacted), Problem> {
    let found = read(&body)?;
    let mut counts = Redacted::default();
    if patterns.is_empty() {
        return Ok((body, found, counts));
    }
    let redacted = redact(&body, &found, patterns)
        .map_err(|why| Problem::request("invalid_request", format!("The request cannot be read: {why}"), None))?;
    let Some(redacted) = redacted else { return Ok((body, found, counts)) };
    for (pattern, count) in patterns.iter().zip(redacted.found) {
        counts.0[pattern.index()] += count;
    }
    let found = read(&redacted.body)?;
    Ok((redacted.body, found, counts))
}

fn read(body: &[u8]) -> Result<RequestScan, Problem> {
    scan(body).map_err(|error| {
        let param = error.defect.member().map(Member::name);
        Problem::request("invalid_request", format!("The request body cannot be read: {error}"), param)
    })
}
