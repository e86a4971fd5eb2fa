//! Ranges of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.

use std::net::IpAddr;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    base: u128,
    bits: u32,
    is_v4: bool,
}

impl Cidr {
    /// An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (number, is_v4) = number(address.to_canonical());
        is_v4 == self.is_v4 && number & self.mask() == self.base
    }

    fn mask(&self) -> u128 {
        let width = if self.is_v4 { 32 } else { 128 };
        let ones = if self.bits == 0 { 0 } else { u128::MAX << (width - self.bits) };
        if self.is_v4 { ones & u128::from(u32::MAX) } else { ones }
    }
}

fn number(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither an address nor a CIDR range");
        let (address, bits) = text.trim().split_once('/').map_or((text.trim(), None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (base, is_v4) = number(address);
        let width = if is_v4 { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > width {
            return Err(wrong());
        }
        let mut range = Self { base, bits, is_v4 };
        range.base &= range.mask();
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(range: &str, address: &str) -> bool {
        range.parse::<Cidr>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_range_holds_its_addresses_and_no_others() {
        assert!(within("10.0.0.0/8", "10.255.1.2") && !within("10.0.0.0/8", "11.0.0.1"));
        assert!(within("10.1.2.3", "10.1.2.3") && !within("10.1.2.3", "10.1.2.4"));
        assert!(within("0.0.0.0/0", "1.2.3.4") && !within("0.0.0.0/0", "::1"));
        assert!(within("fd00::/8", "fd12::1") && !within("fd00::/8", "fe80::1"));
        assert!(within("127.0.0.0/8", "::ffff:127.0.0.1"));
        assert!("10.0.0.0/33".parse::<Cidr>().is_err() && "ten".parse::<Cidr>().is_err());
    }
}
