//! Sessions of browsers.

use async_trait::async_trait;
use sqlx::{Connection as _, PgConnection};

use super::Postgres;
use super::fault::error;
use crate::domain::Millis;
use crate::store::sessions::{beginning_of, page_of_sessions};
use crate::store::{AuditRow, Page, PageAsk, Result, SessionRow, SessionStore};

const ADD: &str = "INSERT INTO sessions (hash, key_hash, expires_at, person) VALUES ($1, $2, $3, $4)";

/// Deletes all but those that end last. OFFSET would lock what it skips, hence the query within the query.
const END_FIRST: &str = "
DELETE FROM sessions WHERE hash IN (
    SELECT hash FROM sessions
    WHERE hash IN (SELECT hash FROM sessions WHERE key_hash = $1 ORDER BY expires_at DESC, hash OFFSET $2)
    FOR UPDATE SKIP LOCKED)";

const ONE: &str = "SELECT hash, key_hash, expires_at, person FROM sessions WHERE hash = $1";

const OF_PEOPLE: &str = "
SELECT hash, key_hash, expires_at, person FROM sessions
WHERE strpos(person, $1) > 0 AND expires_at > $2 AND (key_hash, hash) > ($3, $4) ORDER BY key_hash, hash LIMIT $5";

const END: &str = "DELETE FROM sessions WHERE hash = $1";

const END_ALL: &str = "DELETE FROM sessions WHERE key_hash = $1";

const FORGET: &str = "
DELETE FROM sessions WHERE hash IN (
    SELECT hash FROM sessions WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

#[async_trait]
impl SessionStore for Postgres {
    async fn add_session(&self, session: SessionRow, at_most: u32) -> Result<()> {
        let SessionRow { hash, key_hash, person, expires_at } = session;
        let end_first = sqlx::query(END_FIRST).bind(key_hash.clone()).bind(i64::from(at_most.saturating_sub(1)));
        let add = sqlx::query(ADD).bind(hash).bind(key_hash).bind(expires_at).bind(person);
        let added = async |connection: &mut PgConnection| {
            // If it is dropped without a commit, it is rolled back.
            let mut transaction = connection.begin().await.map_err(error)?;
            for query in [end_first, add] {
                query.execute(&mut *transaction).await.map_err(error)?;
            }
            transaction.commit().await.map_err(error)
        };
        self.pool.with_connection(added).await
    }

    async fn session(&self, hash: &str) -> Result<Option<SessionRow>> {
        let query = sqlx::query(ONE).bind(hash);
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map(SessionRow::read).transpose()
    }

    async fn sessions_of_people(&self, containing: &str, now: Millis, page: &PageAsk) -> Result<Page<SessionRow>> {
        let (key_hash, hash) = beginning_of(page)?;
        let query = sqlx::query(OF_PEOPLE).bind(containing).bind(now).bind(key_hash).bind(hash).bind(page.rows());
        page_of_sessions(&self.pool.fetch_all(query).await?, page)
    }

    async fn end_session(&self, hash: &str) -> Result<()> {
        let query = sqlx::query(END).bind(hash);
        self.pool.execute(query).await.map(drop)
    }

    async fn end_sessions(&self, key_hash: &str, audit: AuditRow) -> Result<u64> {
        self.change_with_audit(sqlx::query(END_ALL).bind(key_hash), &audit).await
    }

    async fn forget_sessions(&self, before: Millis, limit: u32) -> Result<u64> {
        let query = sqlx::query(FORGET).bind(before).bind(i64::from(limit));
        self.pool.execute(query).await
    }
}
