//! A provider's key. One that stands in a file is read again when the file changes, and before a refusal is believed: who
//! renews it need not start the server again. If the file holds none any more, the last one is used, with a warning.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::fault::{Code, Fault};

/// How many keys are remembered that were in use before: texts may repeat them.
const REMEMBERED: usize = 4;

/// What a key that cannot be shown has.
const UNFIT: &str = "has characters that no header can hold";

/// How a key is shown to a vendor; never in the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAs {
    Bearer,
    Header(&'static str),
}

#[derive(Clone)]
pub(crate) struct Key {
    provider: String,
    how: KeyAs,
    /// Where it stands, if in a file.
    file: Option<PathBuf>,
    held: Arc<Mutex<KeyState>>,
}

struct KeyState {
    /// When the file was changed that was read.
    changed: Option<SystemTime>,
    value: HeaderValue,
    /// Why the file holds no key now.
    trouble: Option<String>,
    /// The newest last.
    secrets: Vec<SecretString>,
}

impl Key {
    /// `text` is the key or `file:PATH`; the fault says why it cannot be used, and never the key.
    pub(crate) fn new(provider: &str, how: KeyAs, text: &SecretString) -> Result<Self, Fault> {
        let file = text.expose_secret().strip_prefix("file:").map(PathBuf::from);
        let changed = file.as_ref().and_then(changed);
        let secret = match &file {
            Some(path) => read(path).map_err(|why| unusable(provider, &format!("cannot be read: {why}")))?,
            None => text.expose_secret().trim().to_owned().into(),
        };
        let value = value(how, &secret).ok_or_else(|| unusable(provider, UNFIT))?;
        let held = KeyState { changed, value, trouble: None, secrets: vec![secret] };
        Ok(Self { provider: provider.to_owned(), how, file, held: Arc::new(Mutex::new(held)) })
    }

    /// Adds it to the headers, as it is now.
    pub(crate) fn show(&self, headers: &mut HeaderMap) {
        let mut held = self.held.lock();
        let now = self.file.as_ref().and_then(changed);
        if held.changed != now {
            held.changed = now;
            self.renew(&mut held);
        }
        headers.insert(self.name(), held.value.clone());
    }

    /// Whether it is another one by now than that was refused.
    pub(crate) fn is_renewed(&self, refused: &HeaderMap) -> bool {
        let mut held = self.held.lock();
        self.renew(&mut held);
        refused.get(self.name()) != Some(&held.value)
    }

    /// Why the key is not the one that its file holds.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.held.lock().trouble.clone()
    }

    /// `text` without this key and those before it.
    pub(crate) fn hidden(&self, text: &mut String, least: usize) {
        let held = self.held.lock();
        held.secrets.iter().for_each(|secret| hide(text, secret, least));
    }

    /// Reads the file again. A key that cannot be used changes nothing, and is logged once.
    fn renew(&self, held: &mut KeyState) {
        let Some(file) = &self.file else { return };
        let found = read(file).and_then(|secret| match value(self.how, &secret) {
            Some(value) => Ok((secret, value)),
            None => Err(UNFIT.to_owned()),
        });
        let (secret, value) = match found {
            Ok(found) => found,
            Err(why) => {
                if held.trouble.is_none() {
                    tracing::warn!(
                        provider = self.provider,
                        why,
                        "the file of its key holds none; the last one is used"
                    );
                }
                held.trouble = Some(format!("the file of its key holds none ({why}); the last one is used"));
                return;
            }
        };
        held.trouble = None;
        if value == held.value {
            return;
        }
        tracing::info!(provider = self.provider, "the key was renewed");
        held.value = value;
        held.secrets.push(secret);
        let old = held.secrets.len().saturating_sub(REMEMBERED);
        held.secrets.drain(..old);
    }

    fn name(&self) -> HeaderName {
        match self.how {
            KeyAs::Bearer => AUTHORIZATION,
            KeyAs::Header(name) => HeaderName::from_static(name),
        }
    }
}

/// Takes a secret out of a text, unless it is too short to be one.
pub(crate) fn hide(text: &mut String, secret: &SecretString, least: usize) {
    let secret = secret.expose_secret();
    if secret.len() >= least && text.contains(secret) {
        *text = text.replace(secret, "[redacted]");
    }
}

fn changed(path: &PathBuf) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

fn read(path: &PathBuf) -> Result<SecretString, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        key => Ok(key.to_owned().into()),
    }
}

fn value(how: KeyAs, secret: &SecretString) -> Option<HeaderValue> {
    let key = secret.expose_secret();
    let text = match how {
        KeyAs::Bearer => format!("Bearer {key}"),
        KeyAs::Header(_) => key.to_owned(),
    };
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn unusable(provider: &str, why: &str) -> Fault {
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

        /// Writes the key as if at that second.
        fn holds(&self, key: &str, second: u64) {
            fs::write(self.path(), key).unwrap();
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
            fs::File::options().write(true).open(self.path()).unwrap().set_modified(at).unwrap();
        }

        fn key(&self) -> Key {
            let text: SecretString = format!("file:{}", self.path().display()).into();
            Key::new("groq", KeyAs::Bearer, &text).unwrap()
        }
    }

    fn shown(key: &Key) -> HeaderMap {
        let mut headers = HeaderMap::new();
        key.show(&mut headers);
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
        assert_eq!(key.trouble(), None);
        assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-two", "what cannot be read changes nothing");
        assert!(key.trouble().unwrap().contains("No such file"), "{:?}", key.trouble());
        for (no_key, why) in [(" \n", "it is empty"), ("two\nlines", "no header can hold")] {
            file.holds(no_key, 3 + no_key.len() as u64);
            assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-two");
            assert!(key.trouble().unwrap().contains(why), "{:?}", key.trouble());
        }
        file.holds("key-two", 20);
        shown(&key);
        assert_eq!(key.trouble(), None, "the file holds a key again");
        let mut text = "key-one, key-two".to_owned();
        key.hidden(&mut text, 4);
        assert_eq!(text, "[redacted], [redacted]");
    }

    #[test]
    fn a_refused_key_is_compared_with_what_its_file_holds() {
        let file = File(tempfile::tempdir().unwrap());
        file.holds("key-one", 1);
        let key = file.key();
        let refused = shown(&key);
        assert!(!key.is_renewed(&refused));
        file.holds("key-two", 1);
        assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-one", "it looks the same");
        assert!(key.is_renewed(&refused));
        assert_eq!(shown(&key)[AUTHORIZATION], "Bearer key-two");
        let plain = Key::new("groq", KeyAs::Bearer, &"sk-plain".to_owned().into()).unwrap();
        assert!(!plain.is_renewed(&shown(&plain)));
    }
}
