//! The process environment. No other code reads it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::Error;

/// A snapshot of the variables; empty ones count as unset.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, String>,
    /// The names of those whose values are not UTF-8.
    unreadable: Vec<String>,
}

/// How a secret was given.
enum Given<'v> {
    Value(&'v str),
    File(&'v str),
}

impl Variables {
    /// The variables of this process.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process() -> Self {
        let mut variables = Self::default();
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            match value.into_string() {
                Ok(value) if value.is_empty() => {}
                Ok(value) => drop(variables.values.insert(name, value)),
                Err(_) => variables.unreadable.push(name),
            }
        }
        variables
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The value of `name`, or the content of the file in `<name>_FILE`. An empty file is an error: whoever names it means
    /// that there is a secret.
    pub fn get_secret(&self, name: &str) -> Result<Option<String>, Error> {
        match self.value_or_file(name)? {
            None => Ok(None),
            Some(Given::Value(value)) => Ok(Some(value.to_owned())),
            Some(Given::File(path)) => match content(name, path)? {
                text if text.is_empty() => {
                    Err(Error(format!("{name}_FILE: {path} is empty; write the secret there, or unset {name}_FILE")))
                }
                text => Ok(Some(text)),
            },
        }
    }

    /// The same for secrets that there may be none of: an empty file counts as unset.
    pub fn get_optional_secret(&self, name: &str) -> Result<Option<String>, Error> {
        match self.value_or_file(name)? {
            None => Ok(None),
            Some(Given::Value(value)) => Ok(Some(value.to_owned())),
            Some(Given::File(path)) => Ok(Some(content(name, path)?).filter(|text| !text.is_empty())),
        }
    }

    /// The value of `name`, or a reference to the file in `<name>_FILE`.
    pub fn get_reference(&self, name: &str) -> Result<Option<String>, Error> {
        Ok(self.value_or_file(name)?.map(|given| match given {
            Given::Value(value) => value.to_owned(),
            Given::File(path) => format!("file:{path}"),
        }))
    }

    /// Setting both is an error, because it is ambiguous.
    fn value_or_file(&self, name: &str) -> Result<Option<Given<'_>>, Error> {
        match (self.get(name), self.get(&format!("{name}_FILE"))) {
            (Some(_), Some(_)) => {
                Err(Error(format!("{name} and {name}_FILE are both set: unset the one that is not meant")))
            }
            (Some(value), None) => Ok(Some(Given::Value(value))),
            (None, Some(path)) => Ok(Some(Given::File(path))),
            (None, None) => Ok(None),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The names of the variables whose values are not UTF-8: they have no value here.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }
}

/// The content of the file in `<name>_FILE`.
fn content(name: &str, path: &str) -> Result<String, Error> {
    secret_in(Path::new(path)).map_err(|error| Error(format!("{name}_FILE: {path} cannot be read: {error}")))
}

/// The secret in a file, without line ends after it.
pub(super) fn secret_in(path: &Path) -> io::Result<String> {
    Ok(std::fs::read_to_string(path)?.trim_end_matches(['\r', '\n']).to_owned())
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let values = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        Self { values, unreadable: Vec::new() }
    }
}

/// Variables with our prefix that are not settings: the server and conversation for client commands, the marker of MCP
/// programs, and failpoints of tests.
pub const OTHERS: &[&str] = &[
    "PES_URL",
    "PES_TOKEN",
    "PES_TOKEN_FILE",
    "PES_THREAD",
    "PES_MCP_PROCESS",
    #[cfg(feature = "failpoints")]
    "PES_FAILPOINT",
    #[cfg(feature = "failpoints")]
    "PES_FAILPOINT_FD",
    #[cfg(feature = "failpoints")]
    "PES_FAILPOINT_PIPE",
];

/// Whether Kubernetes set this for a service called `pes` or `pes-…`.
pub fn is_injected(name: &str, value: &str) -> bool {
    let Some(rest) = name.strip_prefix("PES_") else {
        return false;
    };
    let part = |text: &str| format!("_{rest}").contains(text);
    if rest == "SERVICE_HOST" || rest.ends_with("_SERVICE_HOST") || part("_SERVICE_PORT") {
        return true;
    }
    let is_link = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    is_link
        || ["_TCP_PROTO", "_TCP_PORT", "_TCP_ADDR", "_UDP_PROTO", "_UDP_PORT", "_UDP_ADDR"]
            .iter()
            .any(|end| name.ends_with(end))
}
