//! The store in memory, for tests: the same promises without the disk, simple enough to be the judge of the others.
//! Nothing survives the process.

mod apply;
mod deliveries;
mod documents;
mod query;
mod replicas;
mod sealed;
mod tenants;
mod usage;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::delivery::{Delivery, Erasure};
use super::document::{Document, DocumentKind, Expected};
use super::{
    AuditRow, Claimable, Commit, Committed, Figures, Found, IdempotencyRow, KeyRow, Mark, ObservationAsk, Page,
    PageAsk, Registration, Result, StandingAsk, Store, ThreadFilter, ThreadRow, UsageAsk,
};
use crate::domain::Millis;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::Observation;
use crate::domain::usage::{ModelUse, UsageSum};
use crate::engine::step::{Row, RowKind};

#[derive(Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    threads: BTreeMap<ThreadPk, Kept>,
    idempotency: HashMap<(TenantPk, String, String), (ThreadPk, IdempotencyRow)>,
    audit: Vec<AuditRow>,
    /// By the order in which they were written.
    deliveries: BTreeMap<i64, Delivery>,
    /// What model calls of deleted threads took, and when.
    used: Vec<(TenantPk, Millis, ModelUse)>,
    documents: Vec<Document>,
    revision: i64,
    /// A tenant's key is its place, from 1.
    tenants: Vec<String>,
    keys: Vec<KeyRow>,
    /// Until when each is alive.
    replicas: HashMap<Uuid, Instant>,
    /// Of which thread, by the end of which process, of how many that it had in hand.
    crashes: BTreeMap<(ThreadPk, Uuid), i64>,
}

struct Kept {
    thread: ThreadRow,
    rows: BTreeMap<(RowKind, String), Row>,
    observations: Vec<Observation>,
}

impl Memory {
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds this lock")
    }
}

#[async_trait]
impl Store for Memory {
    fn describe(&self) -> String {
        "memory (nothing is kept)".to_owned()
    }
    fn weakness(&self) -> Option<String> {
        Some("what is kept in memory ends with the process".to_owned())
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        Ok(self.state().apply(commit))
    }

