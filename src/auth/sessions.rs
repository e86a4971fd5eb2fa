//! Sessions of browsers: what a page holds instead of a key, in a cookie that its scripts cannot read.
//!
//! A session names its key by the hash, so it may what the key may, and is over as soon as the key is revoked. One that began
//! with the token of an issuer says what that said, and is over no later.

use serde_json::json;

use super::keys::{Keys, Pass, Shown, unavailable};
use super::mint::{hash, mint_session};
use super::oidc::Person;
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::store::SessionRow;

/// How long a session lasts.
pub const SESSION: Millis = 12 * 3_600_000;

/// Whom a session stands for.
pub(super) enum Holder {
    /// The key with this hash.
    Key(String),
    Person(Person),
}

/// What a browser is to hold, and for how long.
pub struct Session {
    pub token: String,
    pub seconds: i64,
}

impl Keys {
    /// Begins a session for whoever showed a key and was let in with it: what the browser is to hold. `None`: no session
    /// is needed, since no key is, or since one was shown.
    pub async fn begin_session(&self, pass: &Pass) -> Result<Option<Session>, Fault> {
        let holder = match &pass.0 {
            Shown::Nothing | Shown::Session(_) => return Ok(None),
            Shown::Key(key) => Holder::Key(key.clone()),
            Shown::Token(token) if !self.issuers.concern(token) || self.is_configured(&hash(token)) => {
                Holder::Key(hash(token))
            }
            Shown::Token(token) => Holder::Person(self.issuers.person(token, (self.now)()).await?),
        };
        if self.is_open().await? {
            return Ok(None);
        }
        self.add_session(&holder).await.map(Some)
    }

    /// For twelve hours, or until the token is over that it began with.
    pub(super) async fn add_session(&self, holder: &Holder) -> Result<Session, Fault> {
        let (token, now) = (mint_session(), (self.now)());
        let whole = now.saturating_add(SESSION);
        let expires_at = match holder {
            Holder::Key(_) => whole,
            Holder::Person(person) => person.until.min(whole),
        };
        let (key_hash, person) = match holder {
            Holder::Key(key) => (key.clone(), None),
            Holder::Person(person) => (String::new(), Some(json!(person).to_string())),
        };
        let session = SessionRow { hash: hash(&token), key_hash, person, expires_at };
        self.store.add_session(session).await.map_err(unavailable)?;
        Ok(Session { token, seconds: (expires_at - now).max(0) / 1000 })
    }

    /// Ends the session that was shown, on every replica within two seconds. Idempotent.
    pub async fn end_session(&self, pass: &Pass) -> Result<(), Fault> {
        let Shown::Session(session) = &pass.0 else { return Ok(()) };
        self.store.end_session(session).await.map_err(unavailable)?;
        self.forget_callers();
        Ok(())
    }

    /// Whom a session stands for, until it is over. Somebody whose issuer is no longer configured is nobody.
    pub(super) async fn holder(&self, session: &str) -> Result<Option<Holder>, Fault> {
        let row = self.store.session(session).await.map_err(unavailable)?;
        let Some(row) = row.filter(|row| row.expires_at > (self.now)()) else { return Ok(None) };
        let Some(person) = row.person else { return Ok(Some(Holder::Key(row.key_hash))) };
        let person = serde_json::from_str::<Person>(&person).ok();
        Ok(person.filter(|person| self.issuers.know(person)).map(Holder::Person))
    }
}
