//! Where people find things in the page of this server: addresses to be sent to them.

use super::ids::{RunId, SuspensionId, ThreadId};

/// Makes the addresses; the base has no slash at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsoleUrls {
    base: String,
    is_public: bool,
}

impl ConsoleUrls {
    /// `None`: this is an address that is bound and not one that anybody opens. `is_public`: it is the configured one, the
    /// same for every process and after every start.
    pub fn of(base: &str, is_public: bool) -> Option<Self> {
        let base = url::Url::parse(base).ok()?;
        let is_bound_only = matches!(base.host_str()?, "0.0.0.0" | "[::]");
        (!is_bound_only).then(|| Self { base: base.as_str().trim_end_matches('/').to_owned(), is_public })
    }

    /// Whether they may stand in what every process must tell alike.
    pub fn is_public(&self) -> bool {
        self.is_public
    }

    /// A run of a thread.
    pub fn run(&self, thread: &ThreadId, run: &RunId) -> String {
        format!("{}/#/t/{thread}?run={run}", self.base)
    }

    /// A question, where it can be answered.
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
