//! Preconditions: a change may name the version on which it is based.

use super::Result;
use crate::domain::fault::{Code, Fault};

/// What `If-Match` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    Absent,
    /// `*`: whatever there is.
    Any,
    /// Any of these. ETags that name no version match nothing.
    Versions(Vec<i64>),
}

impl IfMatch {
    /// Returns the version on which the change is based, given the `current` one. A fault if they do not match.
    pub fn against(&self, current: i64) -> Result<Option<i64>> {
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
