//! The embedded store: one file, one process.
//!
//! WAL; one connection writes, batch by batch, a few read for the engine, and a few others for people. With `synchronous=FULL` a commit is on the disk before it
//! is answered.

mod batch;
mod damage;
mod deliveries;
mod documents;
mod fault;
mod inbox;
mod keys;
mod lock;
mod log;
mod open;
mod packed_rows;
mod private;
mod replicas;
mod rows;
mod schema;
mod sealed;
#[cfg(test)]
mod tests;
mod threads;
mod usage;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sqlx::SqlitePool;
use uuid::Uuid;

use super::committer::Committer;
use super::delivery::Erasure;
use super::document::{Document, DocumentKind, Expected};
use super::{
    AuditRow, Claimable, Commit, Committed, Figures, Found, IdempotencyRow, KeyRow, Mark, ObservationAsk, Page,
    PageAsk, Registration, Result, StandingAsk, Store, ThreadFilter, ThreadRow, UsageAsk,
};
use crate::config::Synchronous;
use crate::domain::Millis;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::Observation;
use crate::domain::usage::UsageSum;
use crate::engine::step::{Row, RowKind};
use writer::Writer;

pub use lock::{announce, served};

#[derive(Clone)]
pub struct Sqlite {
    path: PathBuf,
    synchronous: Synchronous,
    committer: Arc<Committer>,
    writer: Writer,
    readers: SqlitePool,
    /// Where people read; `None`: the readers are theirs.
    for_readers: Option<SqlitePool>,
}

#[async_trait]
impl Store for Sqlite {
    fn describe(&self) -> String {
        format!("sqlite {}", self.path.display())
    }

    fn weakness(&self) -> Option<String> {
        match self.synchronous {
            Synchronous::Full => None,
            Synchronous::Normal => {
                Some("store.synchronous is normal: a power failure may lose what was acknowledged last".to_owned())
            }
        }
    }

    fn for_readers(&self) -> Option<Arc<dyn Store>> {
        let readers = self.for_readers.clone()?;
        Some(Arc::new(Self { readers, for_readers: None, ..self.clone() }))
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.committer.commit(commit).await
    }

    async fn thread(&self, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>> {
        threads::named(&self.readers, tenant, id).await
    }
    async fn thread_by_pk(&self, pk: ThreadPk) -> Result<Option<ThreadRow>> {
        threads::by_pk(&self.readers, pk).await
    }
    async fn load(&self, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>> {
        threads::load(&self.readers, pk).await
    }
    async fn marks(&self, pks: &[ThreadPk]) -> Result<Vec<Mark>> {
        threads::marks(&self.readers, pks).await
    }
    async fn threads(&self, tenant: TenantPk, filter: &ThreadFilter, page: &PageAsk) -> Result<Page<ThreadRow>> {
        threads::list(&self.readers, tenant, filter, page).await
    }
    async fn delete_thread(&self, erasure: Erasure) -> Result<bool> {
        threads::delete(&self.writer, erasure).await
    }

    async fn row(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>> {
        rows::one(&self.readers, pk, kind, id).await
    }
    async fn find_row(&self, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<Found>> {
        inbox::find(&self.readers, tenant, kind, id).await
    }
    async fn rows(&self, pk: ThreadPk, kind: RowKind, descending: bool, page: &PageAsk) -> Result<Page<Row>> {
        rows::list(&self.readers, pk, kind, descending, page).await
    }
    async fn history(&self, pk: ThreadPk, before: &MessageId, limit: u32) -> Result<Vec<ConversationMessage>> {
        rows::history(&self.readers, pk, before, limit).await
    }
    async fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
        rows::payloads(&self.readers, pk, ids).await
    }
    async fn open_suspensions(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<Found>> {
        inbox::open(&self.readers, tenant, page).await
    }
    async fn runs_by_standing(&self, ask: &StandingAsk) -> Result<(Page<Found>, u64)> {
        inbox::by_standing(&self.readers, ask).await
    }

    async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>> {
        log::observations(&self.readers, pk, ask).await
    }
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>> {
        usage::sums(&self.readers, ask).await
    }
    async fn audit(&self, tenant: TenantPk, thread: &ThreadId) -> Result<Vec<AuditRow>> {
        log::audit(&self.readers, tenant, thread).await
    }

    async fn audit_of_tenant(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<AuditRow>> {
        documents::audit_of_tenant(&self.readers, tenant, page).await
    }
    async fn write_document(
        &self,
        document: Document,
        expected: Expected,
        audit: AuditRow,
        kept: Option<IdempotencyRow>,
    ) -> Result<Option<i64>> {
        documents::write(&self.writer, document, expected, audit, kept).await
    }
    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
        documents::one(&self.readers, tenant, kind, id).await
    }
    async fn documents_since(&self, after: i64) -> Result<Vec<Document>> {
        documents::since(&self.readers, after).await
    }

    async fn idempotency(&self, tenant: TenantPk, scope: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        log::idempotency(&self.readers, tenant, scope, key).await
    }
    async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64> {
        log::forget_idempotency(&self.writer, before, limit).await
    }

    async fn tenant(&self, name: &str, now: Millis) -> Result<TenantPk> {
        keys::tenant(&self.writer, name, now).await
    }
    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<bool> {
        keys::rename(&self.writer, from, to, by, now).await
    }
    async fn add_key(&self, key: KeyRow, audit: AuditRow) -> Result<bool> {
        keys::add(&self.writer, key, audit).await
    }
    async fn keys(&self) -> Result<Vec<KeyRow>> {
        keys::all(&self.readers).await
    }
    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool> {
        keys::revoke(&self.writer, key_id, now, audit).await
    }
    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>> {
        keys::by_hash(&self.readers, hash).await
    }

    fn leases_expire(&self) -> bool {
        false
    }
    async fn register(&self, new: Registration, _ttl: Millis) -> Result<()> {
        replicas::register(&self.writer, new).await
    }
    async fn renew(&self, replica: Uuid, _ttl: Millis) -> Result<bool> {
        replicas::renew(&self.readers, replica).await
    }
    async fn unregister(&self, replica: Uuid) -> Result<()> {
        replicas::unregister(&self.writer, replica).await
    }
    async fn end_expired(&self) -> Result<()> {
        Ok(())
    }
    async fn claimable(&self, now: Millis, replica: Uuid, lease: Uuid, limit: u32) -> Result<Vec<Claimable>> {
        replicas::claimable(&self.readers, now, replica, lease, limit).await
    }
    async fn reserve(&self, replica: Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>> {
        replicas::reserve(&self.writer, replica, pks).await
    }
    async fn count_crash(&self, pk: ThreadPk) -> Result<()> {
        replicas::count_crash(&self.writer, pk).await
    }
    async fn forget_crashes(&self, pks: &[ThreadPk], keeps_alone: bool) -> Result<()> {
        replicas::forget_crashes(&self.writer, pks, keeps_alone).await
    }
    async fn due(&self, replica: Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
        replicas::due(&self.readers, replica, now, limit).await
    }
    async fn next_wake(&self) -> Result<Option<Millis>> {
        replicas::next_wake(&self.readers).await
    }

    async fn tasks(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<Found>> {
        inbox::tasks(&self.readers, tenant, page).await
    }
    async fn figures(&self) -> Result<Figures> {
        inbox::figures(&self.readers).await
    }
    async fn ping(&self) -> Result<()> {
        replicas::ping(&self.writer, self.committer.health()).await
    }
    async fn close(&self) {
        self.committer.close().await;
        self.writer.close().await;
        self.readers.close().await;
        if let Some(readers) = &self.for_readers {
            readers.close().await;
        }
    }
}
