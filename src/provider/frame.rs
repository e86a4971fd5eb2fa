//! Deserialises parts of frames without copying or allocating what is not needed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A string, borrowed from the frame unless it contains escapes. Values of other types become empty strings.
#[derive(Debug, Default)]
pub(crate) struct LenientStr<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for LenientStr<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct LenientVisitor;

        impl<'de> Visitor<'de> for LenientVisitor {
            type Value = LenientStr<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }
            fn visit_borrowed_str<E>(self, word: &'de str) -> Result<Self::Value, E> {
                Ok(LenientStr(Cow::Borrowed(word)))
            }
            fn visit_str<E>(self, word: &str) -> Result<Self::Value, E> {
                Ok(LenientStr(Cow::Owned(word.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(LenientStr::default())
            }
            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(LenientStr::default())
            }
            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(LenientStr::default())
            }
            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(LenientStr::default())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(LenientStr::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(LenientStr::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(LenientStr::default())
            }
        }

        from.deserialize_any(LenientVisitor)
    }
}

/// A list that almost always has one element.
#[derive(Debug)]
pub(crate) struct SmallList<T> {
    first: Option<T>,
    more: Vec<T>,
}

impl<T> Default for SmallList<T> {
    fn default() -> Self {
        Self { first: None, more: Vec::new() }
    }
}

impl<T> IntoIterator for SmallList<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SmallList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = SmallList<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut few = SmallList { first: list.next_element()?, more: Vec::new() };
                while let Some(next) = list.next_element()? {
                    few.more.push(next);
                }
                Ok(few)
            }
        }

        from.deserialize_seq(ListVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_borrowed_and_anything_else_is_none() {
        let word = |text| serde_json::from_str::<LenientStr<'_>>(text).unwrap().0;
        assert!(matches!(word(r#""error""#), Cow::Borrowed("error")));
        assert_eq!(word(r#""a\nb""#), "a\nb");
        for none in ["null", "true", "1", "-1", "1.5", r#"["error"]"#, r#"{"a": "error"}"#] {
            assert_eq!(word(none), "", "{none}");
        }
    }

    #[test]
    fn a_list_of_few_holds_all_of_them_in_order() {
        for list in ["[]", "[1]", "[1,2,3]"] {
            let few: SmallList<u8> = serde_json::from_str(list).unwrap();
            let whole: Vec<u8> = serde_json::from_str(list).unwrap();
            assert_eq!(few.into_iter().collect::<Vec<_>>(), whole);
        }
    }
}
