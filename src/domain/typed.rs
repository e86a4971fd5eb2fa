//! Converts a JSON value to a request type; every mistake has a pointer.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::fault::{Code, Fault};
use super::pointer::Pointer;

/// Unknown members, missing members and wrong types are `invalid`, each with a pointer.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(Named(value)).map_err(|error| {
        let detail = error.inner().to_string();
        let pointer = pointer(error.path(), &detail).to_string();
        let detail = without_rust_types(&detail);
        Fault::new(Code::Invalid, "The body does not have the expected form; see `errors`.").at(pointer, detail)
    })
}

/// Serde's error with the words of JSON instead of the names of Rust's types.
pub(crate) fn without_rust_types(detail: &str) -> String {
    let Some((found, expected)) = detail.rsplit_once(", expected ") else { return detail.to_owned() };
    let in_json = match expected {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" | "usize" => "a whole number of at least 0".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        name if name.starts_with("struct ") || name.starts_with("internally tagged enum ") => "an object".to_owned(),
        _ => return detail.to_owned(),
    };
    format!("{found}, expected {in_json}")
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

/// Accepts only objects for structs. Serde also accepts arrays, by position, and still does so inside enums and
/// flattened members, which it buffers first.
struct Named(Value);

impl<'de> Deserializer<'de> for Named {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(Named));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(members) => {
                let mut members = MapDeserializer::new(members.into_iter().map(|(name, value)| (name, Named(value))));
                let value = visitor.visit_map(&mut members)?;
                members.end()?;
                Ok(value)
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Seq, &"an object")),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for Named {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests;
