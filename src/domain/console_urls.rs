//! URLs of pages in this server's console, to be sent to people.

use super::ids::{RunId, SuspensionId, ThreadId};

/// The URL of this server, as far as it is known without a request.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnUrl {
    pub base: String,
    /// It is the configured one, equal for all processes and after every restart.
    pub is_public: bool,
}

/// Builds the URLs; the base has no trailing slash.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsoleUrls {
    base: String,
    is_public: bool,
}

impl ConsoleUrls {
    /// `None`: an unspecified address such as 0.0.0.0, which nobody can open. `is_public`: the URL is the configured
    /// one, equal for all processes and after every restart.
    pub fn of(base: &str, is_public: bool) -> Option<Self> {
        let base = url::Url::parse(base).ok()?;
        let is_bound_only = matches!(base.host_str()?, "0.0.0.0" | "[::]");
        (!is_bound_only).then(|| Self { base: base.as_str().trim_end_matches('/').to_owned(), is_public })
    }

    /// Whether the URLs may be part of data that must be the same in every process.
    pub fn is_public(&self) -> bool {
        self.is_public
    }

    /// The page of a run.
    pub fn run(&self, thread: &ThreadId, run: &RunId) -> String {
        format!("{}/#/t/{thread}?run={run}", self.base)
    }

    /// The page where a question can be answered.
    pub fn question(&self, suspension: &SuspensionId) -> String {
        format!("{}/#/questions/{suspension}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_can_be_opened_is_told() {
        let question = |base: &str| Some(ConsoleUrls::of(base, true)?.question(&"sus_1".into()));
        assert_eq!(question("https://pes.example/a/").unwrap(), "https://pes.example/a/#/questions/sus_1");
        assert_eq!(question("http://127.0.0.1:7070").unwrap(), "http://127.0.0.1:7070/#/questions/sus_1");
        assert_eq!((question("http://0.0.0.0:7070"), question("http://[::]:7070/a")), (None, None));
    }
}
