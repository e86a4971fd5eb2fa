//! A JSON Pointer (RFC 6901) that is built name by name, or follows a reader down and up.

use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// The pointer to the value under these names.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut pointer = Self::default();
        names.into_iter().for_each(|name| pointer.push(name));
        pointer
    }

    pub fn push(&mut self, name: &str) {
        self.0.push(name.replace('~', "~0").replace('/', "~1"));
    }

    pub fn pop(&mut self) {
        self.0.pop();
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|token| write!(f, "/{token}"))
    }
}
