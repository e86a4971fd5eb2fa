//! Documents: a list with the newest version of each.

use super::State;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::cursor::{Cursor, page};
use crate::store::document::{Document, DocumentKind, Expected};
use crate::store::{AuditRow, IdempotencyRow, Page, PageAsk, Result};

impl State {
    pub(super) fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Option<Document> {
        let live = self.documents.iter().filter(|known| known.body.is_some());
        live.clone().find(|known| (known.tenant, known.kind, known.id.as_str()) == (tenant, kind, id)).cloned()
    }

    pub(super) fn documents_since(&self, after: i64) -> Vec<Document> {
        self.documents.iter().filter(|known| known.version > after).cloned().collect()
    }

    pub(super) fn write_document(
        &mut self,
        new: Document,
        expected: Expected,
        audit: AuditRow,
        kept: Option<IdempotencyRow>,
    ) -> Option<i64> {
        let known = self.document(new.tenant, new.kind, &new.id).map(|known| known.version);
        let is_expected = match expected {
            Expected::Absent => known.is_none(),
            Expected::Version(version) => known == Some(version),
            Expected::Any => known.is_some() || new.body.is_some(),
        };
        if !is_expected || kept.as_ref().is_some_and(|kept| self.is_taken(kept)) {
            return None;
        }
        if let Some(kept) = kept {
            self.keep(ThreadPk::NONE, kept);
        }
        self.revision += 1;
        self.documents.retain(|known| (known.tenant, known.kind, &known.id) != (new.tenant, new.kind, &new.id));
        self.documents.push(Document { version: self.revision, ..new });
        self.audit.push(audit);
        Some(self.revision)
    }

    pub(super) fn is_taken(&self, row: &IdempotencyRow) -> bool {
        self.idempotency.contains_key(&(row.tenant, row.scope.clone(), row.key.clone()))
    }

    pub(super) fn keep(&mut self, owner: ThreadPk, row: IdempotencyRow) {
        self.idempotency.insert((row.tenant, row.scope.clone(), row.key.clone()), (owner, row));
    }

    pub(super) fn audit_of_tenant(&self, tenant: TenantPk, ask: &PageAsk) -> Result<Page<AuditRow>> {
        let before = Cursor::of(ask)?.map_or(usize::MAX, |cursor| usize::try_from(cursor.at).unwrap_or(0));
        let lines = self.audit.iter().enumerate().rev();
        let found = lines.filter(|(at, line)| (line.tenant, line.thread) == (tenant, ThreadPk::NONE) && *at < before);
        let found = found.map(|(at, line)| (at, line.clone())).take(ask.limit as usize + 1).collect();
        let found = page(found, ask.limit, |(at, _)| Cursor::new(*at as i64, ""));
        Ok(Page { items: found.items.into_iter().map(|(_, line)| line).collect(), next_cursor: found.next_cursor })
    }
}
