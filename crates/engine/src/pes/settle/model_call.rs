//! Stops a model call before it is answered, and counts what calls used.

use crate::domain::ids::{ItemId, StreamId};
use crate::domain::model::{FailureKind, ModelFailure, Usage};
use crate::domain::usage::{ModelUse, Nanos};
use crate::pes::state::{ModelCall, ModelSlot, rows};
use crate::pes::tx::Tx;

/// Stops the open call of the planner, the synthesizer or an item. One in flight ends without an answer, and counts with
/// what it had reserved.
pub(crate) fn stop(tx: &mut Tx<'_>, item: Option<&ItemId>, why: &str) {
    let call = match item {
        Some(item) => tx.change_loop(item, |work| work.model.take()).flatten(),
        None => tx.active().model.take(),
    };
    let Some(call) = call else { return };
    count_reserved(tx, item, &call);
    if let ModelSlot::Running { stream, .. } = call.slot {
        let failure = ModelFailure::new(FailureKind::Interrupted, why);
        tx.record_stream_error(&stream, item, &failure, None);
    }
}

/// Adds the call to the run's counters and writes its usage; returns its cost, if its price is known.
pub(crate) fn count_usage(
    tx: &mut Tx<'_>,
    stream: &StreamId,
    item: Option<&ItemId>,
    (provider, model): (&str, &str),
    usage: &Usage,
) -> Option<Nanos> {
    let cost = tx.world.models.price(provider, model).map(|price| price.of(usage));
    let counters = &mut tx.active().counters;
    counters.usage.add(usage);
    if let Some(cost) = cost {
        let sum = counters.cost_nanos.get_or_insert(0);
        *sum = sum.saturating_add(cost);
    }
    let plain = |text: &str| text.replace(char::is_control, " ");
    let used = ModelUse {
        run: tx.state.active_run().run_id.clone(),
        item: item.map(|id| plain(id.as_str()).as_str().into()),
        provider: plain(provider),
        model: plain(model),
        usage: usage.clone(),
        cost_nanos: cost,
    };
    tx.written.put(rows::usage(stream, tx.stamp.now, &used));
    cost
}

/// Counts a call in flight, and what it has reserved: nobody will say what it used, or whether it was sent.
pub(crate) fn count_reserved(tx: &mut Tx<'_>, item: Option<&ItemId>, call: &ModelCall) {
    let Some(stream) = call.stream() else { return };
    tx.active().counters.llm_calls += 1;
    let Some(reserved) = call.reserved else { return };
    let (provider, model) = tx.state.run_settings().choice(call.choice).unwrap_or_default();
    let (provider, model) = (provider.to_owned(), model.to_owned());
    let input_tokens = reserved.tokens.saturating_sub(reserved.output);
    let usage = Usage { input_tokens, output_tokens: reserved.output, ..Usage::default() };
    count_usage(tx, stream, item, (&provider, &model), &usage);
}
