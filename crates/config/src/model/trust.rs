//! Peers whose word about their clients is taken.

use ipnet::IpNet;

use crate::ClientAddress;

/// Peers whose `X-Forwarded-*`, request id and PROXY headers are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// By address.
    pub networks: Vec<IpNet>,
    /// Whoever connects to a Unix socket: its permissions say who can.
    pub unix: bool,
}

impl TrustedProxies {
    /// Whether nobody is believed.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.unix
    }

    /// Whether who has this address is believed.
    #[inline]
    pub fn contains(&self, address: ClientAddress) -> bool {
        match address {
            ClientAddress::Ip(address) => self.networks.iter().any(|network| network.contains(&address)),
            ClientAddress::Unix => self.unix,
        }
    }
}

impl FromIterator<IpNet> for TrustedProxies {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        TrustedProxies { networks: networks.into_iter().collect(), unix: false }
    }
}
