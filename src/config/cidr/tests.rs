use super::*;

fn within(text: &str, address: &str) -> bool {
    range(text).unwrap().contains(&address.parse::<IpAddr>().unwrap())
}

#[test]
fn a_range_holds_its_addresses_and_no_others() {
    assert!(within("10.0.0.0/8", "10.255.1.2") && !within("10.0.0.0/8", "11.0.0.1"));
    assert!(within("10.1.2.3", "10.1.2.3") && !within("10.1.2.3", "10.1.2.4"));
    assert!(within(" 10.1.2.3/8 ", "10.0.0.1"), "what is behind the prefix does not count");
    assert!(within("0.0.0.0/0", "1.2.3.4") && !within("0.0.0.0/0", "::1"));
    assert!(within("fd00::/8", "fd12::1") && !within("fd00::/8", "fe80::1"));
    assert!(range("10.0.0.0/33").is_err() && range("ten").is_err());
}
