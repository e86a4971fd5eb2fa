//! A cache of all documents in each process: fresh at once in the process that wrote a document, within two seconds in the
//! others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::{Document, DocumentChanges, DocumentKind, Expected};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::tenant::REMOVAL_ID;
use crate::store::{IdempotencyRow, Result, Store};

/// How often the cache is refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// A write of a tenant's document.
#[derive(Clone, Debug)]
pub struct Change {
    pub tenant: TenantPk,
    pub kind: DocumentKind,
    pub id: String,
    /// `None` deletes.
    pub body: Option<Value>,
    /// What it replaces, if that is known; for the audit.
    pub former: Option<Value>,
    /// Who does it, for the audit.
    pub by: String,
    /// The tenant of whoever does it, if that is another than the document's.
    pub by_tenant: Option<String>,
    /// The reason, if the server makes the change by itself; for the audit.
    pub why: Option<String>,
    pub now: Millis,
}

/// All documents of all tenants. Reading is cheap and does no IO.
pub struct DocumentCache {
    store: Arc<dyn Store>,
    cached: Mutex<CachedDocuments>,
    revision: watch::Sender<i64>,
}

type DocumentKey = (TenantPk, DocumentKind, String);

#[derive(Default)]
struct CachedDocuments {
    revision: i64,
    by_key: BTreeMap<DocumentKey, Arc<Document>>,
    /// How often the cached documents of a kind have changed, deletions included.
    changes: HashMap<(TenantPk, DocumentKind), u64>,
}

impl DocumentCache {
    pub async fn open(store: Arc<dyn Store>) -> Result<Arc<Self>> {
        let documents = Self { store, cached: Mutex::default(), revision: watch::Sender::new(0) };
        documents.refresh().await?;
        Ok(Arc::new(documents))
    }

    /// A tenant's documents of a kind, in order of their ids.
    pub fn of(&self, tenant: TenantPk, kind: DocumentKind) -> Vec<Arc<Document>> {
        let cached = self.cached();
        let from = cached.by_key.range((tenant, kind, String::new())..);
        from.take_while(|((owner, of, _), _)| (*owner, *of) == (tenant, kind)).map(|(_, one)| one.clone()).collect()
    }

    /// All documents of the tenant, of every kind.
    pub fn of_tenant(&self, tenant: TenantPk) -> Vec<Arc<Document>> {
        let cached = self.cached();
        // The kinds are in their order.
        let from = cached.by_key.range((tenant, DocumentKind::ALL[0], String::new())..);
        from.take_while(|((owner, ..), _)| *owner == tenant).map(|(_, one)| one.clone()).collect()
    }

    /// All tenants' documents of a kind.
    pub fn all(&self, kind: DocumentKind) -> Vec<Arc<Document>> {
        self.cached().by_key.values().filter(|document| document.kind == kind).cloned().collect()
    }

    /// All tenants' documents of every kind.
    pub fn of_all(&self) -> Vec<Arc<Document>> {
        self.cached().by_key.values().cloned().collect()
    }

    pub fn get(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Option<Arc<Document>> {
        self.cached().by_key.get(&(tenant, kind, id.to_owned())).cloned()
    }

    /// Whether the operator removed the tenant.
    pub fn is_removed(&self, tenant: TenantPk) -> bool {
        self.get(tenant, DocumentKind::Removal, REMOVAL_ID).is_some()
    }

    /// Grows with every change of a tenant's documents of a kind that the cache has read.
    pub fn changes_of(&self, tenant: TenantPk, kind: DocumentKind) -> u64 {
        self.cached().changes.get(&(tenant, kind)).copied().unwrap_or(0)
    }

    /// Grows with every change that the cache has read.
    pub fn revision(&self) -> i64 {
        *self.revision.borrow()
    }

    /// Notified whenever [`revision`](Self::revision) grows.
    pub fn changes(&self) -> watch::Receiver<i64> {
        self.revision.subscribe()
    }

    /// Writes to the store and refreshes this cache. If the refresh fails, the write still succeeds. `None`: the stored
    /// document is not the expected one.
    pub async fn write(&self, change: Change, expected: Expected) -> Result<Option<i64>> {
        self.write_once(change, expected, None).await
    }

    /// The same, and stores the response to the request under its idempotency key, which must not be taken.
    pub async fn write_once(
        &self,
        change: Change,
        expected: Expected,
        response: Option<IdempotencyRow>,
    ) -> Result<Option<i64>> {
        let audit = change.audit();
        let Change { tenant, kind, id, body, now, .. } = change;
        let document = Document { tenant, kind, id, version: 0, updated_at: now, body };
        let written = self.store.write_document(document, expected, audit, response).await?;
        // Also after a refusal, because a stale cache may have misled the caller.
        match self.refresh().await {
            Err(error) if written.is_some() => {
                tracing::warn!(%error, "a document was written, but the cache could not be refreshed")
            }
            refreshed => refreshed?,
        }
        Ok(written)
    }

    /// Reads the documents that have changed.
    pub async fn refresh(&self) -> Result<()> {
        let seen = self.cached().revision;
        let DocumentChanges { documents, is_whole, newest } = self.store.documents_since(seen).await?;
        let mut cached = self.cached();
        if newest <= cached.revision {
            return Ok(());
        }
        if is_whole {
            cached.keep_only(&documents);
        }
        for document in documents {
            cached.take(document);
        }
        cached.revision = newest;
        let revision = cached.revision;
        drop(cached);
        self.revision.send_if_modified(|known| std::mem::replace(known, revision.max(*known)) < revision);
        Ok(())
    }

    /// Refreshes the cache until dropped.
    pub async fn follow(&self) {
        let mut ticks = interval(REFRESH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.refresh().await {
                tracing::warn!(%error, "the document cache could not be refreshed");
            }
        }
    }

    fn cached(&self) -> MutexGuard<'_, CachedDocuments> {
        self.cached.lock()
    }
}

impl CachedDocuments {
    /// Removes all documents that are not in `all`.
    fn keep_only(&mut self, all: &[Document]) {
        let is_there: BTreeSet<(TenantPk, DocumentKind, &str)> =
            all.iter().map(|document| (document.tenant, document.kind, document.id.as_str())).collect();
        let Self { by_key, changes, .. } = self;
        by_key.retain(|(tenant, kind, id), _| {
            let stays = is_there.contains(&(*tenant, *kind, id.as_str()));
            if !stays {
                *changes.entry((*tenant, *kind)).or_default() += 1;
            }
            stays
        });
    }

    /// Adds or removes a document. Concurrent refreshes may overlap: an older version never replaces a newer one or undoes a
    /// deletion.
    fn take(&mut self, document: Document) {
        let key = (document.tenant, document.kind, document.id.clone());
        let known = self.by_key.get(&key).map_or(0, |known| known.version);
        if document.version <= known || document.version <= self.revision {
            return;
        }
        *self.changes.entry((document.tenant, document.kind)).or_default() += 1;
        match document.body {
            Some(_) => self.by_key.insert(key, Arc::new(document)),
            None => self.by_key.remove(&key),
        };
    }
}
