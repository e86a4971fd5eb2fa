//! Which texts are addresses, and their domains.

use serde_json::json;

use super::*;

#[test]
fn addresses_are_read_with_their_domains() {
    for value in [
        json!("a@example.com"),
        json!("A.b+c_d@EXAMPLE.com."),
        json!("a@example.com,b@example.com"),
        json!("a@example.com, b@example.com"),
        json!(["o'neil@example.com", "b@example.com"]),
    ] {
        let domains = domains(&value).unwrap();
        assert!(domains.iter().all(|domain| *domain == Host::Name("example.com".to_owned())), "{value} {domains:?}");
    }
    assert_eq!(domains(&json!("a@bücher.example")).unwrap(), [Host::Name("xn--bcher-kva.example".to_owned())]);
}

#[test]
fn what_is_not_certainly_an_address_is_none() {
    for value in [
        json!(""),
        json!("example.com"),
        json!("@example.com"),
        json!("a@"),
        json!("a@b@example.com"),
        json!("a@example.com,"),
        json!("a@example.com,,b@example.com"),
        json!("a@example.com;b@example.com"),
        json!("a@example.com b@example.com"),
        json!("a@example.com\nb@evil.test"),
        json!("a@example.com\r\nBcc: b@evil.test"),
        json!(" a@example.com"),
        json!("a@example.com "),
        json!("Ann <a@example.com>"),
        json!("<a@example.com>"),
        json!("mailto:a@example.com"),
        json!("\"a b\"@example.com"),
        json!("a(note)@example.com"),
        json!("a%evil.test@example.com"),
        json!("evil.test!a@example.com"),
        json!(".a@example.com"),
        json!("a..b@example.com"),
        json!("\u{e4}@example.com"),
        json!("a@[192.0.2.1]"),
        json!("a@192.0.2.1"),
        json!("a@example.com:25"),
        json!("a@exam\u{200b}ple.com"),
        json!("a@ｅxample.com"),
        json!("a@example\u{3002}com"),
        json!(format!("{}@example.com", "a".repeat(65))),
        json!([]),
        json!(["a@example.com,b@example.com"]),
        json!(["a@example.com", ["b@example.com"]]),
        json!({ "to": "a@example.com" }),
        json!(7),
    ] {
        assert_eq!(domains(&value), None, "{value}");
    }
}
