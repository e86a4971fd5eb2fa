//! The body of a call that needs none.

use serde::Deserialize;

/// `{}`, or an empty body. Members are refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}
