//! Secrets that must be kept to be used: a document holds them sealed, under a key that the database does not hold.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::domain::fault::{Code, Fault};

/// Where the key comes from.
#[derive(Clone)]
pub enum KeySource {
    /// `PES_SEALING_KEY`: any text, the same for all replicas.
    Given(SecretString),
    /// A file beside an embedded database, made when it is first needed.
    File(PathBuf),
    /// Nowhere: nothing can be sealed.
    None,
}

pub struct Sealer {
    source: KeySource,
    key: Mutex<Option<[u8; 32]>>,
}

impl Sealer {
    pub fn new(source: KeySource) -> Self {
        Self { source, key: Mutex::default() }
    }

    /// Whether there is a key, or one can be made.
    pub fn is_able(&self) -> bool {
        !matches!(self.source, KeySource::None)
    }

    /// Seals `secret` for the object of this id, and for no other.
    pub fn seal(&self, secret: &str, owner: &str) -> Result<String, Fault> {
        let key = self.key(true)?;
        let mut bytes = secret.as_bytes().to_vec();
        let nonce = key.seal_in_place_append_tag(Aad::from(owner), &mut bytes).map_err(|_| broken())?;
        let nonce: &[u8; NONCE_LEN] = nonce.as_ref();
        let sealed = [nonce.as_slice(), &bytes].concat();
        Ok(BASE64_STANDARD_NO_PAD.encode(sealed))
    }

    /// `None`: it was sealed under another key, or for somebody else.
    pub fn open(&self, sealed: &str, owner: &str) -> Option<String> {
        let sealed = BASE64_STANDARD_NO_PAD.decode(sealed).ok()?;
        let (nonce, bytes) = sealed.split_at_checked(NONCE_LEN)?;
        let mut bytes = bytes.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self.key(false).ok()?.open_in_place(nonce, Aad::from(owner), &mut bytes).ok()?;
        String::from_utf8(plain.to_vec()).ok()
    }

    /// A MAC of `text` that only holders of the key can make; `purpose` sets it apart from others.
    pub fn mac(&self, purpose: &str, text: &str) -> Result<Vec<u8>, Fault> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.bytes(true)?);
        Ok(hmac::sign(&key, spoken(purpose, text).as_bytes()).as_ref().to_vec())
    }

    /// Whether it is that MAC; takes the same time whatever is wrong with it.
    pub fn has_mac(&self, purpose: &str, text: &str, mac: &[u8]) -> bool {
        let Ok(bytes) = self.bytes(false) else { return false };
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        hmac::verify(&key, spoken(purpose, text).as_bytes(), mac).is_ok()
    }

    fn key(&self, may_make: bool) -> Result<RandomizedNonceKey, Fault> {
        RandomizedNonceKey::new(&AES_256_GCM, &self.bytes(may_make)?).map_err(|_| broken())
    }

    fn bytes(&self, may_make: bool) -> Result<[u8; 32], Fault> {
        let mut known = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some(bytes) => Ok(bytes),
            None => Ok(*known.insert(self.read(may_make)?)),
        }
    }

    fn read(&self, may_make: bool) -> Result<[u8; 32], Fault> {
        match &self.source {
            KeySource::Given(text) => Ok(Sha256::digest(text.expose_secret().as_bytes()).into()),
            KeySource::File(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(Sha256::digest(bytes).into()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && may_make => make(path),
                Err(error) => Err(Fault::new(Code::Internal, format!("The sealing key cannot be read: {error}"))),
            },
            KeySource::None => {
                Err(Fault::new(Code::Invalid, "This server keeps no secrets: set PES_SEALING_KEY on all its replicas."))
            }
        }
    }
}

fn spoken(purpose: &str, text: &str) -> String {
    format!("{purpose}\n{text}")
}

/// Readable by this user only.
fn make(path: &Path) -> Result<[u8; 32], Fault> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| broken())?;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
        .map_err(|error| Fault::new(Code::Internal, format!("The sealing key cannot be written: {error}")))?;
    Ok(Sha256::digest(bytes).into())
}

fn broken() -> Fault {
    Fault::new(Code::Internal, "A secret could not be sealed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_opened_for_its_owner_under_its_key_and_nowhere_else() {
        let sealer = |text: &str| Sealer::new(KeySource::Given(text.to_owned().into()));
        let sealed = sealer("key").seal("whsec_abc", "whk_1").unwrap();
        assert!(!sealed.contains("abc"));
        assert_eq!(sealer("key").open(&sealed, "whk_1").as_deref(), Some("whsec_abc"));
        assert_eq!(sealer("key").open(&sealed, "whk_2"), None);
        assert_eq!(sealer("other").open(&sealed, "whk_1"), None);
        assert_eq!(sealer("key").open("AAAA", "whk_1"), None);
        assert!(Sealer::new(KeySource::None).seal("x", "y").is_err());
    }

    #[test]
    fn a_key_file_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let sealer = || Sealer::new(KeySource::File(folder.path().join("sealing.key")));
        assert_eq!(sealer().open("AAAA", "whk_1"), None);
        assert!(!folder.path().join("sealing.key").exists(), "only what is sealed needs a key");
        let sealed = sealer().seal("s", "whk_1").unwrap();
        assert_eq!(sealer().open(&sealed, "whk_1").as_deref(), Some("s"));
    }
}
