use super::*;

#[test]
fn every_form_of_the_host_is_an_address() {
    for (host, expected) in [
        ("http://gpu:8080", "http://gpu:8080"),
        ("https://gpu/ollama/", "https://gpu/ollama/"),
        ("gpu", "http://gpu:11434"),
        ("gpu:1", "http://gpu:1"),
        (":2", "http://127.0.0.1:2"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:3/base", "http://127.0.0.1:3/base"),
        ("::1", "http://[::1]:11434"),
        ("[::]:4", "http://[::1]:4"),
        ("", "http://127.0.0.1:11434"),
    ] {
        assert_eq!(base_url(host), expected, "{host}");
    }
}
