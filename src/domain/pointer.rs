//! A JSON Pointer (RFC 6901) that follows a reader down and up.

use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

impl Pointer {
    pub(crate) fn push(&mut self, token: &str) {
        self.0.push(token.replace('~', "~0").replace('/', "~1"));
    }
    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|token| write!(f, "/{token}"))
    }
}
