//! Weighted splits of a route.

use std::fmt;
use std::sync::Arc;

use super::UpstreamId;

/// Upstreams that share the requests of a route by weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Each upstream with its weight, in the order of the file; at least one weight is not 0.
    pub members: Vec<(UpstreamId, u32)>,
    /// What keeps requests with the same upstream; each request is drawn on its own without it.
    pub by: Option<SplitKey>,
}

/// What keeps requests with the same upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitKey {
    /// The client's address (IPv6: its /64 network).
    ClientIp,
    /// Who sends the request.
    Consumer,
    /// A request field; name in lower case.
    Header(Arc<str>),
    /// A cookie.
    Cookie(Arc<str>),
}

impl Split {
    /// The member that has a point between 0 and 2^64: each has a part of that range as large as its weight, in the order of the file.
    /// Of two members, a changed weight moves only the points between the old border and the new one.
    pub fn member_at(&self, point: u64) -> usize {
        let total: u64 = self.members.iter().map(|(_, weight)| u64::from(*weight)).sum();
        // Below 2^64, as the point is below 2^64 times the total.
        let mut left = u64::try_from((u128::from(point) * u128::from(total)) >> 64).unwrap_or(0);
        for (index, (_, weight)) in self.members.iter().enumerate() {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return index,
            }
        }
        0
    }

    /// Share of a member in percent, with two places at most.
    pub fn rounded_percent(&self, index: usize) -> f64 {
        let total: f64 = self.members.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let share = self.members.get(index).map_or(0.0, |(_, weight)| f64::from(*weight) / total);
        (share * 10_000.0).round() / 100.0
    }
}

impl fmt::Display for SplitKey {
    /// As it is written in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitKey::ClientIp => f.write_str("client_ip"),
            SplitKey::Consumer => f.write_str("consumer"),
            SplitKey::Header(name) => write!(f, "header:{name}"),
            SplitKey::Cookie(name) => write!(f, "cookie:{name}"),
        }
    }
}
