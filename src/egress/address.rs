//! Which addresses are the internet, and what the others are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is instead of a public one. An IPv4 address inside an IPv6 one counts as what it is.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(v4) => of_v4(v4),
        IpAddr::V6(v6) => of_v6(v6),
    }
}

fn of_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "an unspecified",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private",
        [100, 64..=127, ..] => "a carrier's private",
        [127, ..] => "a loopback",
        [168, 63, 129, 16] => "a metadata",
        [169, 254, ..] => "a link-local or metadata",
        [192, 0, 0, _] | [192, 88, 99, _] => "a reserved",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "a documentation",
        [198, 18..=19, ..] => "a benchmarking",
        [224..=239, ..] => "a multicast",
        [240..=255, ..] => "a reserved or broadcast",
        [_, _, _, _] => return None,
    })
}

/// Only 2000::/3 is handed out to the public; tunnels in it lead to IPv4 addresses that nobody would see.
fn of_v6(address: Ipv6Addr) -> Option<&'static str> {
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an unspecified",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback",
        [0, 0, 0, 0, 0, 0, _, _] => "an IPv4-compatible",
        // A network without IPv4 reaches the public one so.
        [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => return of_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))),
        [0x64, 0xFF9B, ..] => "a translated private",
        [0x2001, 0, ..] => "a Teredo",
        [0x2001, 0x0DB8, ..] | [0x3FFF, 0..=0x0FFF, ..] => "a documentation",
        [0x2001, 0..=0x01FF, ..] => "a reserved",
        [0x2002, ..] => "a 6to4",
        [0x2000..=0x3FFF, ..] => return None,
        [0xFC00..=0xFDFF, ..] => "a private",
        [0xFE80..=0xFEBF, ..] => "a link-local",
        [0xFEC0..=0xFEFF, ..] => "a site-local",
        [0xFF00..=0xFFFF, ..] => "a multicast",
        [_, ..] => "a reserved",
    })
}

#[cfg(test)]
mod tests;
