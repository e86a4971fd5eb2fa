//! A JSON Pointer (RFC 6901) that is built name by name.

use std::fmt;

/// The path to a value in a JSON document; the empty one is the whole document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// The pointer to the value under these names.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut pointer = Self::default();
        names.into_iter().for_each(|name| pointer.push(name));
        pointer
    }

    /// Appends the name of a member, escaped.
    pub fn push(&mut self, name: &str) {
        self.0.push(token(name));
    }
}

/// A name as it stands in a pointer.
pub fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The name for which this stands in a pointer.
pub fn name(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|token| write!(f, "/{token}"))
    }
}
