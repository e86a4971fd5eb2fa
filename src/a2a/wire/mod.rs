//! The JSON of the protocol, read and written: pure functions between [`types`](super::types) and `Value`.
//!
//! What is read may have members that nobody knows, `null` for what is absent, and the enum names of either version; what
//! is written is exact. Both versions share most shapes (`task`, `request`); where they differ, `v1` and `v03` stand side
//! by side with the same functions:
//!
//! | | 1.0 | 0.3 |
//! |---|---|---|
//! | what it is | named by the member it stands in | `kind` |
//! | part | `text`, `raw`, `url` or `data` | `kind`; files in `file` |
//! | enums | `TASK_STATE_WORKING`, `ROLE_USER` | `working`, `user` |
//! | waiting for the task | unless `returnImmediately` | unless `blocking` is false |
//! | push configuration | flat, one `scheme` | in `pushNotificationConfig`, `schemes` |
//!
//! Over HTTP+JSON, 0.3 is the JSON of its protobuf messages ([`Version::V03Rest`], `v03_rest`): named members and enums like
//! those of 1.0, parts and push configurations of its own.
//!
//! What 0.3 has no member for (media type and file name of text and data) travels in the part's metadata.

mod card;
mod json;
mod method;
mod request;
mod task;
mod v03;
mod v03_rest;
mod v1;

pub use card::{card, card_of_both, read_card};
#[cfg(any(test, feature = "internals"))]
pub use json::Read;
pub use json::Unreadable;
pub use method::Method;

/// A version of the protocol, as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    V1,
    V03,
    /// 0.3 as HTTP+JSON has it.
    V03Rest,
}

impl Version {
    #[cfg(any(test, feature = "internals"))]
    pub const ALL: [Version; 3] = [Version::V1, Version::V03, Version::V03Rest];
    /// The versions that have a name.
    pub const NAMED: [Version; 2] = [Version::V1, Version::V03];

    pub fn as_str(self) -> &'static str {
        match self {
            Version::V1 => "1.0",
            Version::V03 | Version::V03Rest => "0.3",
        }
    }

    /// The form for HTTP+JSON.
    pub fn over_rest(self) -> Version {
        match self {
            Version::V1 => Version::V1,
            Version::V03 | Version::V03Rest => Version::V03Rest,
        }
    }

    /// Parses `A2A-Version`; an absent header means 0.3. Only major and minor are compared.
    pub fn named(text: &str) -> Option<Version> {
        let text = text.trim();
        if text.is_empty() {
            return Some(Version::V03);
        }
        let mut numbers = text.split('.');
        let named = (numbers.next()?, numbers.next().unwrap_or("0"));
        Version::NAMED.into_iter().find(|it| it.as_str().split_once('.') == Some(named))
    }
}

/// How requests are put into HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    JsonRpc,
    HttpJson,
}

impl Binding {
    /// The name in an agent's card.
    pub fn as_str(self) -> &'static str {
        match self {
            Binding::JsonRpc => "JSONRPC",
            Binding::HttpJson => "HTTP+JSON",
        }
    }

    pub fn named(text: &str) -> Option<Binding> {
        [Binding::JsonRpc, Binding::HttpJson].into_iter().find(|it| it.as_str() == text)
    }
}

#[cfg(test)]
mod tests;
