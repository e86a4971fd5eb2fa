//! Request bodies: read within limits, parsed as strict JSON, converted to a type.

mod body;
mod budget;
mod nothing;
mod strict;

pub(crate) use crate::domain::digest::of as fingerprint;
pub(crate) use crate::domain::typed::typed;
pub(crate) use body::{
    BodyLimits, JsonBody, JsonValue, KeyedBody, OptionalJsonBody, OptionalKeyedBody, read_any, read_text, read_value,
};
pub(crate) use nothing::Nothing;
pub(crate) use strict::parse;
