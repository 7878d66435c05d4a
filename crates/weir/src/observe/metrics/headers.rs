//! PROXY headers on listeners, by what came of them.

use std::fmt;

use proxy_protocol::{Malformed, Version};

use super::cells::WorkerCells;
use super::exposition::Exposition;

/// What came of waiting for a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderResult {
    /// A connection of the proxy's own (`LOCAL`).
    Local,
    /// A header of version 1.
    V1,
    /// A header of version 2.
    V2,
    /// The connection did not come from one of `trusted_proxies`.
    Untrusted,
    /// It did not begin with a header.
    Missing,
    /// The header is of the version that is not taken.
    Version,
    /// The header breaks a rule.
    Malformed,
    /// Its checksum is wrong.
    Checksum,
    /// It did not come within the timeout.
    Late,
    /// The connection ended before its header did.
    Closed,
}

impl HeaderResult {
    /// Number of results.
    pub(super) const COUNT: usize = Self::ALL.len();

    /// Every result.
    pub(crate) const ALL: [HeaderResult; 10] = [
        HeaderResult::Local,
        HeaderResult::V1,
        HeaderResult::V2,
        HeaderResult::Untrusted,
        HeaderResult::Missing,
        HeaderResult::Version,
        HeaderResult::Malformed,
        HeaderResult::Checksum,
        HeaderResult::Late,
        HeaderResult::Closed,
    ];

    /// Place among all.
    pub(crate) fn position(self) -> usize {
        self as usize
    }

    /// Value of the label `result`, and reason in the log.
    pub(crate) fn label(self) -> &'static str {
        match self {
            HeaderResult::Local => "local",
            HeaderResult::V1 => "v1",
            HeaderResult::V2 => "v2",
            HeaderResult::Untrusted => "proxy_untrusted",
            HeaderResult::Missing => "proxy_missing",
            HeaderResult::Version => "proxy_version",
            HeaderResult::Malformed => "proxy_malformed",
            HeaderResult::Checksum => "proxy_checksum",
            HeaderResult::Late => "proxy_timeout",
            HeaderResult::Closed => "proxy_closed",
        }
    }
}

impl From<Version> for HeaderResult {
    fn from(version: Version) -> Self {
        match version {
            Version::V1 => HeaderResult::V1,
            Version::V2 => HeaderResult::V2,
        }
    }
}

impl From<Malformed> for HeaderResult {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Missing => HeaderResult::Missing,
            Malformed::Version(_) => HeaderResult::Version,
            Malformed::TooLong | Malformed::Invalid(_) => HeaderResult::Malformed,
            Malformed::Checksum => HeaderResult::Checksum,
        }
    }
}

/// Writes what workers counted. Results that never occurred are left out.
pub(super) fn headers<'c>(
    cells: impl Iterator<Item = &'c WorkerCells> + Clone,
    out: &mut Exposition<'_>,
) -> fmt::Result {
    let about =
        "Connections to listeners with `proxy_protocol`, by version of their header, or by why they were closed";
    out.counter("proxy_protocol_headers", about, |s| {
        for result in HeaderResult::ALL {
            let count: u64 = cells.clone().map(|cells| cells.headers[result.position()].get()).sum();
            if count > 0 {
                s.add(&[("result", result.label())], count)?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_has_a_place_of_its_own() {
        for (place, result) in HeaderResult::ALL.into_iter().enumerate() {
            assert_eq!(result.position(), place);
        }
    }
}
