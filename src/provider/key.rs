//! A provider's API key. A key in a file is read again when the file changes, and before a 401 is treated as final, so
//! a renewed key needs no restart. If the file no longer contains a key, the last one is used, with a warning.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::fault::{Code, Fault};

/// How many keys are stored for redaction, including earlier ones: error texts may repeat them.
const MAX_STORED_KEYS: usize = 4;

/// Describes a key that cannot be sent.
const INVALID_CHARACTERS: &str = "has characters that no header can hold";

/// The header that carries the key. It is never part of the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    Bearer,
    Header(&'static str),
}

pub(crate) struct Key {
    provider: String,
    header: KeyHeader,
    /// The file that contains the key, if any.
    file: Option<PathBuf>,
    state: Mutex<KeyState>,
}

struct KeyState {
    /// The modification time of the file when it was read.
    changed: Option<SystemTime>,
    value: HeaderValue,
    /// Why the file contains no key now.
    warning: Option<String>,
    /// The newest last.
    secrets: Vec<SecretString>,
}

impl Key {
    /// `text` is the key or `file:PATH`. The fault says why it cannot be used and does not contain the key.
    pub(crate) fn new(provider: &str, header: KeyHeader, text: &SecretString) -> Result<Self, Fault> {
        let file = text.expose_secret().strip_prefix("file:").map(PathBuf::from);
        let changed = file.as_ref().and_then(modified_at);
        let secret = match &file {
            Some(path) => read(path).map_err(|why| key_fault(provider, &format!("cannot be read: {why}")))?,
            None => text.expose_secret().trim().to_owned().into(),
        };
        let value = value(header, &secret).ok_or_else(|| key_fault(provider, INVALID_CHARACTERS))?;
        let state = KeyState { changed, value, warning: None, secrets: vec![secret] };
        Ok(Self { provider: provider.to_owned(), header, file, state: Mutex::new(state) })
    }

    /// Adds the current key to the headers.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        let mut state = self.state.lock();
        let now = self.file.as_ref().and_then(modified_at);
        if state.changed != now {
            state.changed = now;
            self.reload(&mut state);
        }
        headers.insert(self.name(), state.value.clone());
    }

    /// Reads the file again. Returns whether the key now differs from the one that was rejected.
    pub(crate) fn reload_differs_from(&self, refused: &HeaderMap) -> bool {
        let mut state = self.state.lock();
        self.reload(&mut state);
        refused.get(self.name()) != Some(&state.value)
    }

    /// Why the key is not the current content of its file.
    pub(crate) fn warning(&self) -> Option<String> {
        self.state.lock().warning.clone()
    }

    /// Removes this key and earlier ones from `text`.
    pub(crate) fn redact(&self, text: &mut String, min_len: usize) {
        let state = self.state.lock();
        state.secrets.iter().for_each(|secret| redact_secret(text, secret, min_len));
    }

    /// Reads the file again. An unusable key changes nothing and is logged once.
    fn reload(&self, state: &mut KeyState) {
        let Some(file) = &self.file else { return };
        let found = read(file).and_then(|secret| match value(self.header, &secret) {
            Some(value) => Ok((secret, value)),
            None => Err(INVALID_CHARACTERS.to_owned()),
        });
        let (secret, value) = match found {
            Ok(found) => found,
            Err(why) => {
                if state.warning.is_none() {
                    tracing::warn!(
                        provider = self.provider,
                        why,
                        "the file of its key holds none; the last one is used"
                    );
                }
                state.warning = Some(format!("the file of its key holds none ({why}); the last one is used"));
                return;
            }
        };
        state.warning = None;
        if value == state.value {
            return;
        }
        tracing::info!(provider = self.provider, "the key was renewed");
        state.value = value;
        state.secrets.push(secret);
        let old = state.secrets.len().saturating_sub(MAX_STORED_KEYS);
        state.secrets.drain(..old);
    }

    fn name(&self) -> HeaderName {
        match self.header {
            KeyHeader::Bearer => AUTHORIZATION,
            KeyHeader::Header(name) => HeaderName::from_static(name),
        }
    }
}

/// Removes a secret from a text, unless the secret is too short.
pub(crate) fn redact_secret(text: &mut String, secret: &SecretString, min_len: usize) {
    let secret = secret.expose_secret();
    if secret.len() >= min_len && text.contains(secret) {
        *text = text.replace(secret, "[redacted]");
    }
}

fn modified_at(path: &PathBuf) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

fn read(path: &PathBuf) -> Result<SecretString, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        key => Ok(key.to_owned().into()),
    }
}

fn value(header: KeyHeader, secret: &SecretString) -> Option<HeaderValue> {
    let key = secret.expose_secret();
    let text = match header {
        KeyHeader::Bearer => format!("Bearer {key}"),
        KeyHeader::Header(_) => key.to_owned(),
    };
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn key_fault(provider: &str, why: &str) -> Fault {
    let detail = format!("The API key of {provider} {why}.");
    Fault::new(Code::Invalid, detail.clone()).at("/api_key", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct File(tempfile::TempDir);

    impl File {
        fn path(&self) -> PathBuf {
            self.0.path().join("key")
        }

        /// Writes the key with this second as the modification time.
        fn holds(&self, key: &str, second: u64) {
            fs::write(self.path(), key).unwrap();
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
            fs::File::options().write(true).open(self.path()).unwrap().set_modified(at).unwrap();
        }

        fn key(&self) -> Key {
            let text: SecretString = format!("file:{}", self.path().display()).into();
            Key::new("groq", KeyHeader::Bearer, &text).unwrap()
        }
    }

    fn shown(key: &Key) -> HeaderMap {
        let mut headers = HeaderMap::new();
        key.add_to(&mut headers);
        headers
    }

    #[test]
    fn a_file_that_changed_is_read_again_and_none_of_its_keys_is_told() {
        let file = File(tempfile::tempdir().unwrap());
        file.holds("key-one\n", 1);
        let key = file.key();
        assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-one");
        file.holds("key-two\n", 2);
        assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-two");
        fs::remove_file(file.path()).unwrap();
        assert_eq!(key.warning(), None);
        assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-two", "what cannot be read changes nothing");
        assert!(key.warning().unwrap().contains("No such file"), "{:?}", key.warning());
        for (no_key, why) in [(" \n", "it is empty"), ("two\nlines", "no header can hold")] {
            file.holds(no_key, 3 + no_key.len() as u64);
            assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-two");
            assert!(key.warning().unwrap().contains(why), "{:?}", key.warning());
        }
        file.holds("key-two", 20);
        shown(&key);
        assert_eq!(key.warning(), None, "the file holds a key again");
        let mut text = "key-one, key-two".to_owned();
        key.redact(&mut text, 4);
        assert_eq!(text, "[redacted], [redacted]");
    }

    #[test]
    fn a_refused_key_is_compared_with_what_its_file_holds() {
        let file = File(tempfile::tempdir().unwrap());
        file.holds("key-one", 1);
        let key = file.key();
        let refused = shown(&key);
        assert!(!key.reload_differs_from(&refused));
        file.holds("key-two", 1);
        assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-one", "it looks the same");
        assert!(key.reload_differs_from(&refused));
        assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-two");
        let plain = Key::new("groq", KeyHeader::Bearer, &"sk-plain".to_owned().into()).unwrap();
        assert!(!plain.reload_differs_from(&shown(&plain)));
    }
}
