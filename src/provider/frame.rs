//! Parts of frames, read without a copy or an allocation where nothing of them is kept.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A word, borrowed from its frame unless something in it is escaped. What is no string is no word.
#[derive(Debug, Default)]
pub(crate) struct Word<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Word<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }
            fn visit_borrowed_str<E>(self, word: &'de str) -> Result<Self::Value, E> {
                Ok(Word(Cow::Borrowed(word)))
            }
            fn visit_str<E>(self, word: &str) -> Result<Self::Value, E> {
                Ok(Word(Cow::Owned(word.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Word::default())
            }
            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Word::default())
            }
            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Word::default())
            }
            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Word::default())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Word::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Word::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Word::default())
            }
        }

        from.deserialize_any(Read)
    }
}

/// A list that nearly always holds one thing.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    more: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, more: Vec::new() }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut few = Few { first: list.next_element()?, more: Vec::new() };
                while let Some(next) = list.next_element()? {
                    few.more.push(next);
                }
                Ok(few)
            }
        }

        from.deserialize_seq(Read(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_borrowed_and_anything_else_is_none() {
        let word = |text| serde_json::from_str::<Word<'_>>(text).unwrap().0;
        assert!(matches!(word(r#""error""#), Cow::Borrowed("error")));
        assert_eq!(word(r#""a\nb""#), "a\nb");
        for none in ["null", "true", "1", "-1", "1.5", r#"["error"]"#, r#"{"a": "error"}"#] {
            assert_eq!(word(none), "", "{none}");
        }
    }

    #[test]
    fn a_list_of_few_holds_all_of_them_in_order() {
        for list in ["[]", "[1]", "[1,2,3]"] {
            let few: Few<u8> = serde_json::from_str(list).unwrap();
            let whole: Vec<u8> = serde_json::from_str(list).unwrap();
            assert_eq!(few.into_iter().collect::<Vec<_>>(), whole);
        }
    }
}
