//! Sessions of browsers: what a page holds instead of a key, in a cookie that its scripts cannot read.
//!
//! A session names its key by the hash, so it may what the key may, and is over as soon as the key is revoked.

use super::keys::{Keys, Pass, Shown, unavailable};
use super::mint::{hash, mint_session};
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::store::SessionRow;

/// How long a session lasts.
pub const SESSION: Millis = 12 * 3_600_000;

impl Keys {
    /// Begins a session for whoever showed a key and was let in with it: what the browser is to hold. `None`: no session
    /// is needed, since no key is, or since one was shown.
    pub async fn begin_session(&self, pass: &Pass) -> Result<Option<String>, Fault> {
        let Shown::Key(key) = &pass.0 else { return Ok(None) };
        if self.is_open().await? {
            return Ok(None);
        }
        let token = mint_session();
        let session =
            SessionRow { hash: hash(&token), key_hash: key.clone(), expires_at: (self.now)().saturating_add(SESSION) };
        self.store.add_session(session).await.map_err(unavailable)?;
        Ok(Some(token))
    }

    /// Ends the session that was shown, on every replica within two seconds. Idempotent.
    pub async fn end_session(&self, pass: &Pass) -> Result<(), Fault> {
        let Shown::Session(session) = &pass.0 else { return Ok(()) };
        self.store.end_session(session).await.map_err(unavailable)?;
        self.forget_callers();
        Ok(())
    }

    /// The hash of the key that a session stands for, until it is over.
    pub(super) async fn key_of_session(&self, session: &str) -> Result<Option<String>, Fault> {
        let row = self.store.session(session).await.map_err(unavailable)?;
        Ok(row.filter(|row| row.expires_at > (self.now)()).map(|row| row.key_hash))
    }
}
