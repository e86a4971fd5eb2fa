//! Secrets in files: read as text, never written.

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Replaces a secret in output.
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

/// A secret in a table.
#[derive(Clone, Debug)]
pub struct Key(pub SecretString);

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(REDACTED)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)? {
            text if text.trim().is_empty() => Err(serde::de::Error::custom("a key is not empty")),
            text => Ok(Self(text.into())),
        }
    }
}
