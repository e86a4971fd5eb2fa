//! Preconditions: a change may say which version it is based on.

use super::Result;
use crate::domain::fault::{Code, Fault};

/// What `If-Match` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    Absent,
    /// `*`: whatever there is.
    Any,
    /// These; weak ones and those that are none of ours match nothing.
    Versions(Vec<i64>),
}

impl IfMatch {
    /// The version that the change may be based on, given the `current` one.
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
