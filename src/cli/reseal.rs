//! `pes reseal`: seals all secrets under the current key. Each entry is written separately, and only if it is unchanged since
//! it was read. So it may run beside servers on PostgreSQL, be interrupted, and be run again.

use std::collections::HashMap;

use serde_json::json;

use super::Error;
use super::client::print;
use super::which_server::without_server;
use crate::app::outward;
use crate::config::Config;
use crate::domain::caller::LOCAL;
use crate::domain::ids::TenantPk;
use crate::engine::step::{Keep, Row, RowKind};
use crate::outbox::PushTarget;
use crate::runtime::clock::{Clock, System};
use crate::store::documents::{Document, Expected, RESPONSE, Sealer, Unreadable, owner_of_response, response_id};
use crate::store::sealed::{SealedKind, SealedRow};
use crate::store::sqlite::Sqlite;
use crate::store::{self, AuditRow, Store};

/// Rows per read.
const BATCH: u32 = 200;

pub(super) async fn reseal(config: &Config) -> Result<(), Error> {
    without_server(config)?;
    let store = &config.store;
    if store.url.is_none() {
        // Before the key is looked for, which may be a file in this folder.
        Sqlite::check_exists(&store.data_dir)?;
    }
    let sealer = outward::sealer(config);
    let store = store::open_existing(store).await?;
    let done = Walk::new(&*store, &sealer, true).run().await;
    store.close().await;
    let ResealReport { stale, current, unreadable } = done?;
    let key = sealer.fingerprints().current;
    let printed = print(&match &key {
        Some(key) => format!("sealed again with the key {key}: {stale}; sealed with it already: {current}"),
        None if unreadable.is_empty() => "no secrets are stored: there is nothing to seal".to_owned(),
        None => "there is no key to seal with".to_owned(),
    });
    let printed = printed.and_then(|()| unreadable.iter().try_for_each(|one| print(&format!("not opened: {one}"))));
    // The exit code reports unreadable entries also if stdout is closed.
    match unreadable.len() {
        0 => printed,
        count if key.is_none() => Err(Error::Failed(format!(
            "{count} could not be opened, and there is no key to seal with: set PES_SEALING_KEY"
        ))),
        count => Err(Error::Failed(format!(
            "{count} could not be opened: add the keys they were sealed with to PES_SEALING_KEYS_OLD and run it again, or \
             give what is named new secrets, or remove it"
        ))),
    }
}

/// Counts of the entries with sealed texts.
#[derive(Default)]
pub(super) struct ResealReport {
    /// Found sealed under another key than the current one.
    pub stale: usize,
    pub current: usize,
    /// One sentence each: kind, name, tenant, and why.
    pub unreadable: Vec<String>,
}

/// A walk over all sealed entries.
pub(super) struct Walk<'s> {
    store: &'s dyn Store,
    sealer: &'s Sealer,
    /// Whether stale entries are sealed again.
    writes: bool,
    found: ResealReport,
    tenants: HashMap<TenantPk, String>,
}

impl<'s> Walk<'s> {
    pub fn new(store: &'s dyn Store, sealer: &'s Sealer, writes: bool) -> Self {
        Self { store, sealer, writes, found: ResealReport::default(), tenants: HashMap::new() }
    }

    pub async fn run(mut self) -> store::Result<ResealReport> {
        for document in self.store.documents_since(0).await?.documents {
            self.document(document).await?;
        }
        for kind in [SealedKind::Receiver, SealedKind::Response] {
            let mut rows = self.store.sealed_rows(kind, None, BATCH).await?;
            while let Some(last) = rows.last().cloned() {
                for row in rows {
                    self.row(row).await?;
                }
                rows = self.store.sealed_rows(kind, Some(&last), BATCH).await?;
            }
        }
        Ok(self.found)
    }

    async fn document(&mut self, document: Document) -> store::Result<()> {
        let mut document = document;
        loop {
            match document.resealed(self.sealer) {
                Err(why) => {
                    return self.unreadable(document.kind.as_str(), &document.id, document.tenant, &why).await;
                }
                Ok(None) => {
                    self.found.current += usize::from(document.secret_count() > 0);
                    return Ok(());
                }
                Ok(Some(body)) => {
                    if !self.writes || self.write(&document, body).await? {
                        self.found.stale += 1;
                        return Ok(());
                    }
                }
            }
            // A concurrent write won.
            match self.store.document(document.tenant, document.kind, &document.id).await? {
                Some(newer) => document = newer,
                None => return Ok(()),
            }
        }
    }

    async fn write(&self, document: &Document, body: serde_json::Value) -> store::Result<bool> {
        let now = System::default().now();
        let detail = json!({ "kind": document.kind.as_str(), "id": document.id });
        let audit = AuditRow::of_tenant(document.tenant, now, LOCAL, "reseal document", detail);
        let new = Document { updated_at: now, body: Some(body), ..document.clone() };
        let written = self.store.write_document(new, Expected::Version(document.version), audit, None).await?;
        Ok(written.is_some())
    }

    /// A row that changed in between is gone, or a server wrote it under its own key.
    async fn row(&mut self, row: SealedRow) -> store::Result<()> {
        let again = match row.kind {
            SealedKind::Receiver => self.receiver(&row),
            SealedKind::Response => {
                let id = response_id(&row.scope, &row.id);
                self.sealer.reseal(&row.body, owner_of_response(row.tenant, &id)).map(Entry::of)
            }
        };
        let (kind, name) = match row.kind {
            SealedKind::Receiver => ("push configuration", row.id.clone()),
            SealedKind::Response => (RESPONSE, format!("to the Idempotency-Key {} of {}", row.id, row.scope)),
        };
        match again {
            Ok(Entry::Open) => {}
            Ok(Entry::Current) => self.found.current += 1,
            Ok(Entry::Stale(body)) => {
                let is_written = !self.writes || self.store.replace_sealed(&row, &body).await?;
                self.found.stale += usize::from(is_written);
            }
            Err(why) => self.unreadable(kind, &name, row.tenant, &why).await?,
        }
        Ok(())
    }

    fn receiver(&self, row: &SealedRow) -> Result<Entry, Unreadable> {
        let (id, body) = (row.id.clone(), row.body.clone());
        let stored = Row { kind: RowKind::Push, id, ord: 0, keep: Keep::Never, body };
        let target = PushTarget::read(&stored).map_err(|_| Unreadable::Malformed)?;
        let Some(mut target) = target.filter(PushTarget::is_sealed) else { return Ok(Entry::Open) };
        Ok(if target.reseal(self.sealer, row.tenant)? { Entry::Stale(target.row(false).body) } else { Entry::Current })
    }

    async fn unreadable(&mut self, kind: &str, name: &str, tenant: TenantPk, why: &Unreadable) -> store::Result<()> {
        if !self.tenants.contains_key(&tenant) {
            let name = self.store.tenant_name(tenant).await?.unwrap_or_default();
            self.tenants.insert(tenant, name);
        }
        let tenant = &self.tenants[&tenant];
        self.found.unreadable.push(format!("{kind} {name} of tenant {tenant}: {why}"));
        Ok(())
    }
}

/// The sealed content of one row.
enum Entry {
    /// Nothing is sealed.
    Open,
    Current,
    /// The text to store instead.
    Stale(String),
}

impl Entry {
    fn of(again: Option<String>) -> Self {
        again.map_or(Entry::Current, Entry::Stale)
    }
}
