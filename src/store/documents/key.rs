//! One sealing key: where it comes from, what it is called, and the keys that are derived from it for each purpose.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::hmac;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::fault::{Code, Fault};
use crate::domain::hex;
use crate::store::file_owner::give_to_owner_of;

/// Where a key comes from.
#[derive(Clone)]
pub enum KeySource {
    /// `PES_SEALING_KEY`, or one of `PES_SEALING_KEYS_OLD`: any text, the same for all replicas.
    Given(SecretString),
    /// A file beside an embedded database, made when it is first needed.
    File(PathBuf),
    /// There is no key: nothing can be sealed.
    None,
}

/// Separates the keys derived here from keys that others derive from the same text.
const SALT: &[u8] = b"pes sealing key";
/// The purpose of a fingerprint, and how many of its bytes are shown.
const NAMING: &str = "fingerprint";
const FINGERPRINT_BYTES: usize = 6;
const SEALING: &str = "seal";
/// A shorter key file was not written by this server.
const MIN_KEY_BYTES: usize = 16;

/// A sealing key. Its bytes are only used to derive other keys (HKDF-SHA256).
pub(super) struct SealingKey {
    /// Its fingerprint, which identifies the key and reveals nothing about it.
    pub id: String,
    pub sealing: RandomizedNonceKey,
    root: Prk,
}

impl SealingKey {
    fn of(secret: &[u8]) -> Result<Self, Fault> {
        let root = Salt::new(HKDF_SHA256, SALT).extract(secret);
        let mut name = [0; FINGERPRINT_BYTES];
        derive(&root, NAMING, &mut name)?;
        let mut bytes = [0; 32];
        derive(&root, SEALING, &mut bytes)?;
        let sealing = RandomizedNonceKey::new(&AES_256_GCM, &bytes).map_err(|_| broken())?;
        Ok(Self { id: hex::of(&name), sealing, root })
    }

    /// The key of the MACs of this purpose.
    pub fn mac(&self, purpose: &str) -> Result<hmac::Key, Fault> {
        let mut bytes = [0; 32];
        derive(&self.root, &format!("mac {purpose}"), &mut bytes)?;
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(root: &Prk, purpose: &str, out: &mut [u8]) -> Result<(), Fault> {
    let purpose = [purpose.as_bytes()];
    root.expand(&purpose, Length(out.len())).and_then(|key| key.fill(out)).map_err(|_| broken())
}

/// A key that is read on first use.
pub(super) struct LazyKey {
    source: KeySource,
    key: Mutex<Option<Arc<SealingKey>>>,
}

impl LazyKey {
    pub fn new(source: KeySource) -> Self {
        Self { source, key: Mutex::default() }
    }

    /// Whether there is a key, or one can be created.
    pub fn is_able(&self) -> bool {
        !matches!(self.source, KeySource::None)
    }

    /// With `may_make`, a missing file is created.
    pub fn get(&self, may_make: bool) -> Result<Arc<SealingKey>, Fault> {
        let mut known = self.key.lock();
        match &*known {
            Some(key) => Ok(key.clone()),
            None => Ok(known.insert(Arc::new(self.read(may_make)?)).clone()),
        }
    }

    fn read(&self, may_make: bool) -> Result<SealingKey, Fault> {
        match &self.source {
            KeySource::Given(text) => SealingKey::of(text.expose_secret().as_bytes()),
            KeySource::File(path) if may_make && matches!(path.try_exists(), Ok(false)) => make(path),
            KeySource::File(path) => stored(path),
            KeySource::None => {
                Err(Fault::new(Code::Invalid, "This server keeps no secrets: set PES_SEALING_KEY on all its replicas."))
            }
        }
    }
}

/// Creates a key file, or reads the one that another process has created in the meantime.
pub(super) fn make(path: &Path) -> Result<SealingKey, Fault> {
    make_by(path, link)
}

fn link(file: &Path, name: &Path) -> io::Result<()> {
    fs::hard_link(file, name)
}

/// The same; `link` creates a hard link and fails if the name is taken.
pub(super) fn make_by(path: &Path, link: impl FnOnce(&Path, &Path) -> io::Result<()>) -> Result<SealingKey, Fault> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| broken())?;
    match write(path, &bytes, link) {
        Ok(()) => SealingKey::of(&bytes),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => stored(path),
        Err(error) => Err(Fault::new(Code::Internal, format!("The sealing key cannot be written: {error}"))),
    }
}

/// Writes a file that only this user can read. It gets its name after it is synced, so that a killed process leaves no
/// partial key. An existing file is kept (`AlreadyExists`).
fn write(path: &Path, bytes: &[u8], link: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    remove(&new)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    give_to_owner_of(folder, &file);
    file.write_all(bytes).and_then(|()| file.sync_all())?;
    let named = link(&new, path).or_else(|error| match (error.kind(), path.try_exists()?) {
        (ErrorKind::AlreadyExists, _) => Err(error),
        (_, true) => Err(ErrorKind::AlreadyExists.into()),
        // Some file systems have no hard links. No other server creates a key at the same time: this one has locked the
        // folder.
        (_, false) => fs::rename(&new, path),
    });
    remove(&new)?;
    named?;
    File::open(folder)?.sync_all()
}

/// Removes a file. Succeeds if it does not exist.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn stored(path: &Path) -> Result<SealingKey, Fault> {
    match fs::read(path) {
        Ok(bytes) if bytes.len() < MIN_KEY_BYTES => Err(short(path)),
        Ok(bytes) => SealingKey::of(&bytes),
        Err(error) => {
            let path = path.display();
            Err(Fault::new(Code::Internal, format!("The sealing key {path} cannot be read: {error}")))
        }
    }
}

fn short(path: &Path) -> Fault {
    let path = path.display();
    let detail = format!("The sealing key {path} has less than {MIN_KEY_BYTES} bytes: restore it from a backup.");
    Fault::new(Code::Internal, detail)
}

pub(super) fn broken() -> Fault {
    Fault::new(Code::Internal, "A secret could not be sealed.")
}
