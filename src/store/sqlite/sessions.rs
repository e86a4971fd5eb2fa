//! Sessions of browsers.

use async_trait::async_trait;
use rusqlite::{Transaction, params};

use super::Sqlite;
use super::audit::audit_if_changed;
use crate::domain::Millis;
use crate::store::sessions::{beginning_of, page_of_sessions};
use crate::store::{AuditRow, Page, PageAsk, Result, SessionRow, SessionStore};

const ADD: &str = "INSERT INTO sessions (hash, key_hash, expires_at, person) VALUES (?1, ?2, ?3, ?4)";

/// Deletes all but those that end last.
pub(super) const END_FIRST: &str = "DELETE FROM sessions WHERE hash IN
    (SELECT hash FROM sessions WHERE key_hash = ?1 ORDER BY expires_at DESC, hash LIMIT -1 OFFSET ?2)";

const ONE: &str = "SELECT hash, key_hash, expires_at, person FROM sessions WHERE hash = ?";

const OF_PEOPLE: &str = "
SELECT hash, key_hash, expires_at, person FROM sessions
WHERE instr(person, ?) > 0 AND expires_at > ? AND (key_hash, hash) > (?, ?) ORDER BY key_hash, hash LIMIT ?";

const END: &str = "DELETE FROM sessions WHERE hash = ?1";

pub(super) const END_ALL: &str = "DELETE FROM sessions WHERE key_hash = ?1";

const FORGET: &str = "DELETE FROM sessions WHERE rowid IN
    (SELECT rowid FROM sessions WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)";

#[async_trait]
impl SessionStore for Sqlite {
    async fn add_session(&self, session: SessionRow, at_most: u32) -> Result<()> {
        let SessionRow { hash, key_hash, person, expires_at } = session;
        let add = move |tx: &Transaction<'_>| {
            tx.execute(END_FIRST, params![key_hash, at_most.saturating_sub(1)])?;
            tx.execute(ADD, params![hash, key_hash, expires_at, person]).map(drop)
        };
        self.writer.write(add).await
    }

    async fn session(&self, hash: &str) -> Result<Option<SessionRow>> {
        let found = sqlx::query(ONE).bind(hash).fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map(SessionRow::read).transpose()
    }

    async fn sessions_of_people(&self, containing: &str, now: Millis, page: &PageAsk) -> Result<Page<SessionRow>> {
        let (key_hash, hash) = beginning_of(page)?;
        let query = sqlx::query(OF_PEOPLE).bind(containing).bind(now).bind(key_hash).bind(hash).bind(page.rows());
        page_of_sessions(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?, page)
    }

    async fn end_session(&self, hash: &str) -> Result<()> {
        let hash = hash.to_owned();
        self.writer.write(move |tx| tx.execute(END, [hash]).map(drop)).await
    }

    async fn end_sessions(&self, key_hash: &str, audit: AuditRow) -> Result<u64> {
        let key_hash = key_hash.to_owned();
        let end = move |tx: &Transaction<'_>| {
            let ended = tx.execute(END_ALL, [key_hash])?;
            audit_if_changed(tx, ended, &audit)?;
            Ok(ended as u64)
        };
        self.writer.write(end).await
    }

    async fn forget_sessions(&self, before: Millis, limit: u32) -> Result<u64> {
        self.writer.chore(move |tx| tx.execute(FORGET, params![before, limit])).await.map(|forgotten| forgotten as u64)
    }
}
