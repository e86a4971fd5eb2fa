//! Browser sessions: a cookie that stands for a key or a person.

use async_trait::async_trait;

use super::columns::Columns;
use super::page::{Cursor, Page, PageAsk, page_of};
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
    /// The sessions of people in whose JSON this text occurs, and which expire after `now`. Those of one person are next to
    /// each other. Reads all sessions.
    async fn sessions_of_people(&self, containing: &str, now: Millis, page: &PageAsk) -> Result<Page<SessionRow>>;
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

/// The `key_hash` and `hash` after which the page begins.
pub(crate) fn beginning_of(page: &PageAsk) -> Result<(String, String)> {
    let last = Cursor::of(page)?.map(|cursor| cursor.id).unwrap_or_default();
    let (key_hash, hash) = last.split_once(' ').unwrap_or_default();
    Ok((key_hash.to_owned(), hash.to_owned()))
}

/// A page of sessions, in the order of `key_hash` and `hash`.
pub(crate) fn page_of_sessions(rows: &[impl Columns], page: &PageAsk) -> Result<Page<SessionRow>> {
    page_of(rows, page, SessionRow::read, |_, session| {
        Ok(Cursor::new(session.expires_at, format!("{} {}", session.key_hash, session.hash)))
    })
}
