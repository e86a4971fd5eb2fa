//! Makes prompts fit a model's context window. The oldest messages of the conversation are summed up first (`summary`);
//! messages that still do not fit are left out; then long results of other items are shortened, and last those of the
//! item's own calls.

use serde_json::Value;

use crate::domain::ids::{CallId, ItemId};
use crate::domain::message::ConversationMessage;
use crate::domain::model::ContextFit;
use crate::domain::payload::{self, Payloads};
use crate::domain::run::Run;
use crate::domain::settings::RunSettings;
use crate::domain::tokens;
use crate::domain::tool::{ToolError, ToolResult};
use crate::pes::state::{ModelCall, RunPhase, Shape, State};
use crate::prompt::{History, StepResult, as_text, level, shortened};
use crate::{PromptMaterial, SummaryExtent, World};

/// A result is never shortened below this, in characters.
const MIN_RESULT_CHARS: usize = 200;
/// The assumed bytes of text per token.
const BYTES_PER_TOKEN: usize = 3;
/// A longer summary is shortened, in characters.
const MAX_SUMMARY_CHARS: usize = 6_000;

/// The conversation and other items' results as a prompt shows them, cut so that the prompt fits.
#[derive(Clone)]
pub(crate) struct FittedHistory<'a> {
    pub payloads: &'a Payloads,
    /// The summary of older messages, and how many those are.
    summary: Option<(String, usize)>,
    pub messages: &'a [ConversationMessage],
    left_out: usize,
    /// Longer results of other items are shortened, in characters.
    pub most: usize,
    /// So are results of the item's own calls.
    pub most_of_own: usize,
}

impl<'a> FittedHistory<'a> {
    pub fn whole(state: &State, settings: &RunSettings, material: &'a PromptMaterial) -> Self {
        let payloads = &material.payloads;
        let summary = state.head.summary.as_ref().filter(|_| settings.history_limit > 0);
        let upto = summary.map(|summary| &summary.upto);
        let covered_upto = material.history.iter().rposition(|message| Some(&message.message_id) == upto);
        let summary = summary.map(|summary| {
            let whole = payload::inline(summary.text.clone(), payloads);
            (shortened(&as_text(&whole), MAX_SUMMARY_CHARS, ""), summary.messages)
        });
        let messages = &material.history[covered_upto.map_or(0, |at| at + 1)..];
        Self { payloads, summary, messages, left_out: 0, most: usize::MAX, most_of_own: usize::MAX }
    }

    /// The same with the newest `most` messages.
    pub fn newest(self, most: usize) -> Self {
        let gone = self.messages.len().saturating_sub(most);
        Self { messages: &self.messages[gone..], left_out: self.left_out + gone, ..self }
    }

    pub fn summary(&self) -> Option<&str> {
        self.summary.as_ref().map(|(text, _)| text.as_str())
    }

    pub fn history(&self) -> History<'_> {
        History { summary: self.summary(), messages: self.messages }
    }

    /// What the prompt does not show whole; `None` without a summary.
    pub fn fit(&self) -> Option<ContextFit> {
        let summarised = self.summary.as_ref()?.1;
        Some(ContextFit { kept: self.messages.len(), summarised, left_out: self.left_out, shortened: 0 })
    }

    /// What must be summed up because more messages came since the summary than prompts show in their own words. Half
    /// of `most` messages are left, so that there is room for the next ones.
    pub fn excess(&self, most: usize) -> Option<SummaryExtent> {
        let is_over = self.summary.is_some() && self.messages.len() > most;
        is_over.then(|| self.extent(most.div_ceil(2))).flatten()
    }

    /// What must be summed up so that a prompt of this size fits the limit; `None`: no message has to go. Messages that
    /// fill half of the room are left, so that there is room for the next ones.
    pub fn overflow(&self, size: u64, limit: u64) -> Option<SummaryExtent> {
        let message_tokens: u64 = self.messages.iter().map(|message| tokens::of_text(&message.content)).sum();
        let mut room = limit.saturating_sub(size.saturating_sub(message_tokens)) / 2;
        let is_kept = |message: &&ConversationMessage| match room.checked_sub(tokens::of_text(&message.content)) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        self.extent(self.messages.iter().rev().take_while(is_kept).count())
    }

    /// All messages but the newest `kept` ones.
    fn extent(&self, kept: usize) -> Option<SummaryExtent> {
        let gone = &self.messages[..self.messages.len() - kept];
        let bytes = gone.iter().map(|message| message.content.len() as u64).sum();
        Some(SummaryExtent { upto: gone.last()?.message_id.clone(), messages: gone.len(), bytes })
    }

    /// The same, shortened by `over` tokens if that much can be left out. Tool outputs of other items are shown with
    /// `most_of_tools` characters each; `own` are the results of the item's own calls.
    pub fn less(
        self,
        mut over: u64,
        results: &[StepResult],
        most_of_tools: usize,
        own: &[String],
    ) -> (Self, ContextFit) {
        let left_out = self.messages.iter().take_while(|message| {
            let is_over = over > 0;
            over = over.saturating_sub(tokens::of_text(&message.content));
            is_over
        });
        let fitted = self.clone().newest(self.messages.len() - left_out.count());
        let sizes: Vec<usize> = results.iter().flat_map(|result| sizes(result, most_of_tools)).collect();
        let over = (over as usize).saturating_mul(BYTES_PER_TOKEN);
        let room = sizes.iter().sum::<usize>().saturating_sub(over);
        let most = match over {
            0 => usize::MAX,
            _ => level(sizes.clone(), room).max(MIN_RESULT_CHARS),
        };
        let gone: usize = sizes.iter().map(|size| size.saturating_sub(most)).sum();
        let most_of_own = most_of_own(own, over.saturating_sub(gone));
        let is_shortened = own.iter().filter(|text| text.chars().count() > most_of_own);
        let shortened = sizes.iter().filter(|size| **size > most).count() + is_shortened.count();
        let summarised = self.summary.as_ref().map_or(0, |(_, messages)| *messages);
        let fit = ContextFit { kept: fitted.messages.len(), summarised, left_out: fitted.left_out, shortened };
        (Self { most, most_of_own, ..fitted }, fit)
    }
}

