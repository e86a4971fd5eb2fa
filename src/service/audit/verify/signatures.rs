//! Whether something was signed with a key that is known, and says what stands beside it.

use serde_json::Value;

use crate::auth::{Signed, VerifyingKey, signer};

/// What signatures are verified with, and what was found with it.
pub(super) struct Signatures<'a> {
    /// The key that signs now.
    current: Option<&'a VerifyingKey>,
    former: &'a [VerifyingKey],
    /// Of what was signed, and for which tenant.
    names: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SignedBy {
    Current,
    Former,
    /// By a key that is not known here.
    Unknown(String),
    Nobody,
}

impl<'a> Signatures<'a> {
    pub fn new(current: Option<&'a VerifyingKey>, former: &'a [VerifyingKey]) -> Self {
        Self { current, former, names: Vec::new() }
    }

    pub fn current(&self) -> Option<&'a VerifyingKey> {
        self.current
    }

    /// Whether any key is known.
    pub fn are_verified(&self) -> bool {
        self.current.is_some() || !self.former.is_empty()
    }

    /// Who signed `jws`. An error if that says something else than these members of `payload`, or is no signature. `of` is
    /// what it is of, in words.
    pub fn check(
        &mut self,
        of: String,
        what: Signed,
        jws: Option<&str>,
        payload: &Value,
        members: &[&str],
    ) -> Result<SignedBy, String> {
        let Some(jws) = jws.filter(|_| self.are_verified()) else { return Ok(SignedBy::Nobody) };
        let named = signer(jws);
        let mut known = self.current.into_iter().chain(self.former);
        let key = match &named {
            Some(name) => known.find(|key| key.id() == name),
            None => return Err(format!("the signature of {of} is wrong")),
        };
        let Some(key) = key else { return Ok(SignedBy::Unknown(named.unwrap_or_default())) };
        let said = key.open(what, jws);
        let is_same = |said: &Value| members.iter().all(|member| said[member] == payload[member]);
        let Some(said) = said.filter(is_same) else { return Err(format!("the signature of {of} is wrong")) };
        self.names.push((of, said["tenant"].as_str().unwrap_or_default().to_owned()));
        let is_current = self.current.is_some_and(|current| current.id() == key.id());
        Ok(if is_current { SignedBy::Current } else { SignedBy::Former })
    }

    /// What was signed for a tenant of none of these names, if something was.
    pub fn of_others(&self, names: &[String]) -> Option<String> {
        let (of, name) = self.names.iter().find(|(_, name)| !names.contains(name))?;
        Some(format!("{of} was signed for the tenant {name}"))
    }
}
