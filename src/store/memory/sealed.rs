//! Rows that hold sealed texts.

use async_trait::async_trait;

use super::{Memory, State};
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::engine::step::RowKind;
use crate::store::Result;
use crate::store::document::SEALED;
use crate::store::sealed::{SealedKind, SealedRow, SealedRows};

#[async_trait]
impl SealedRows for Memory {
    async fn sealed_rows(&self, kind: SealedKind, after: Option<&SealedRow>, limit: u32) -> Result<Vec<SealedRow>> {
        let mut found = self.state().sealed(kind);
        found.sort_by(|one, other| place(one).cmp(&place(other)));
        let is_later = |row: &SealedRow| after.is_none_or(|after| place(after) < place(row));
        Ok(found.into_iter().filter(is_later).take(limit as usize).collect())
    }

    async fn replace_sealed(&self, row: &SealedRow, body: &str) -> Result<bool> {
        let mut state = self.state();
        let stored = match row.kind {
            SealedKind::Receiver => {
                let thread = state.threads.get_mut(&row.thread);
                thread.and_then(|kept| kept.rows.get_mut(&(RowKind::Push, row.id.clone()))).map(|row| &mut row.body)
            }
            SealedKind::Answer => {
                let key = (row.tenant, row.scope.clone(), row.id.clone());
                state.idempotency.get_mut(&key).map(|(_, kept)| &mut kept.body)
            }
        };
        let Some(stored) = stored.filter(|stored| **stored == row.body) else { return Ok(false) };
        body.clone_into(stored);
        Ok(true)
    }

    async fn tenant_name(&self, tenant: TenantPk) -> Result<Option<String>> {
        let place = usize::try_from(tenant.0 - 1).unwrap_or(usize::MAX);
        Ok(self.state().tenants.get(place).cloned())
    }
}

impl State {
    fn sealed(&self, kind: SealedKind) -> Vec<SealedRow> {
        match kind {
            SealedKind::Receiver => self
                .threads
                .iter()
                .flat_map(|(pk, kept)| kept.rows.values().map(move |row| (*pk, kept.thread.tenant, row)))
                .filter(|(_, _, row)| row.kind == RowKind::Push)
                .map(|(thread, tenant, row)| {
                    let (scope, id, body) = (String::new(), row.id.clone(), row.body.clone());
                    SealedRow { kind, tenant, thread, scope, id, body }
                })
                .collect(),
            SealedKind::Answer => self
                .idempotency
                .values()
                .filter(|(_, kept)| kept.body.starts_with(SEALED))
                .map(|(_, kept)| {
                    let (scope, id, body) = (kept.scope.clone(), kept.key.clone(), kept.body.clone());
                    SealedRow { kind, tenant: kept.tenant, thread: ThreadPk::NONE, scope, id, body }
                })
                .collect(),
        }
    }
}

/// By this they are ordered.
fn place(row: &SealedRow) -> (ThreadPk, TenantPk, &str, &str) {
    let tenant = if row.kind == SealedKind::Answer { row.tenant } else { TenantPk(0) };
    (row.thread, tenant, &row.scope, &row.id)
}
