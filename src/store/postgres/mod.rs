//! PostgreSQL: any number of processes on one database.
//!
//! Two committers write, each thread always by the same one. What the engine reads and what people read take their
//! connections from two pools; what keeps this process's lease has a connection of its own, and so has whoever asks
//! whether the database is well. Replicas are alive by the database's clock.

mod deliveries;
mod documents;
mod fault;
mod lease;
mod ledger;
mod nul;
mod open;
mod pool;
mod query;
mod sealed;
mod sql;
mod statement;
mod threads;
mod usage;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;
use uuid::Uuid;

use super::committer::{Bounds, Committer};
use super::delivery::Erasure;
use super::document::{Document, DocumentKind, Expected};
use super::{
    AuditRow, Claimable, Commit, Committed, Figures, Found, IdempotencyRow, KeyRow, Mark, ObservationAsk, Page,
    PageAsk, Registration, Result, StandingAsk, Store, ThreadFilter, ThreadRow, UsageAsk,
};
use crate::domain::Millis;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::Observation;
use crate::domain::usage::UsageSum;
use crate::engine::step::{Row, RowKind};
use pool::Pool;
use writer::Writer;

/// While one waits for its commit to be flushed, the other writes; a third would only share their processor.
const COMMITTERS: usize = 2;

#[derive(Clone)]
pub struct Postgres {
    place: String,
    weakness: Option<String>,
    pool: Pool,
    /// Where people read; `None`: this is theirs.
    for_readers: Option<Pool>,
    /// What keeps this process alive waits behind nothing else.
    lease: Pool,
    /// Whoever asks whether the database is well waits behind others who ask.
    health: Pool,
    committer: Arc<Committer>,
}

impl Postgres {
    /// Migrates first. Fails with `Unusable` when the database cannot be reached, or was migrated by a newer program.
    pub async fn open(url: &SecretString, connections: u32) -> Result<Self> {
        let options = open::options(url)?;
        open::migrate(&options).await?;
        let session = open::session(&options);
        let weakness = open::weakness(&session).await?;
        let half = connections.div_ceil(2);
        let writers = (0..COMMITTERS).map(|_| Writer::new(session.clone()));
        Ok(Self {
            place: open::place(&options),
            weakness,
            pool: Pool::lazy(session.clone(), half),
            for_readers: Some(Pool::lazy(session.clone(), half)),
            lease: Pool::lazy(session.clone(), 1),
            health: Pool::lazy(session.clone(), 1),
            committer: Arc::new(Committer::spawn(writers, Bounds::default())),
        })
    }
}

