//! Sessions of browsers: what stands for a key in a cookie.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::Millis;

/// A session as stored: never what the browser holds.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// SHA-256 of what the browser holds, hex.
    pub hash: String,
    /// SHA-256 of the key that it stands for, hex; empty where it stands for somebody of an issuer.
    pub key_hash: String,
    /// Who that is, and what they may, as JSON.
    pub person: Option<String>,
    pub expires_at: Millis,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    async fn add_session(&self, session: SessionRow) -> Result<()>;
    /// The session with this hash, over or not.
    async fn session(&self, hash: &str) -> Result<Option<SessionRow>>;
    /// Forgets a session. Idempotent.
    async fn end_session(&self, hash: &str) -> Result<()>;
    /// Forgets sessions that expired before this, at most so many; returns how many.
    async fn forget_sessions(&self, before: Millis, limit: u32) -> Result<u64>;
}

impl SessionRow {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            hash: row.text("hash")?.to_owned(),
            key_hash: row.text("key_hash")?.to_owned(),
            person: row.text_or_none("person")?.map(str::to_owned),
            expires_at: row.number("expires_at")?,
        })
    }
}
