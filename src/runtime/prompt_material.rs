//! What the prompt of a model call needs and the machine does not hold: payloads and earlier messages, read from the store
//! when a call starts or a past prompt is rendered again.

use super::shared::Shared;
use crate::domain::ids::ThreadPk;
use crate::domain::message::ConversationMessage;
use crate::domain::run::Run;
use crate::engine::effect::Effect;
use crate::engine::{HistoryQuery, Machine, PromptMaterial, PromptNeeds};
use crate::store::{self, Reads};

/// Bounds how many earlier messages are read in search of the end of the summary.
const MAX_HISTORY_MESSAGES: u32 = 1_000;

/// Bounds how many bytes of them are read: more than the context of any model.
const MAX_HISTORY_BYTES: u64 = 16 << 20;

impl Shared {
    /// Reads what the prompt of an effect needs.
    pub(super) async fn material(
        &self,
        store: &dyn Reads,
        pk: ThreadPk,
        machine: &dyn Machine,
        effect: &Effect,
    ) -> store::Result<PromptMaterial> {
        let PromptNeeds { payloads, history } = machine.prompt_needs(effect);
        let payloads = if payloads.is_empty() {
            Default::default()
        } else {
            store.payloads(pk, &payloads).await?.into_iter().collect()
        };
        let history = match (history, machine.run()) {
            (Some(wanted), Some(run)) => history_before(store, pk, run, wanted).await?,
            (Some(_), None) | (None, _) => Vec::new(),
        };
        Ok(PromptMaterial { payloads, history })
    }
}

/// The messages before those of the run. Reads more and more of them until they reach to the end of the summary.
async fn history_before(
    store: &dyn Reads,
    pk: ThreadPk,
    run: &Run,
    wanted: HistoryQuery,
) -> store::Result<Vec<ConversationMessage>> {
    let mut most = wanted.newest.saturating_add(wanted.except.len() as u32);
    loop {
        let found = store.history(pk, &run.message_id, most, MAX_HISTORY_BYTES).await?;
        let is_all = found.len() < most as usize;
        let found = wanted.kept(found, if wanted.since.is_some() { most } else { wanted.newest });
        let is_enough = found.len() >= wanted.newest as usize;
        let reaches = |since| found.iter().any(|message| message.message_id == since);
        if is_all || most >= MAX_HISTORY_MESSAGES || (is_enough && wanted.since.clone().is_none_or(reaches)) {
            return Ok(found);
        }
        most = most.saturating_mul(2);
    }
}
