//! Putting payloads back in the place of their references.

use serde_json::Value;

use super::shared::Shared;
use crate::domain::ids::ThreadPk;
use crate::domain::payload::{self, Payloads};
use crate::store;

impl Shared {
    /// `value` whole.
    pub(super) async fn inlined(&self, pk: ThreadPk, value: Value) -> store::Result<Value> {
        let mut known = Payloads::new();
        self.fetch(pk, [&value], &mut known).await?;
        Ok(match known.is_empty() {
            true => value,
            false => payload::inline(value, &known),
        })
    }

    /// Reads what these refer to and is not known yet.
    pub(super) async fn fetch(
        &self,
        pk: ThreadPk,
        values: impl IntoIterator<Item = &Value>,
        known: &mut Payloads,
    ) -> store::Result<()> {
        let mut wanted = Vec::new();
        values.into_iter().for_each(|value| payload::references(value, &mut wanted));
        wanted.retain(|id| !known.contains_key(id));
        wanted.sort_unstable();
        wanted.dedup();
        if !wanted.is_empty() {
            known.extend(self.store.payloads(pk, &wanted).await?);
        }
        Ok(())
    }
}
