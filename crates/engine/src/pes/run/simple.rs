//! The loop of a [`SimpleCore`]: the core's function decides each next step, from the transcript and the reply. Its
//! decision becomes what any step can become: a model slot, a batch of calls, a result, or a failure.

use serde_json::Value;

use crate::domain::fault::Code;
use crate::domain::ids::ItemId;
use crate::domain::model::Phase;
use crate::parse::CallDraft;
use crate::pes::run::{after_items, finish};
use crate::pes::settle::item;
use crate::pes::state::{Item, ReceivedReply, State, TurnContent};
use crate::pes::tx::Tx;
use crate::pes::work::step::{self, StepOutcome};
use crate::pes::work::{batch, item_loop};
use crate::simple::{Next, Reply, Transcript, Turn};

/// Asks the core for the next step: a run begins, or the last call of a batch has ended.
pub(crate) fn ask_core(tx: &mut Tx<'_>, id: &ItemId) {
    if let Some(next) = decide(tx.state, id, None) {
        carry_out(tx, id, next, None);
    }
}

/// The model replied: asks the core for the next step.
pub(crate) fn on_reply(tx: &mut Tx<'_>, id: &ItemId, replied: &ReceivedReply<'_>) -> StepOutcome {
    let draft = match step::parse_usable(tx, id, replied) {
        Ok(draft) => draft,
        Err(outcome) => return outcome,
    };
    let reply = Reply { text: &draft.content, calls: &draft.calls };
    if let Some(next) = decide(tx.state, id, Some(reply)) {
        carry_out(tx, id, next, Some(replied));
    }
    StepOutcome::Settled
}

fn decide(state: &State, id: &ItemId, reply: Option<Reply<'_>>) -> Option<Next> {
    let (core, item) = (state.simple.as_ref()?, state.item(id)?);
    Some(core.next(&Transcript { run: state.active_run(), turns: turns(state, item), reply }))
}

fn turns<'a>(state: &'a State, item: &'a Item) -> Vec<Turn<'a>> {
    let turn = |content: &'a TurnContent| match content {
        TurnContent::Model { text, calls, .. } => {
            let calls = calls.iter().filter_map(|id| Some(&state.calls.get(id)?.record)).collect();
            Some(Turn::Model { text, calls })
        }
        TurnContent::Engine { text } => Some(Turn::Text(text)),
        TurnContent::Patch { .. } => None,
    };
    item.turns.iter().filter_map(|it| turn(&it.content)).collect()
}

fn carry_out(tx: &mut Tx<'_>, id: &ItemId, next: Next, replied: Option<&ReceivedReply<'_>>) {
    match next {
        Next::AskModel { text } => {
            if let Some(replied) = replied {
                item_loop::store_reply(tx, id, replied, Vec::new());
            }
            if let Some(text) = text {
                tx.add_turn(id, TurnContent::Engine { text });
            }
            item_loop::next_iteration(tx, id);
        }
        Next::CallTools(calls) if calls.is_empty() => fail(tx, id, "the core asked for no call".into()),
        Next::CallTools(calls) => call_tools(tx, id, calls, replied),
        Next::Answer(text) if text.trim().is_empty() => fail(tx, id, "the core answered nothing".into()),
        Next::Answer(text) => {
            let shown = match replied {
                Some(replied) if replied.reply.text == text => replied.text.clone(),
                Some(_) | None => {
                    let payload = format!("answer-{}", tx.mint.hex());
                    tx.store(payload, Value::String(text.clone()))
                }
            };
            item::complete(tx, id, shown.clone(), &text, None);
            after_items::on_item_completed(tx, text, shown);
        }
        Next::Fail(why) => fail(tx, id, why),
    }
}

/// Calls of a reply belong to the reply's iteration. Other calls count as an iteration of their own, so that a core
/// cannot make calls for ever.
fn call_tools(tx: &mut Tx<'_>, id: &ItemId, calls: Vec<CallDraft>, replied: Option<&ReceivedReply<'_>>) {
    if replied.is_some() || item_loop::count_iteration(tx, id) {
        batch::open(tx, id, replied, calls);
    }
}

fn fail(tx: &mut Tx<'_>, id: &ItemId, why: String) {
    item::fail(tx, id, Code::TaskRefused.as_str(), why.clone());
    finish::fail(tx, Code::TaskRefused, why, Phase::Execution);
}
