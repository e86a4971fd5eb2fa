//! Ranges of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.

use std::net::IpAddr;

use ipnet::IpNet;

pub fn range(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let range = text.parse().map(|range: IpNet| range.trunc());
    range
        .or_else(|_| text.parse().map(|address: IpAddr| address.into()))
        .map_err(|_| format!("`{text}` is neither an address nor a CIDR range"))
}

#[cfg(test)]
mod tests;