#[async_trait]
impl Store for Postgres {
    fn describe(&self) -> String {
        format!("postgres at {}", self.place)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn weakness(&self) -> Option<String> {
        self.weakness.clone()
    }

    fn for_readers(&self) -> Option<Arc<dyn Store>> {
        let pool = self.for_readers.clone()?;
        Some(Arc::new(Self { pool, for_readers: None, ..self.clone() }))
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.committer.commit(commit).await
    }

    async fn thread(&self, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>> {
        threads::named(&self.pool, tenant, id).await
    }
    async fn thread_by_pk(&self, pk: ThreadPk) -> Result<Option<ThreadRow>> {
        threads::by_pk(&self.pool, pk).await
    }
    async fn load(&self, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>> {
        threads::load(&self.pool, pk).await
    }
    async fn marks(&self, pks: &[ThreadPk]) -> Result<Vec<Mark>> {
        threads::marks(&self.pool, pks).await
    }
    async fn threads(&self, tenant: TenantPk, filter: &ThreadFilter, page: &PageAsk) -> Result<Page<ThreadRow>> {
        threads::list(&self.pool, tenant, filter, page).await
    }
    async fn delete_thread(&self, erasure: Erasure) -> Result<bool> {
        threads::delete(&self.pool, &erasure).await
    }

    async fn row(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>> {
        query::row(&self.pool, pk, kind, id).await
    }
    async fn find_row(&self, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<Found>> {
        query::find(&self.pool, tenant, kind, id).await
    }
    async fn rows(&self, pk: ThreadPk, kind: RowKind, descending: bool, page: &PageAsk) -> Result<Page<Row>> {
        query::page_of_rows(&self.pool, pk, kind, descending, page).await
    }
    async fn history(&self, pk: ThreadPk, before: &MessageId, limit: u32) -> Result<Vec<ConversationMessage>> {
        query::history(&self.pool, pk, before, limit).await
    }
    async fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
        query::payloads(&self.pool, pk, ids).await
    }
    async fn open_suspensions(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<Found>> {
        query::open_suspensions(&self.pool, tenant, page).await
    }
    async fn runs_by_standing(&self, ask: &StandingAsk) -> Result<(Page<Found>, u64)> {
        query::runs_by_standing(&self.pool, ask).await
    }
    async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>> {
        query::observations(&self.pool, pk, ask).await
    }

    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>> {
        usage::sums(&self.pool, ask).await
    }
    async fn audit(&self, tenant: TenantPk, thread: &ThreadId) -> Result<Vec<AuditRow>> {
        ledger::audit(&self.pool, tenant, thread).await
    }
    async fn audit_of_tenant(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<AuditRow>> {
        documents::audit_of_tenant(&self.pool, tenant, page).await
    }
    async fn write_document(
        &self,
        document: Document,
        expected: Expected,
        audit: AuditRow,
        kept: Option<IdempotencyRow>,
    ) -> Result<Option<i64>> {
        documents::write(&self.pool, document, expected, audit, kept).await
    }
    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
        documents::one(&self.pool, tenant, kind, id).await
    }
    async fn documents_since(&self, after: i64) -> Result<Vec<Document>> {
        documents::since(&self.pool, after).await
    }

    async fn idempotency(&self, tenant: TenantPk, scope: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        ledger::idempotency(&self.pool, tenant, scope, key).await
    }
    async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64> {
        ledger::forget_idempotency(&self.pool, before, limit).await
    }
    async fn tenant(&self, name: &str, now: Millis) -> Result<TenantPk> {
        ledger::tenant(&self.pool, name, now).await
    }
    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<bool> {
        ledger::rename_tenant(&self.pool, from, to, by, now).await
    }
    async fn add_key(&self, key: KeyRow, audit: AuditRow) -> Result<bool> {
        ledger::add_key(&self.pool, key, audit).await
    }
    async fn keys(&self) -> Result<Vec<KeyRow>> {
        ledger::keys(&self.pool).await
    }
    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool> {
        ledger::revoke_key(&self.pool, key_id, now, audit).await
    }
    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>> {
        ledger::key_by_hash(&self.pool, hash).await
    }

    async fn register(&self, new: Registration, ttl: Millis) -> Result<()> {
        lease::register(&self.lease, new, ttl).await
    }
    async fn renew(&self, replica: Uuid, ttl: Millis) -> Result<bool> {
        lease::renew(&self.lease, replica, ttl).await
    }
    async fn unregister(&self, replica: Uuid) -> Result<()> {
        lease::unregister(&self.lease, replica).await
    }
    async fn end_expired(&self) -> Result<()> {
        lease::end_expired(&self.pool).await
    }
    async fn claimable(&self, now: Millis, replica: Uuid, lease: Uuid, limit: u32) -> Result<Vec<Claimable>> {
        lease::claimable(&self.pool, now, replica, lease, limit).await
    }
    async fn reserve(&self, replica: Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>> {
        lease::reserve(&self.pool, replica, pks).await
    }
    async fn count_crash(&self, pk: ThreadPk) -> Result<()> {
        lease::count_crash(&self.pool, pk).await
    }
    async fn forget_crashes(&self, pks: &[ThreadPk], keeps_alone: bool) -> Result<()> {
        lease::forget_crashes(&self.pool, pks, keeps_alone).await
    }
    async fn due(&self, replica: Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
        lease::due(&self.pool, replica, now, limit).await
    }
    async fn next_wake(&self) -> Result<Option<Millis>> {
        lease::next_wake(&self.pool).await
    }

    async fn tasks(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<Found>> {
        query::tasks(&self.pool, tenant, page).await
    }
    async fn figures(&self) -> Result<Figures> {
        query::figures(&self.pool).await
    }
    async fn ping(&self) -> Result<()> {
        lease::ping(&self.health, self.committer.health()).await
    }
    async fn close(&self) {
        self.committer.close().await;
        self.pool.close().await;
        if let Some(readers) = &self.for_readers {
            readers.close().await;
        }
        self.health.close().await;
        self.lease.close().await;
    }
}
