//! Versions as entity tags: `"7"`.

use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, HeaderValue};

use crate::domain::fault::{Code, Fault};

pub(crate) fn of(version: i64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{version}\"")).expect("digits are visible ASCII")
}

/// What `If-Match` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IfMatch {
    Absent,
    /// `*`: whatever there is.
    Any,
    /// These; weak ones and those that are none of ours match nothing.
    Versions(Vec<i64>),
}

impl IfMatch {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return IfMatch::Absent;
        }
        let text: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        let tags: Vec<&str> = text.iter().flat_map(|value| value.split(',')).map(str::trim).collect();
        if tags.contains(&"*") {
            return IfMatch::Any;
        }
        let version = |tag: &&str| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok();
        IfMatch::Versions(tags.iter().filter_map(version).collect())
    }

    /// The version that the change may be based on, given the `current` one.
    pub(crate) fn against(&self, current: i64) -> Result<Option<i64>, Fault> {
        match self {
            IfMatch::Absent => Ok(None),
            IfMatch::Any => Ok(Some(current)),
            IfMatch::Versions(versions) if versions.contains(&current) => Ok(Some(current)),
            IfMatch::Versions(_) => {
                let detail = format!("The current version is {current}; read it, and send it in If-Match.");
                Err(Fault::new(Code::PreconditionFailed, detail).with("currentVersion", current))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
