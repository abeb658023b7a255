//! Addresses that everybody reaches, and those that mean something only where the call is made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks of IPv4 that are not public, with what they are.
const V4: &[(Ipv4Addr, u8, &str)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an unspecified address"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private address"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "an address shared by a provider"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "a loopback address"),
    // Where clouds keep what a machine may know of itself, keys among it.
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "an address of a cloud's own services"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private address"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "an address of protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "an address of examples"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "an address of relays"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private address"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "an address of measurements"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "an address of examples"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "an address of examples"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved address"),
];

/// Blocks of IPv6 that are not public, with what they are; the first that fits says it. Of those that are in none of them,
/// only `2000::/3` is public.
const V6: &[(Ipv6Addr, u8, &str)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "an unspecified address"),
    (Ipv6Addr::LOCALHOST, 128, "a loopback address"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a private address"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local address"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "a private address"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast address"),
    // Tunnels among them, which lead to an IPv4 address that is written in the rest.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "an address of protocols"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "an address of examples"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "an address of relays"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "an address of examples"),
];

/// Where a network translates IPv6 into the IPv4 address in the last four bytes.
const NAT64: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
const GLOBAL: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    first: IpAddr,
    prefix: u8,
}

impl Block {
    /// One address alone.
    pub(super) fn one(address: IpAddr) -> Self {
        let address = plain(address);
        Self { first: address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// A block; `None` when an address has not so many bits.
    pub(super) fn new(first: IpAddr, prefix: u8) -> Option<Self> {
        (prefix <= if first.is_ipv4() { 32 } else { 128 }).then_some(Self { first, prefix })
    }

    /// Whether an address is in it.
    pub(super) fn has(self, address: IpAddr) -> bool {
        match (self.first, plain(address)) {
            (IpAddr::V4(first), IpAddr::V4(address)) => in_v4(address, first, self.prefix),
            (IpAddr::V6(first), IpAddr::V6(address)) => in_v6(address, first, self.prefix),
            _ => false,
        }
    }
}

/// The address that is meant by one that is written as IPv6.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn in_v4(address: Ipv4Addr, first: Ipv4Addr, prefix: u8) -> bool {
    let shift = 32 - u32::from(prefix);
    let block = |address: Ipv4Addr| address.to_bits().checked_shr(shift).unwrap_or(0);
    block(address) == block(first)
}

fn in_v6(address: Ipv6Addr, first: Ipv6Addr, prefix: u8) -> bool {
    let shift = 128 - u32::from(prefix);
    let block = |address: Ipv6Addr| address.to_bits().checked_shr(shift).unwrap_or(0);
    block(address) == block(first)
}

/// What an address is that not everybody reaches; `None` for a public one.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match plain(address) {
        IpAddr::V4(address) => {
            V4.iter().find(|(first, prefix, _)| in_v4(address, *first, *prefix)).map(|(.., what)| *what)
        }
        IpAddr::V6(address) => {
            if in_v6(address, NAT64.0, NAT64.1) {
                let [.., a, b, c, d] = address.octets();
                return not_public(Ipv4Addr::new(a, b, c, d).into());
            }
            let listed = V6.iter().find(|(first, prefix, _)| in_v6(address, *first, *prefix));
            let outside = || (!in_v6(address, GLOBAL.0, GLOBAL.1)).then_some("a reserved address");
            listed.map(|(.., what)| *what).or_else(outside)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_everybody_reaches_is_public() {
        for public in [
            "1.1.1.1",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "223.255.255.255",
            "168.63.129.17",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert_eq!(not_public(public.parse().expect("an address")), None, "{public}");
        }
        for (other, what) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("10.0.0.1", "private"),
            ("100.100.100.200", "provider"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.255", "loopback"),
            ("168.63.129.16", "cloud"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("198.19.0.1", "measurements"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::127.0.0.1", "reserved"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:0:127.0.0.1", "reserved"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("64:ff9b:1::1", "reserved"),
            ("2002:7f00:1::", "relays"),
            ("2001:0:7f00:1::", "protocols"),
            ("2001:db8::1", "examples"),
            ("fd00:ec2::254", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "private"),
            ("ff02::1", "multicast"),
            ("100::1", "reserved"),
            ("4000::1", "reserved"),
        ] {
            let told = not_public(other.parse().expect("an address"));
            assert!(told.is_some_and(|told| told.contains(what)), "{other}: {told:?}");
        }
    }

    #[test]
    fn a_block_has_what_its_bits_say() {
        let block =
            |text: &str, prefix| Block::new(text.parse().expect("an address"), prefix).expect("a block");
        let has = |block: Block, address: &str| block.has(address.parse().expect("an address"));
        assert!(has(block("10.1.0.0", 16), "10.1.2.3") && !has(block("10.1.0.0", 16), "10.2.0.0"));
        assert!(has(block("0.0.0.0", 0), "8.8.8.8") && !has(block("0.0.0.0", 0), "2606::1"));
        assert!(has(block("::", 0), "2606::1") && has(block("fd00::", 8), "fd12::1"));
        assert!(has(block("10.0.0.0", 8), "::ffff:10.1.1.1"), "the same address in another spelling");
        assert!(Block::new("10.0.0.0".parse().expect("an address"), 33).is_none());
    }
}
