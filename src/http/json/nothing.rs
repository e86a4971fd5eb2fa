//! The body of a call that needs none.

use serde::Deserialize;

/// `{}`, or nothing at all; members would be refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}