    async fn thread(&self, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>> {
        let state = self.state();
        Ok(state.named(tenant, id).map(|kept| state.shown(&kept.thread)))
    }
    async fn thread_by_pk(&self, pk: ThreadPk) -> Result<Option<ThreadRow>> {
        let state = self.state();
        Ok(state.threads.get(&pk).map(|kept| state.shown(&kept.thread)))
    }
    async fn load(&self, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>> {
        let state = self.state();
        Ok(state.threads.get(&pk).map(|kept| (state.shown(&kept.thread), kept.loaded())))
    }
    async fn marks(&self, pks: &[ThreadPk]) -> Result<Vec<Mark>> {
        let state = self.state();
        let threads = pks.iter().filter_map(|pk| state.threads.get(pk)).map(|kept| &kept.thread);
        Ok(threads.map(|it| Mark { pk: it.pk, version: it.fence.version, last_seq: it.last_seq }).collect())
    }
    async fn threads(&self, tenant: TenantPk, filter: &ThreadFilter, page: &PageAsk) -> Result<Page<ThreadRow>> {
        self.state().list(tenant, filter, page)
    }
    async fn delete_thread(&self, erasure: Erasure) -> Result<bool> {
        let Erasure { thread: pk, version, now, deliveries, audit } = erasure;
        let mut state = self.state();
        let gone = match state.threads.entry(pk) {
            Entry::Occupied(known) if known.get().thread.fence.version == version => known.remove(),
            Entry::Occupied(_) | Entry::Vacant(_) => return Ok(false),
        };
        state.idempotency.retain(|_, (owner, _)| *owner != pk);
        state.crashes.retain(|(owner, _), _| *owner != pk);
        state.audit.push(audit);
        state.deliveries.retain(|_, delivery| delivery.thread != pk);
        state.keep_usage(&gone)?;
        for new in deliveries {
            state.post(pk, gone.thread.tenant, now, new);
        }
        Ok(true)
    }

    async fn row(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>> {
        Ok(self.state().threads.get(&pk).and_then(|kept| kept.rows.get(&(kind, id.to_owned())).cloned()))
    }
    async fn find_row(&self, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<Found>> {
        Ok(self.state().found(tenant, kind).into_iter().find(|found| found.row.id == id))
    }
    async fn rows(&self, pk: ThreadPk, kind: RowKind, descending: bool, page: &PageAsk) -> Result<Page<Row>> {
        self.state().rows(pk, kind, descending, page)
    }
    async fn history(&self, pk: ThreadPk, before: &MessageId, limit: u32) -> Result<Vec<ConversationMessage>> {
        self.state().history(pk, before, limit)
    }
    async fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
        self.state().payloads(pk, ids)
    }
    async fn open_suspensions(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<Found>> {
        self.state().open_suspensions(tenant, page)
    }
    async fn runs_by_standing(&self, ask: &StandingAsk) -> Result<(Page<Found>, u64)> {
        self.state().by_standing(ask)
    }
    async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>> {
        Ok(self.state().observations(pk, ask))
    }
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>> {
        self.state().usage(ask)
    }
    async fn audit(&self, tenant: TenantPk, thread: &ThreadId) -> Result<Vec<AuditRow>> {
        let state = self.state();
        let lines = state.audit.iter().filter(|line| line.tenant == tenant && line.thread_id.as_ref() == Some(thread));
        Ok(lines.cloned().collect())
    }
    async fn audit_of_tenant(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<AuditRow>> {
        self.state().audit_of_tenant(tenant, page)
    }

    async fn write_document(
        &self,
        document: Document,
        expected: Expected,
        audit: AuditRow,
        kept: Option<IdempotencyRow>,
    ) -> Result<Option<i64>> {
        Ok(self.state().write_document(document, expected, audit, kept))
    }
    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>> {
        Ok(self.state().document(tenant, kind, id))
    }
    async fn documents_since(&self, after: i64) -> Result<Vec<Document>> {
        Ok(self.state().documents_since(after))
    }

    async fn idempotency(&self, tenant: TenantPk, scope: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        let name = (tenant, scope.to_owned(), key.to_owned());
        Ok(self.state().idempotency.get(&name).map(|(_, row)| row.clone()))
    }
    async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64> {
        let mut state = self.state();
        let old = state.idempotency.iter().filter(|(_, (_, row))| row.created_at < before);
        let old: Vec<_> = old.map(|(name, _)| name.clone()).take(limit as usize).collect();
        old.iter().for_each(|name| _ = state.idempotency.remove(name));
        Ok(old.len() as u64)
    }

    async fn tenant(&self, name: &str, _now: Millis) -> Result<TenantPk> {
        let tenants = &mut self.state().tenants;
        let place = tenants.iter().position(|known| known == name).unwrap_or_else(|| {
            tenants.push(name.to_owned());
            tenants.len() - 1
        });
        Ok(TenantPk(place as i64 + 1))
    }
    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<bool> {
        Ok(self.state().rename(from, to, by, now))
    }
    async fn add_key(&self, key: KeyRow, audit: AuditRow) -> Result<bool> {
        let mut state = self.state();
        if state.keys.iter().any(|known| (known.tenant, &known.name) == (key.tenant, &key.name)) {
            return Ok(false);
        }
        state.keys.push(key);
        state.audit.push(audit);
        Ok(true)
    }
    async fn keys(&self) -> Result<Vec<KeyRow>> {
        Ok(self.state().keys.clone())
    }
    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool> {
        let mut state = self.state();
        let active = state.keys.iter_mut().find(|key| key.key_id == key_id && key.revoked_at.is_none());
        let Some(key) = active else { return Ok(false) };
        key.revoked_at = Some(now);
        state.audit.push(audit);
        Ok(true)
    }
    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>> {
        Ok(self.state().keys.iter().find(|key| key.hash == hash).cloned())
    }

    async fn register(&self, new: Registration, ttl: Millis) -> Result<()> {
        self.state().register(&new, ttl);
        Ok(())
    }
    async fn renew(&self, replica: Uuid, ttl: Millis) -> Result<bool> {
        Ok(self.state().renew(replica, ttl))
    }
    async fn unregister(&self, replica: Uuid) -> Result<()> {
        self.state().replicas.remove(&replica);
        Ok(())
    }
    async fn end_expired(&self) -> Result<()> {
        self.state().end_expired();
        Ok(())
    }
    async fn claimable(&self, now: Millis, replica: Uuid, lease: Uuid, limit: u32) -> Result<Vec<Claimable>> {
        Ok(self.state().claimable(now, replica, lease, limit))
    }
    async fn reserve(&self, replica: Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>> {
        Ok(self.state().reserve(replica, pks))
    }
    async fn count_crash(&self, pk: ThreadPk) -> Result<()> {
        self.state().crashes.insert((pk, Uuid::new_v4()), 1);
        Ok(())
    }
    async fn forget_crashes(&self, pks: &[ThreadPk], keeps_alone: bool) -> Result<()> {
        self.state().crashes.retain(|(pk, _), in_hand| !pks.contains(pk) || (keeps_alone && *in_hand == 1));
        Ok(())
    }
    async fn due(&self, replica: Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>> {
        Ok(self.state().due(replica, now, limit))
    }
    async fn next_wake(&self) -> Result<Option<Millis>> {
        Ok(self.state().threads.values().filter_map(|kept| kept.thread.wake_at).min())
    }

    async fn tasks(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<Found>> {
        self.state().tasks(tenant, page)
    }
    async fn figures(&self) -> Result<Figures> {
        self.state().figures()
    }
    async fn ping(&self) -> Result<()> {
        Ok(())
    }
    async fn close(&self) {}
}
