//! Which host is meant, and which texts are ambiguous.

use proptest::prelude::*;

use super::*;

fn name(name: &str) -> Option<Host> {
    Some(Host::Name(name.to_owned()))
}

#[test]
fn a_host_is_read_as_every_program_reads_it() {
    for text in [
        "example.com",
        "EXAMPLE.com.",
        "example.com:8443",
        "https://example.com",
        "HTTPS://Example.Com/a@b?c=://d#e",
        "https://example.com?x",
        "wss://example.com:443/x",
    ] {
        assert_eq!(of(text), name("example.com"), "{text}");
    }
    assert_eq!(of("https://bücher.example/"), name("xn--bcher-kva.example"));
    assert_eq!(of("https://XN--bcher-kva.example/"), name("xn--bcher-kva.example"));
    assert_eq!(of("http://127.0.0.1:80/"), Some(Host::Address([127, 0, 0, 1].into())));
    assert_eq!(of("http://[2001:DB8::1]:80/"), Some(Host::Address("2001:db8::1".parse().unwrap())));
    assert_eq!(of("[::1]"), Some(Host::Address("::1".parse().unwrap())));
}

#[test]
fn where_two_programs_may_read_another_host_it_is_none() {
    for text in [
        "",
        ".",
        "https://",
        "https:///example.com",
        "https:/example.com",
        "https:example.com",
        "//example.com/",
        "example.com/path",
        "https://example.com@evil.test/",
        "https://example.com:443@evil.test/",
        "https://user:word@example.com/",
        "https://evil.test\\@example.com/",
        "https://evil.test\\.example.com/",
        "https://example.com\\evil",
        "https://ex%61mple.com/",
        "https://example.com%2eevil.test/",
        " https://example.com/",
        "https://example.com/\n",
        "https://exam\tple.com/",
        "https://example\u{200b}.com/",
        "https://ｅxample.com/",
        "https://example\u{3002}com/",
        "https://straße.example/",
        "https://example.com:port/",
        "https://example.com:/",
        "https://example.com:99999/",
        "https://example..com/",
        "https://example.com../",
        "https://example.com;evil.test/",
        "file:///etc/passwd",
        "javascript://example.com/%0aalert(1)",
        "data:text/plain,https://example.com",
        "evil.test/?next=https://example.com",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./x y",
        "http://[::ffff:127.0.0.1]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::1",
        "http://[::1]evil.test/",
    ] {
        assert_eq!(of(text), None, "{text:?}");
    }
    assert_eq!(of(&format!("https://{}.com/", "a".repeat(64))), None);
    assert_eq!(of(&"a".repeat(100_000)), None);
}

#[test]
fn a_pattern_covers_whole_labels() {
    let covers = |pattern: &str, host: &str| HostPattern::new(pattern).unwrap().covers(&of(host).unwrap());
    assert!(covers("example.com", "https://EXAMPLE.com:8443/"));
    assert!(covers("*.example.com", "a.b.example.com"));
    assert!(covers("*.Bücher.example", "www.xn--bcher-kva.example"));
    assert!(covers("[::1]", "http://[::1]/"));
    assert!(!covers("example.com", "www.example.com"));
    assert!(!covers("example.com", "example.com.evil.test"));
    assert!(!covers("*.example.com", "example.com"));
    assert!(!covers("*.example.com", "evilexample.com"));
    assert!(!covers("*.com", "127.0.0.1"));
    for wrong in ["", "*", "*.", "*.*.com", "a.*.com", "https://example.com", "example.com:80", "*.0.0.1", "2130706433"]
    {
        assert_eq!(HostPattern::new(wrong), None, "{wrong}");
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_read_is_what_browsers_read(
        text in "(https?|ws)://([a-z.@:\\\\/%\u{3002}ｅ\\[\\]0-9-]{0,6}(example\\.com|127\\.0\\.0\\.1|bücher|@|:80|\\.)){1,4}[/?#]?[a-z@\\\\]{0,5}",
    ) {
        if let Some(host) = of(&text) {
            let read = url::Url::parse(&text).map(|url| url.host_str().map(str::to_owned)).unwrap();
            let read = read.unwrap();
            prop_assert_eq!(parse_name(&read), Some(host), "{}", text);
        }
    }
}
