//! From a JSON value to a request's type: whatever does not fit is named by its pointer.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::pointer::Pointer;
use crate::domain::fault::{Code, Fault};

/// Unknown members, missing ones and wrong types are `invalid`, each with a pointer.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let detail = error.inner().to_string();
        let pointer = pointer(error.path(), &detail).to_string();
        Fault::new(Code::Invalid, "The body does not have the expected form; see `errors`.").at(pointer, detail)
    })
}

fn pointer(path: &Path, detail: &str) -> Pointer {
    let mut pointer = Pointer::default();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push(&index.to_string()),
            Segment::Map { key } => pointer.push(key),
            Segment::Enum { variant } => pointer.push(variant),
            Segment::Unknown => {}
        }
    }
    if let Some(missing) = detail.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        pointer.push(missing);
    }
    pointer
}

#[cfg(test)]
mod tests;
