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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::settings::CallOptions;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    #[expect(dead_code, reason = "only its form is of interest")]
    struct Body {
        the_query: String,
        #[serde(default)]
        options: CallOptions,
    }

    fn at(value: Value) -> String {
        let fault = typed::<Body>(value).unwrap_err();
        assert_eq!(fault.code, Code::Invalid);
        fault.errors[0].pointer.clone()
    }

    #[test]
    fn the_pointer_names_what_does_not_fit() {
        assert_eq!(at(json!({"theQuery": 1})), "/theQuery");
        assert_eq!(at(json!({})), "/theQuery");
        assert_eq!(at(json!({"theQuery": "q", "nope": 1})), "/nope");
        assert_eq!(at(json!({"theQuery": "q", "options": {"budget": {"maxTokens": -1}}})), "/options/budget/maxTokens");
        assert_eq!(at(json!({"theQuery": "q", "options": {"budget": {"max": 1}}})), "/options/budget/max");
        assert_eq!(at(json!([])), "");
    }
}
