//! Replacing payload references by the payloads.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::lease::Lease;
use super::shared::Shared;
use crate::domain::ids::ThreadPk;
use crate::domain::payload::{self, Payloads};
use crate::store::{self, Reads};

/// The pause before an effect reads its payloads again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

impl Shared {
    /// `value` with its payloads, for an effect.
    pub(super) async fn inlined(&self, pk: ThreadPk, value: Value) -> store::Result<Value> {
        with_payloads(&*self.store, pk, value).await
    }

    /// Like [`inlined`](Self::inlined), but waits for an unavailable store until the lease ends. `None`: it ended.
    pub(super) async fn inlined_under(
        &self,
        lease: &Lease,
        pk: ThreadPk,
        value: &Value,
    ) -> Option<store::Result<Value>> {
        loop {
            match self.inlined(pk, value.clone()).await {
                Err(store::Error::Unavailable(why)) if lease.is_valid() => {
                    tracing::debug!(why, "an effect waits for the store")
                }
                Err(store::Error::Unavailable(_)) => return None,
                read => return Some(read),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Reads the payloads that `values` refer to and `known` lacks.
    pub(super) async fn fetch(
        &self,
        pk: ThreadPk,
        values: impl IntoIterator<Item = &Value>,
        known: &mut Payloads,
    ) -> store::Result<()> {
        fetch(&*self.store, pk, values, known).await
    }
}

/// `value` with its payloads from this store.
pub(crate) async fn with_payloads(store: &dyn Reads, pk: ThreadPk, value: Value) -> store::Result<Value> {
    let mut known = Payloads::new();
    fetch(store, pk, [&value], &mut known).await?;
    Ok(if known.is_empty() { value } else { payload::inline(value, &known) })
}

/// Reads from this store the payloads that `values` refer to and `known` lacks.
pub(crate) async fn fetch(
    store: &dyn Reads,
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
