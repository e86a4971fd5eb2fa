//! Values that may be secret: written directly, or as a reference.

use std::fmt;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::env::{Variables, secret_in};
use super::secret::REDACTED;

/// `env:NAME`, `file:PATH`, or the value itself, which is never displayed.
#[derive(Clone)]
pub enum Reference {
    Env(String),
    File(PathBuf),
    Plain(SecretString),
}

impl Reference {
    /// The current value. The error contains the reference, never the value.
    pub fn resolve(&self, variables: &Variables) -> Result<SecretString, String> {
        match self {
            Self::Plain(value) => Ok(value.clone()),
            Self::Env(_) | Self::File(_) => self.follow(variables),
        }
    }

    /// The current value of a variable or file; a value that is written directly is rejected.
    pub fn follow(&self, variables: &Variables) -> Result<SecretString, String> {
        let (found, what_to_do) = match self {
            Self::Env(name) => (variables.get(name).map(str::to_owned), format!("set {name}")),
            Self::File(path) => {
                let text = secret_in(path).map_err(|error| format!("the secret `{self}` cannot be read: {error}"))?;
                (Some(text).filter(|text| !text.is_empty()), "write it there".to_owned())
            }
            // The text may be the secret itself, so it is not repeated.
            Self::Plain(_) => return Err("a secret is written env:NAME or file:PATH".to_owned()),
        };
        found.map(SecretString::from).ok_or_else(|| format!("the secret `{self}` is empty; {what_to_do}"))
    }
}

impl From<String> for Reference {
    fn from(text: String) -> Self {
        match (text.strip_prefix("env:"), text.strip_prefix("file:")) {
            (Some(name), _) => Self::Env(name.to_owned()),
            (None, Some(path)) => Self::File(path.into()),
            (None, None) => Self::Plain(text.into()),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Plain(_) => f.write_str(REDACTED),
        }
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl PartialEq for Reference {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(one), Self::Plain(two)) => one.expose_secret() == two.expose_secret(),
            (Self::Env(one), Self::Env(two)) => one == two,
            (Self::File(one), Self::File(two)) => one == two,
            (Self::Plain(_) | Self::Env(_) | Self::File(_), _) => false,
        }
    }
}

impl Serialize for Reference {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}
