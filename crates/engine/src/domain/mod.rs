//! Data only: the nouns that every floor shares. Serde in, serde out; no async, no IO, no clock.
//!
//! JSON names are those of the contract (camelCase); times are Unix milliseconds.

pub mod actor;
pub mod agent;
pub mod depth;
pub mod digest;
pub mod facts;
pub mod fault;
pub mod forecast;
mod form;
pub mod hex;
pub mod hitl;
pub mod ids;
pub mod message;
pub mod model;
pub mod observation;
pub mod payload;
pub mod plan;
pub mod pointer;
pub mod policy;
pub mod prompt;
pub mod run;
pub mod settings;
pub mod state;
pub mod task;
pub mod thread;
pub mod tokens;
pub mod tool;
pub mod trace;
pub mod usage;

/// The schema of an enum whose words a macro gave it: those of `as_str`, in the order of `ALL`.
macro_rules! words_of {
    ($name:ident) => {
        #[cfg(feature = "schema")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let words = $name::ALL.iter().map(|word| word.as_str());
                let text = utoipa::openapi::schema::Type::String;
                utoipa::openapi::ObjectBuilder::new().schema_type(text).enum_values(Some(words)).into()
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::ToSchema for $name {}
    };
}
pub(crate) use words_of;

/// An enum each of whose variants is a word: the same in JSON, in the database and in texts.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$of:meta])* $variant:ident = $word:tt,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$of])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// In the order of the definition.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word as it stands in JSON and in the database.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}
use words;

/// Unix time in milliseconds. Always an argument, never read from a clock below the runtime.
pub type Millis = i64;

/// The serialised name of an enum's variant. Empty if the variant is not serialised as a text.
pub fn word_of(variant: &impl serde::Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A value of our own as JSON.
pub(crate) fn to_value(own: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(own).expect("our own types have string keys and finite numbers")
}

/// For `skip_serializing_if`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a member for which `null` is a value: it gives `Some(Value::Null)`, and only a missing member gives `None`.
fn present<'de, D: serde::Deserializer<'de>>(member: D) -> Result<Option<serde_json::Value>, D::Error> {
    <serde_json::Value as serde::Deserialize>::deserialize(member).map(Some)
}
