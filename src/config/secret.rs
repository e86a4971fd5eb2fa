//! Secrets in files: read as text, never written back.

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serializer};

/// What stands where a secret would.
pub const REDACTED: &str = "[redacted]";

pub fn serialize<S: Serializer>(secret: &Option<SecretString>, out: S) -> Result<S::Ok, S::Error> {
    match secret {
        Some(_) => out.serialize_some(REDACTED),
        None => out.serialize_none(),
    }
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()).map(SecretString::from))
}
