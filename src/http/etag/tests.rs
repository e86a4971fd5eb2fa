//! Which tags match.

use super::*;
use crate::domain::fault::Code;

fn asked(value: &str) -> IfMatch {
    let mut headers = HeaderMap::new();
    headers.insert(IF_MATCH, value.parse().unwrap());
    IfMatch::of(&headers)
}

#[test]
fn only_the_current_strong_tag_matches() {
    assert_eq!(IfMatch::of(&HeaderMap::new()).against(3).unwrap(), None);
    assert_eq!(asked("\"2\", \"3\"").against(3).unwrap(), Some(3));
    assert_eq!(asked("*").against(3).unwrap(), Some(3));
    for stale in ["\"2\"", "W/\"3\"", "3", "\"x\""] {
        assert_eq!(asked(stale).against(3).unwrap_err().code, Code::PreconditionFailed, "{stale}");
    }
}
