//! Which campaign it is.

use crate::deploy::fingerprint;
use crate::results::Results;

/// Names a campaign in every history: the same whenever and from wherever it is stored.
pub fn id(results: &Results) -> String {
    let host = results.environment.host.as_deref().unwrap_or_default();
    let text = format!("{}\n{}\n{host}\n{}", results.name, results.started_unix_ms, results.evaluation);
    // Reading from memory does not fail.
    let sum = fingerprint(text.as_bytes()).unwrap_or_default();
    sum.rsplit(' ').next().unwrap_or_default().chars().take(12).collect()
}
