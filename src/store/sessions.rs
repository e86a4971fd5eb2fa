//! Browser sessions: a cookie that stands for a key or a person.

use async_trait::async_trait;

use super::columns::Columns;
use super::{AuditRow, Result};
use crate::domain::Millis;

/// A session as stored, without the secret that the browser has.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// SHA-256 of the browser's secret, hex.
    pub hash: String,
    /// SHA-256 of the key for which the session stands, hex; or that of the name of the person who signed in.
    pub key_hash: String,
    /// That person and their rights, as JSON.
    pub person: Option<String>,
    pub expires_at: Millis,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// Adds a session. Of those with the same `key_hash`, the ones that end first are deleted in the same transaction, so
    /// that about `at_most` are left with this one.
    async fn add_session(&self, session: SessionRow, at_most: u32) -> Result<()>;
    /// The session with this hash, expired or not.
    async fn session(&self, hash: &str) -> Result<Option<SessionRow>>;
    /// Deletes a session. Idempotent.
    async fn end_session(&self, hash: &str) -> Result<()>;
    /// Deletes all sessions with this `key_hash` and, if there were any, adds the audit row, in one transaction. Returns
    /// how many there were.
    async fn end_sessions(&self, key_hash: &str, audit: AuditRow) -> Result<u64>;
    /// Deletes at most `limit` sessions that expired before this; returns how many.
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
