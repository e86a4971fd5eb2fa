//! Encryption of stored secrets. They are sealed with a key that is not in the database.
//!
//! A sealed text is `v1.KEY.BASE64`: KEY is the fingerprint of the key, followed by the nonce and the AES-256-GCM
//! ciphertext. One key seals; former keys only open. The owner of a text ([`Owner`]) is authenticated with it.

use std::sync::Arc;

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;

use super::key::{KeySource, LazyKey, SealingKey, broken};
use crate::domain::fault::Fault;
use crate::domain::ids::TenantPk;

/// The prefix of a sealed text.
pub const SEALED: &str = "v1.";

/// What a sealed text belongs to. It cannot be opened for another tenant, object or member.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub tenant: TenantPk,
    pub kind: &'static str,
    pub member: &'static str,
    pub id: &'a str,
}

impl Owner<'_> {
    /// The last part is the only one that may contain any character.
    fn aad(&self) -> String {
        format!("{}\n{}\n{}\n{}", self.tenant.0, self.kind, self.member, self.id)
    }
}

/// Why a secret cannot be used. Nothing that needs it is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("its secret was sealed with the key {0}, which this server does not hold")]
    UnknownKey(String),
    #[error("its secret was changed in the database, or sealed for something else")]
    NotItsOwn,
    #[error("what is stored as its secret is none")]
    Malformed,
    #[error("its secret could not be sealed again: {0}")]
    Unsealable(String),
}

impl Unreadable {
    /// The error code in deliveries, tool calls and responses.
    pub const CODE: &'static str = "secret_unreadable";

    /// Counts and logs that something was not sent because its secret cannot be opened.
    pub fn warn(&self, kind: &'static str, tenant: TenantPk, id: &str) {
        metrics::counter!("pes_secrets_unreadable_total", "kind" => kind).increment(1);
        tracing::warn!(code = Self::CODE, kind, tenant = tenant.0, id, why = %self, "nothing is sent without its secret");
    }
}

/// The fingerprints of the available keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprints {
    /// The key that seals. `None`: it was not created yet, or there is none.
    pub current: Option<String>,
    /// The keys that only open.
    pub old: Vec<String>,
}

/// The ring of sealing keys.
pub struct Sealer {
    current: LazyKey,
    old: Vec<LazyKey>,
}

impl Sealer {
    pub fn new(current: KeySource) -> Self {
        Self::with_old(current, Vec::new())
    }

    /// `old` keys open what they sealed, and do not seal any more.
    pub fn with_old(current: KeySource, old: Vec<KeySource>) -> Self {
        Self { current: LazyKey::new(current), old: old.into_iter().map(LazyKey::new).collect() }
    }

    /// Whether there is a key that seals, or one can be created.
    pub fn is_able(&self) -> bool {
        self.current.is_able()
    }

    pub fn fingerprints(&self) -> Fingerprints {
        let id = |key: &LazyKey| key.get(false).ok().map(|key| key.id.clone());
        Fingerprints { current: id(&self.current), old: self.old.iter().filter_map(id).collect() }
    }

    pub fn seal(&self, secret: &str, owner: Owner<'_>) -> Result<String, Fault> {
        let key = self.current.get(true)?;
        let mut bytes = secret.as_bytes().to_vec();
        let nonce = key.sealing.seal_in_place_append_tag(Aad::from(owner.aad()), &mut bytes).map_err(|_| broken())?;
        let nonce: &[u8; NONCE_LEN] = nonce.as_ref();
        let sealed = BASE64_STANDARD_NO_PAD.encode([nonce.as_slice(), &bytes].concat());
        Ok(format!("{SEALED}{}.{sealed}", key.id))
    }

    pub fn open(&self, sealed: &str, owner: Owner<'_>) -> Result<String, Unreadable> {
        let (id, sealed) = parts(sealed).ok_or(Unreadable::Malformed)?;
        let key = self.keys().find(|key| key.id == id).ok_or_else(|| Unreadable::UnknownKey(id.to_owned()))?;
        let sealed = BASE64_STANDARD_NO_PAD.decode(sealed).map_err(|_| Unreadable::Malformed)?;
        let (nonce, bytes) = sealed.split_at_checked(NONCE_LEN).ok_or(Unreadable::Malformed)?;
        let mut bytes = bytes.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Unreadable::Malformed)?;
        let plain = key.sealing.open_in_place(nonce, Aad::from(owner.aad()), &mut bytes);
        let plain = plain.map_err(|_| Unreadable::NotItsOwn)?;
        String::from_utf8(plain.to_vec()).map_err(|_| Unreadable::Malformed)
    }

    /// The same secret sealed with the current key. `None`: it is sealed so already.
    pub fn reseal(&self, sealed: &str, owner: Owner<'_>) -> Result<Option<String>, Unreadable> {
        let secret = self.open(sealed, owner)?;
        let current = self.current.get(true).map_err(unsealable)?;
        match parts(sealed) {
            Some((id, _)) if id == current.id => Ok(None),
            Some(_) | None => self.seal(&secret, owner).map(Some).map_err(unsealable),
        }
    }

    /// A MAC of `text` that only holders of the key can make; each `purpose` has a key of its own.
    pub fn mac(&self, purpose: &str, text: &str) -> Result<Vec<u8>, Fault> {
        let key = self.current.get(true)?.mac(purpose)?;
        Ok(hmac::sign(&key, text.as_bytes()).as_ref().to_vec())
    }

    /// Whether `mac` is a MAC of `text` under any key of the ring. Takes the same time whatever is wrong with it.
    pub fn has_mac(&self, purpose: &str, text: &str, mac: &[u8]) -> bool {
        let is_of =
            |key: Arc<SealingKey>| key.mac(purpose).is_ok_and(|key| hmac::verify(&key, text.as_bytes(), mac).is_ok());
        self.keys().fold(false, |is_known, key| is_of(key) | is_known)
    }

    /// The keys that can be read, the current one first. Does not create a key.
    fn keys(&self) -> impl Iterator<Item = Arc<SealingKey>> {
        std::iter::once(&self.current).chain(&self.old).filter_map(|key| key.get(false).ok())
    }
}

fn unsealable(fault: Fault) -> Unreadable {
    Unreadable::Unsealable(fault.detail)
}

/// The key's fingerprint and the rest; a fingerprint has only hexadecimal digits, so it can be shown.
fn parts(sealed: &str) -> Option<(&str, &str)> {
    let (id, rest) = sealed.strip_prefix(SEALED)?.split_once('.')?;
    let is_named = (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_named.then_some((id, rest))
}

#[cfg(test)]
mod tests;
