//! A strict JSON parser: bounded depth, no duplicate keys in an object, no U+0000.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::domain::fault::{Code, Fault};
use crate::domain::pointer::Pointer;

/// Parses `text`. `max_depth` limits the nesting of objects and arrays; serde_json's own limit of 128 applies as well.
pub(crate) fn parse(text: &[u8], max_depth: usize) -> Result<Value, Fault> {
    let shared =
        ReaderState { refused: RefCell::default(), path: RefCell::default(), left: Cell::new(MAX_VALUES), max_depth };
    let mut source = serde_json::Deserializer::from_slice(text);
    let parsed = Node { shared: &shared, depth: 0 }.deserialize(&mut source);
    parsed.and_then(|value| source.end().map(|()| value)).map_err(|error| match shared.refused.take() {
        Some((code, detail)) => {
            let path = shared.path.take();
            let pointer = Pointer::of(path.iter().rev().map(String::as_str)).to_string();
            Fault::new(code, format!("{detail}.")).at(pointer, detail)
        }
        None => Fault::new(Code::Malformed, format!("The body is not valid JSON: {error}.")),
    })
}

/// The maximum number of values in one text, including containers. A value needs many times the memory of the two bytes
/// in which it may be written.
pub(crate) const MAX_VALUES: usize = 250_000;

/// What the readers of the nested values of one text share.
struct ReaderState {
    /// Why the text was refused, if it was: serde's errors can only carry text.
    refused: RefCell<Option<(Code, String)>>,
    /// The names on the way to the refused value, innermost first: they are collected only after a failure.
    path: RefCell<Vec<String>>,
    /// How many more values are allowed.
    left: Cell<usize>,
    max_depth: usize,
}

impl ReaderState {
    fn refuse<E: de::Error>(&self, code: Code, detail: &str) -> E {
        *self.refused.borrow_mut() = Some((code, detail.to_owned()));
        E::custom(detail)
    }

    /// Adds the name of the member, or the index of the element, in which reading failed.
    fn within<E>(&self, name: impl fmt::Display, error: E) -> E {
        self.path.borrow_mut().push(name.to_string());
        error
    }

    fn check_text<E: de::Error>(&self, text: &str) -> Result<(), E> {
        if text.contains('\0') {
            return Err(self.refuse(Code::Invalid, "Text cannot contain U+0000"));
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    shared: &'a ReaderState,
    depth: usize,
}

impl Node<'_> {
    /// The value of the member `key`, which follows in `members`.
    fn member<'de, A: MapAccess<'de>>(
        self,
        key: &str,
        known: &Map<String, Value>,
        members: &mut A,
    ) -> Result<Value, A::Error> {
        self.shared.check_text(key)?;
        if known.contains_key(key) {
            return Err(self.shared.refuse(Code::Malformed, "A key occurs twice in one object"));
        }
        members.next_value_seed(self)
    }

    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth == self.shared.max_depth {
            let detail = format!("Objects and arrays may nest {} deep", self.shared.max_depth);
            return Err(self.shared.refuse(Code::Malformed, &detail));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        let left = self.shared.left.get().checked_sub(1);
        let refuse = || self.shared.refuse(Code::BodyTooLarge, &format!("JSON may have {MAX_VALUES} values"));
        self.shared.left.set(left.ok_or_else(refuse)?);
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.shared.check_text(text)?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut values = Vec::new();
        loop {
            let at = values.len();
            match items.next_element_seed(inner).map_err(|error| self.shared.within(at, error))? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = inner.member(&key, &map, &mut members).map_err(|error| self.shared.within(&key, error))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> (Code, String) {
        let fault = parse(text.as_bytes(), 4).unwrap_err();
        (fault.code, fault.errors.first().map(|e| e.pointer.clone()).unwrap_or_default())
    }

    #[test]
    fn what_is_well_formed_comes_through() {
        let text = r#" {"a":[1,-2,0.5,true,null,"x"],"b":{"c":{}},"a~/":18446744073709551615} "#;
        let expected = json!({"a":[1,-2,0.5,true,null,"x"],"b":{"c":{}},"a~/":18446744073709551615u64});
        assert_eq!(parse(text.as_bytes(), 4).unwrap(), expected);
    }

    #[test]
    fn what_is_not_is_refused_at_its_place() {
        assert_eq!(refused(r#"{"a":[{"b":1,"b":2}]}"#), (Code::Malformed, "/a/0/b".into()));
        assert_eq!(refused("[0,[[[[1]]]]]"), (Code::Malformed, "/1/0/0/0".into()));
        assert_eq!(refused(r#"{"a~b/":["ok","no\u0000"]}"#), (Code::Invalid, "/a~0b~1/1".into()));
        for broken in ["", "{", "[1,]", "{} {}", "nul", "\u{feff}{}", "{\"a\":\"\u{1}\"}", "01", "1e999"] {
            assert_eq!(refused(broken), (Code::Malformed, String::new()), "{broken:?}");
        }
        let many = |values: usize| format!("[0{}]", ",0".repeat(values - 2));
        assert!(parse(many(MAX_VALUES).as_bytes(), 4).is_ok());
        assert_eq!(parse(many(MAX_VALUES + 1).as_bytes(), 4).unwrap_err().code, Code::BodyTooLarge);
        assert_eq!(parse(b"\"\xff\"", 4).unwrap_err().code, Code::Malformed);
        assert_eq!(parse("[".repeat(100_000).as_bytes(), 1_000_000).unwrap_err().code, Code::Malformed);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

        /// Whatever is accepted, serde_json reads as the same value, and nothing panics.
        #[test]
        fn whatever_is_accepted_is_json(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:0123456789.eE-+truefalsn \\u\xc3\xa9".to_vec()), 0..60)) {
            if let Ok(value) = parse(&bytes, 8) {
                let expected: Value = serde_json::from_slice(&bytes).unwrap();
                proptest::prop_assert_eq!(value, expected);
            }
        }
    }
}