/// Whether the prompt of a call shows messages before its run's own, or a summary of them. `is_step`: it is that of an
/// item's step.
pub(crate) fn shows_history(state: &State, run: &Run, is_step: bool) -> bool {
    let is_conversation = !is_step || state.shape == Shape::Single;
    // Otherwise the run's own query is the whole conversation.
    let has_history = state.head.summary.is_some() || state.head.history_bytes > run.query.len() as u64;
    is_conversation && has_history && run.settings.history_limit > 0
}

/// Whether a shorter prompt of this call would leave anything out. `item`: whose step it is.
pub(crate) fn can_be_shorter(state: &State, call: &ModelCall, item: Option<&ItemId>) -> bool {
    let Some(run) = &state.run else { return false };
    let summarised = state.head.summary.as_ref().map_or(0, |summary| summary.bytes);
    let has_messages = state.head.history_bytes > summarised + run.query.len() as u64;
    // A call that sums up messages is shown shorter ones.
    call.sums.is_some()
        || (has_messages && shows_history(state, run, item.is_some()))
        || (shows_results(state, item.is_some()) && has_long_result(state))
}

/// Whether the prompt of a call shows the results of items: a planner is shown none.
pub(crate) fn shows_results(state: &State, is_step: bool) -> bool {
    is_step || state.phase() == RunPhase::Synthesizing
}

fn has_long_result(state: &State) -> bool {
    let is_long = |value: &Value| payload::reference(value).is_some() || as_text(value).len() > MIN_RESULT_CHARS;
    let is_long_error = |error: &ToolError| error.message.len() > MIN_RESULT_CHARS;
    let is_long_result = |id: &CallId| {
        let result = state.calls.get(id).and_then(|call| call.record.result.as_ref());
        result.is_some_and(|it| it.output.iter().any(is_long) || it.error.iter().any(is_long_error))
    };
    state.list.iter().any(|item| item.progress.result.iter().any(is_long) || item.calls.iter().any(is_long_result))
}

/// The most characters of one of these texts, if they must have this many bytes less.
fn most_of_own(own: &[String], over: usize) -> usize {
    if over == 0 {
        return usize::MAX;
    }
    let sizes: Vec<usize> = own.iter().map(|text| text.chars().count()).collect();
    let (chars, bytes) = (sizes.iter().sum::<usize>(), own.iter().map(String::len).sum::<usize>());
    // A character of many scripts has several bytes.
    let gone = over.saturating_mul(chars).div_ceil(bytes.max(1));
    level(sizes, chars.saturating_sub(gone)).max(MIN_RESULT_CHARS)
}

/// The length of each text, in characters, if `texts` of them share this many tokens.
pub(crate) fn share(tokens: u64, texts: usize) -> usize {
    tokens as usize * BYTES_PER_TOKEN / texts.max(1)
}

/// How many tokens the prompt of this call may have: three quarters of the model's context window, and half of that
/// after a prompt that was too long. `None`: the window is not known.
pub(crate) fn limit(world: &World<'_>, settings: &RunSettings, call: &ModelCall, size: u64) -> Option<u64> {
    let (provider, model) = settings.choice(call.choice)?;
    let window = world.models.window(provider, model);
    if call.must_shorten {
        Some(window.map_or(size, |window| size.min(window / 4 * 3)) / 2)
    } else {
        window.map(|window| window / 4 * 3)
    }
}

/// Shortens the results that are longer than `most`.
pub(crate) fn cut(results: Vec<StepResult>, most: usize) -> Vec<StepResult> {
    let cut = |value: Value| {
        let whole = as_text(&value);
        if whole.len() <= most { value } else { Value::String(shortened(&whole, most, "")) }
    };
    let cut_tool = |tool: ToolResult| ToolResult { output: tool.output.map(cut), ..tool };
    let cut_result = |result: StepResult| StepResult {
        result: result.result.map(cut),
        tool_results: result.tool_results.into_iter().map(cut_tool).collect(),
        ..result
    };
    match most {
        usize::MAX => results,
        _ => results.into_iter().map(cut_result).collect(),
    }
}

/// The sizes of a result's values in a prompt, in bytes.
fn sizes(result: &StepResult, most_of_tools: usize) -> impl Iterator<Item = usize> {
    let of_tools = result.tool_results.iter().filter_map(|tool| tool.output.as_ref());
    let of_tools = of_tools.map(move |output| as_text(output).len().min(most_of_tools));
    result.result.iter().map(|value| as_text(value).len()).chain(of_tools)
}
