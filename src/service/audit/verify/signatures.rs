//! Checks whether something was signed with a known key, and whether the signed text matches what is stored beside it.

use serde_json::Value;

use crate::auth::{Signed, VerifyingKey, signer};

/// The known keys, and what their signatures cover.
pub(in crate::service) struct Signatures<'a> {
    /// The key that signs now.
    current: Option<&'a VerifyingKey>,
    former: &'a [VerifyingKey],
    /// The tenants that signatures name, each with what was signed first for it, in words. A long chain has millions of
    /// signatures, and its tenant few names.
    names: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::service) enum SignedBy {
    Current,
    Former,
    /// Signed with a key that is not known here.
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

    /// Whether a key is known, so that signatures can be verified.
    pub fn are_verified(&self) -> bool {
        self.current.is_some() || !self.former.is_empty()
    }

    /// Says who signed `jws`. An error if it is no valid signature, or its payload differs from `payload` in these members.
    /// `of` is what was signed, in words.
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
        let signed = key.open(what, jws);
        let is_same = |signed: &Value| members.iter().all(|member| signed[member] == payload[member]);
        let Some(signed) = signed.filter(is_same) else { return Err(format!("the signature of {of} is wrong")) };
        let tenant = signed["tenant"].as_str().unwrap_or_default();
        if !self.names.iter().any(|(_, known)| known == tenant) {
            self.names.push((of, tenant.to_owned()));
        }
        let is_current = self.current.is_some_and(|current| current.id() == key.id());
        Ok(if is_current { SignedBy::Current } else { SignedBy::Former })
    }

    /// The same for a checkpoint.
    pub fn checkpoint(&mut self, n: i64, jws: Option<&str>, payload: &Value) -> Result<SignedBy, String> {
        self.check(format!("checkpoint {n}"), Signed::Checkpoint, jws, payload, &["n", "hash", "at"])
    }

    /// Reports the first signature for a tenant with none of these names.
    pub fn of_others(&self, names: &[String]) -> Option<String> {
        let (of, name) = self.names.iter().find(|(_, name)| !names.contains(name))?;
        Some(format!("{of} was signed for the tenant {name}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::AuditKey;

    #[test]
    fn of_a_long_chain_only_the_names_are_kept() {
        let key = AuditKey::of(&"0123456789abcdef".repeat(4).into()).unwrap();
        let mut signatures = Signatures::new(Some(key.verifying()), &[]);
        for (n, tenant) in (1..).zip(["one", "two", "one", "two"]) {
            let payload = json!({ "tenant": tenant, "n": n, "hash": "", "at": 0 });
            let jws = key.sign(Signed::Checkpoint, &payload);
            assert_eq!(signatures.checkpoint(n, Some(&jws), &payload), Ok(SignedBy::Current));
        }
        assert_eq!(signatures.names.len(), 2);
        let other = signatures.of_others(&["one".to_owned()]);
        assert_eq!(other.as_deref(), Some("checkpoint 2 was signed for the tenant two"));
    }
}
