//! Which tags match.

use super::*;
use crate::domain::fault::Code;

fn asked(value: &str) -> IfMatch {
    let mut headers = HeaderMap::new();
    headers.insert(IF_MATCH, value.parse().unwrap());
    IfMatch::of(&headers)
}

#[test]
fn only_the_current_version_matches() {
    assert_eq!(IfMatch::of(&HeaderMap::new()).against(3).unwrap(), None);
    assert_eq!(asked("\"2\", \"3\"").against(3).unwrap(), Some(3));
    assert_eq!(asked("*").against(3).unwrap(), Some(3));
    for stale in ["\"2\"", "W/\"2\"", "\"2-gzip\"", "3", "W/3", "\"x\"", "\"3-x\"", "\"3-gzip-gzip\""] {
        assert_eq!(asked(stale).against(3).unwrap_err().code, Code::PreconditionFailed, "{stale}");
    }
}

#[test]
fn a_tag_that_a_proxy_changed_when_it_compressed_the_answer_matches() {
    for current in ["W/\"3\"", "\"3-gzip\"", "\"3-br\"", "\"3-zstd\"", "W/\"3-gzip\""] {
        assert_eq!(asked(current).against(3).unwrap(), Some(3), "{current}");
    }
}
