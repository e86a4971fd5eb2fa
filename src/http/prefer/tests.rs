use super::*;

#[test]
fn the_wait_is_found_among_others_and_bounded() {
    let of = |text: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("prefer", text.parse().unwrap());
        wait(&headers).map(|wait| wait.as_secs())
    };
    assert_eq!(of("respond-async, Wait=\"10\"; foo"), Some(10));
    assert_eq!(of("wait=999"), Some(MAX_WAIT_SECS));
    assert_eq!(of("wait=0"), Some(0));
    assert_eq!(of("wait=soon"), None);
    assert_eq!(of("return=minimal"), None);
}
