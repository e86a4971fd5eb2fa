//! Putting payloads back in the place of their references.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::lease::Lease;
use super::shared::Shared;
use crate::domain::ids::ThreadPk;
use crate::domain::payload::{self, Payloads};
use crate::store::{self, Store};

/// Between two tries to read what an effect needs.
const PAUSE: Duration = Duration::from_millis(500);

impl Shared {
    /// `value` whole, for an effect.
    pub(super) async fn inlined(&self, pk: ThreadPk, value: Value) -> store::Result<Value> {
        whole(&*self.store, pk, value).await
    }

    /// The same for an effect, which a store that does not answer delays until its right to act ends. `None`: it ended.
    pub(super) async fn inlined_under(
        &self,
        hold: &Lease,
        pk: ThreadPk,
        value: &Value,
    ) -> Option<store::Result<Value>> {
        loop {
            match self.inlined(pk, value.clone()).await {
                Err(store::Error::Unavailable(why)) if hold.holds() => {
                    tracing::debug!(why, "an effect waits for the store")
                }
                Err(store::Error::Unavailable(_)) => return None,
                read => return Some(read),
            }
            sleep(PAUSE).await;
        }
    }

    /// Reads what these refer to and is not known yet.
    pub(super) async fn fetch(
        &self,
        pk: ThreadPk,
        values: impl IntoIterator<Item = &Value>,
        known: &mut Payloads,
    ) -> store::Result<()> {
        fetch(&*self.store, pk, values, known).await
    }
}

/// `value` whole, as this store has it.
pub(crate) async fn whole(store: &dyn Store, pk: ThreadPk, value: Value) -> store::Result<Value> {
    let mut known = Payloads::new();
    fetch(store, pk, [&value], &mut known).await?;
    Ok(if known.is_empty() { value } else { payload::inline(value, &known) })
}

/// Reads from this store what these refer to and is not known yet.
pub(crate) async fn fetch(
    store: &dyn Store,
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
        known.extend(store.payloads(pk, &wanted).await?);
    }
    Ok(())
}
