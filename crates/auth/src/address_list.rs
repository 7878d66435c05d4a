//! Sets of IP addresses, as networks.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

/// A set of networks, searched in logarithmic time. IPv4 and its IPv4-mapped IPv6 form are one address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressList {
    /// First and last address of each range, sorted, without overlap.
    ranges: Box<[(u128, u128)]>,
}

impl AddressList {
    /// The union of networks.
    #[must_use]
    pub fn new(networks: &[IpNet]) -> Self {
        let mut all: Vec<(u128, u128)> =
            networks.iter().map(|net| (number(net.network()), number(net.broadcast()))).collect();
        all.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges: ranges.into() }
    }

    /// Whether it has no address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether an address is in one of the networks.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let wanted = number(address);
        let behind = self.ranges.partition_point(|range| range.0 <= wanted);
        behind > 0 && self.ranges[behind - 1].1 >= wanted
    }
}

/// IPv4 addresses take their place among IPv6 as `::ffff:a.b.c.d`.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => four.to_ipv6_mapped().to_bits(),
        IpAddr::V6(six) => Ipv6Addr::to_bits(six),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(of: &[&str]) -> AddressList {
        AddressList::new(&of.iter().map(|one| one.parse().expect("a network")).collect::<Vec<IpNet>>())
    }

    #[test]
    fn mapped_addresses_are_the_ipv4_addresses() {
        let ten = list(&["10.0.0.0/8"]);
        assert!(ten.contains("::ffff:10.1.2.3".parse().expect("an address")));
        assert!(!ten.contains("::10.1.2.3".parse().expect("an address")));
        assert!(list(&["0.0.0.0/0"]).contains("255.255.255.255".parse().expect("an address")));
        assert!(!list(&["0.0.0.0/0"]).contains("::1".parse().expect("an address")));
        assert!(list(&["::/0"]).contains("10.0.0.1".parse().expect("an address")));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_check_of_every_network(
            networks in proptest::collection::vec((any::<u32>(), 0u8..=32), 0..20),
            near in any::<u32>(),
            pick in any::<prop::sample::Index>(),
            step in -1i64..=1,
        ) {
            let networks: Vec<IpNet> = networks
                .into_iter()
                .map(|(bits, len)| IpNet::new(IpAddr::V4(bits.into()), len).expect("a length to 32"))
                .collect();
            let set = AddressList::new(&networks);
            let edge = if networks.is_empty() { near } else {
                let IpAddr::V4(last) = pick.get(&networks).broadcast() else { unreachable!() };
                (i64::from(last.to_bits()) + step).clamp(0, i64::from(u32::MAX)) as u32
            };
            for bits in [near, edge] {
                let address = IpAddr::V4(bits.into());
                prop_assert_eq!(set.contains(address), networks.iter().any(|net| net.contains(&address)));
            }
        }
    }
}
