//! Sessions of browsers.

use async_trait::async_trait;

use super::Sqlite;
use super::fault::unreadable;
use crate::domain::Millis;
use crate::store::{Result, SessionRow, SessionStore};

const ADD: &str = "INSERT INTO sessions (hash, key_hash, expires_at) VALUES (?, ?, ?)";

const ONE: &str = "SELECT hash, key_hash, expires_at FROM sessions WHERE hash = ?";

const END: &str = "DELETE FROM sessions WHERE hash = ?";

const FORGET: &str = "DELETE FROM sessions WHERE rowid IN
    (SELECT rowid FROM sessions WHERE expires_at < ? ORDER BY expires_at LIMIT ?) RETURNING 1";

#[async_trait]
impl SessionStore for Sqlite {
    async fn add_session(&self, session: SessionRow) -> Result<()> {
        let add = sqlx::query(ADD).bind(session.hash).bind(session.key_hash).bind(session.expires_at);
        self.writer.write(add).await.map(drop)
    }

    async fn session(&self, hash: &str) -> Result<Option<SessionRow>> {
        let found = sqlx::query(ONE).bind(hash).fetch_optional(&self.readers).await.map_err(unreadable)?;
        found.as_ref().map(SessionRow::read).transpose()
    }

    async fn end_session(&self, hash: &str) -> Result<()> {
        self.writer.write(sqlx::query(END).bind(hash.to_owned())).await.map(drop)
    }

    async fn forget_sessions(&self, before: Millis, limit: u32) -> Result<u64> {
        Ok(self.writer.write(sqlx::query(FORGET).bind(before).bind(limit)).await?.len() as u64)
    }
}
