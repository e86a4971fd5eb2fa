//! Renders a prompt from the state, when the effect is performed.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::domain::ids::{PayloadId, StreamId};
use crate::domain::model::{self, CallContext, ContextFit, ModelRequest};
use crate::domain::payload::{self, Payloads};
use crate::domain::plan::TodoItem;
use crate::domain::prompt::PromptMessage;
use crate::domain::run::Run;
use crate::domain::tokens;
use crate::domain::tool::{CallRecord, ToolResult, ToolSpec};
use crate::effect::Effect;
use crate::history::view;
use crate::pes::state::{Active, Item, ModelCall, RunPhase, Shape, State, TurnContent};
use crate::prompt::fit::{self, FittedHistory};
use crate::prompt::{self, Frame, StepResult, item_loop, offer, summarize};
use crate::{HistoryQuery, Prompt, PromptMaterial, PromptNeeds, SummaryExtent, World};

/// A running model call, and the run and item that it belongs to.
struct OpenModelCall<'a> {
    run: &'a Run,
    active: &'a Active,
    call: &'a ModelCall,
    item: Option<&'a Item>,
}

/// A prompt before the repair is added.
struct RenderedPrompt {
    phase: model::Phase,
    messages: Vec<PromptMessage>,
    tools: Vec<Arc<ToolSpec>>,
    schema: Option<Arc<Value>>,
}

fn open_call<'a>(state: &'a State, stream: &StreamId) -> Option<OpenModelCall<'a>> {
    let (run, active) = (state.run.as_ref()?, state.head.active.as_ref()?);
    if let Some(call) = active.model.as_ref().filter(|call| call.stream() == Some(stream)) {
        return Some(OpenModelCall { run, active, call, item: None });
    }
    let item = state.list.open().find(|item| model_of(item).is_some_and(|call| call.stream() == Some(stream)))?;
    Some(OpenModelCall { run, active, call: model_of(item)?, item: Some(item) })
}

fn model_of(item: &Item) -> Option<&ModelCall> {
    item.progress.work.as_ref()?.model.as_ref()
}

/// What must be read to render the prompt of this effect.
pub(crate) fn needs(state: &State, effect: &Effect) -> PromptNeeds {
    let Effect::CallModel { stream, .. } = effect else { return PromptNeeds::default() };
    let Some(open) = open_call(state, stream) else { return PromptNeeds::default() };
    let mut payloads = Vec::new();
    let mut add = |value: &Value| payload::references(value, &mut payloads);
    add(&state.head.plan);
    open.active.steers.iter().for_each(|steer| add(&steer.text));
    open.call.repair.iter().for_each(|repair| add(&repair.reply));
    match (open.item, state.phase()) {
        (Some(item), _) => {
            item.turns.iter().for_each(|turn| turn_needs(&turn.content, &mut add));
            item.calls.iter().filter_map(|id| state.calls.get(id)).for_each(|call| call_needs(&call.record, &mut add));
            results_need(state, open.run, Some(item), &mut add);
        }
        (None, RunPhase::Synthesizing) => results_need(state, open.run, None, &mut add),
        (None, RunPhase::Idle | RunPhase::Planning | RunPhase::Refining | RunPhase::Executing) => {}
    }
    let newest = open.run.settings.history_limit;
    let summary = state.head.summary.as_ref();
    let history = fit::shows_history(state, open.run, open.item.is_some()).then(|| {
        summary.iter().for_each(|summary| add(&summary.text));
        let since = summary.map(|summary| summary.upto.clone());
        HistoryQuery { newest, since, except: state.head.queue.clone() }
    });
    let mut seen = std::collections::BTreeSet::<PayloadId>::new();
    payloads.retain(|id| seen.insert(id.clone()));
    PromptNeeds { payloads, history }
}

fn turn_needs(content: &TurnContent, add: &mut impl FnMut(&Value)) {
    if let TurnContent::Model { text, replay, .. } = content {
        add(text);
        replay.iter().for_each(add);
    }
}

fn call_needs(record: &CallRecord, add: &mut impl FnMut(&Value)) {
    add(&record.arguments);
    record.modified_arguments.iter().for_each(&mut *add);
    if let Some(result) = &record.result {
        result.output.iter().for_each(&mut *add);
        result.metadata.iter().for_each(add);
    }
}

fn results_need(state: &State, run: &Run, of: Option<&Item>, add: &mut impl FnMut(&Value)) {
    for item in shown_items(state, run, of).0 {
        item.progress.result.iter().for_each(&mut *add);
        let calls = item.calls.iter().filter(|_| shows_calls(item, of));
        calls.filter_map(|id| state.calls.get(id)).for_each(|call| call_needs(&call.record, add));
    }
}

/// Renders the prompt of this effect; `None`: it is no model call, or its slot is not open any more.
pub(crate) fn request(state: &State, world: &World<'_>, effect: &Effect, material: &PromptMaterial) -> Option<Prompt> {
    let Effect::CallModel { stream, attempt } = effect else { return None };
    let open = open_call(state, stream).filter(|open| open.call.attempt == *attempt)?;
    let (rendered, fit) = match render_fitting(state, world, &open, material) {
        Ok(fitting) => fitting,
        Err(extent) => return Some(Prompt::Overflows(extent)),
    };
    let RenderedPrompt { phase, mut messages, tools, schema } = rendered;
    if let Some(repair) = &open.call.repair {
        let reply = text_of(&repair.reply, &material.payloads);
        messages = prompt::repair(messages, &prompt::RepairPrompt { reply: &reply, fault: &repair.fault });
    }
    let settings = &open.run.settings;
    let (provider, model) = settings.choice(open.call.choice)?;
    Some(Prompt::Call(Box::new(ModelRequest {
        provider: provider.to_owned(),
        model: model.to_owned(),
        phase: open.call.phase(phase),
        messages,
        tools,
        response_schema: schema,
        params: params(state, &open),
        trace_id: open.run.trace_id.clone(),
        trace: open.run.call_trace(open.call.stream().map(|stream| stream.as_str()).unwrap_or_default()),
        context: CallContext { fit, ..context(state, &open) },
    })))
}

/// The prompt, shortened until it fits or nothing more can be cut, and what was cut. `Err`: this part of the conversation
/// must be summed up first.
fn render_fitting(
    state: &State,
    world: &World<'_>,
    open: &OpenModelCall<'_>,
    material: &PromptMaterial,
) -> Result<(RenderedPrompt, Option<ContextFit>), SummaryExtent> {
    let settings = &open.run.settings;
    let frame = Frame { settings, seed: open.run.run_id.as_str() };
    let history = FittedHistory::whole(state, settings, material);
    if let Some(sums) = &open.call.sums {
        let (messages, fit) = summarize::request(world, settings, frame, open.call, sums, &history);
        let prompt = RenderedPrompt { phase: model::Phase::Planning, messages, tools: Vec::new(), schema: None };
        return Ok((prompt, Some(fit)));
    }
    let most = settings.history_limit as usize;
    let history = if open.call.may_leave_out { history.newest(most) } else { history };
    let offered = world.tools.offered(settings);
    let prompt = render(state, open, frame, &offered, &history);
    let size = tokens::of_prompt(&prompt.messages, &prompt.tools);
    let exceeded = fit::limit(world, settings, open.call, size).filter(|limit| size > *limit);
    if !open.call.may_leave_out {
        let overflow = exceeded.and_then(|limit| history.overflow(size, limit));
        if let Some(extent) = history.excess(most).into_iter().chain(overflow).max_by_key(|extent| extent.messages) {
            return Err(extent);
        }
    }
    let Some(limit) = exceeded else { return Ok((prompt, history.fit())) };
    let (shortened, fit) = shorten(state, open, history, size - limit);
    Ok((render(state, open, frame, &offered, &shortened), Some(fit)))
}

/// Leaves out messages and shortens results until the prompt has this many tokens less, as far as that is possible.
fn shorten<'a>(
    state: &State,
    open: &OpenModelCall<'_>,
    history: FittedHistory<'a>,
    tokens: u64,
) -> (FittedHistory<'a>, ContextFit) {
    let results =
        if fit::shows_results(state, open.item.is_some()) { results(state, open, &history).0 } else { Vec::new() };
    let longest = open.run.settings.execution.tool_result_max_length as usize;
    let most_of_tools = prompt::most_of_tools(&results, longest);
    let own = open.item.map(|item| item_loop::turns(state, item, history.payloads)).unwrap_or_default();
    let own = prompt::turns::results(&own, longest);
    history.less(tokens, &results, most_of_tools, &own)
}

fn render(
    state: &State,
    open: &OpenModelCall<'_>,
    frame: Frame<'_>,
    offered: &[Arc<ToolSpec>],
    fitted: &FittedHistory<'_>,
) -> RenderedPrompt {
    match (open.item, state.phase()) {
        (Some(item), _) => {
            let tools = offer::tools_of_step(state, item, offered.to_vec());
            let messages = step(state, open, frame, item, &tools, fitted);
            RenderedPrompt { phase: model::Phase::Execution, messages, tools, schema: None }
        }
        (None, RunPhase::Synthesizing) => {
            let messages = synthesis(state, open, frame, fitted);
            // Providers can enforce schemas of objects only.
            let schema = open.run.settings.answer_schema.as_ref().filter(|schema| schema["type"] == "object");
            let schema = schema.cloned().map(Arc::new);
            RenderedPrompt { phase: model::Phase::Synthesis, messages, tools: Vec::new(), schema }
        }
        (None, RunPhase::Idle | RunPhase::Planning | RunPhase::Refining | RunPhase::Executing) => {
            let messages = planning(state, open, frame, offered, fitted);
            let schema = Some(prompt::plan_schema(state.phase() == RunPhase::Refining));
            RenderedPrompt { phase: model::Phase::Planning, messages, tools: Vec::new(), schema }
        }
    }
}

/// A reply may not be longer than what was reserved for it.
fn params(state: &State, open: &OpenModelCall<'_>) -> Map<String, Value> {
    let OpenModelCall { run, call, .. } = open;
    let mut params = run.settings.llm_params.clone();
    if state.may_answer(call) {
        params.extend(run.settings.synthesis_params.clone());
    }
    if let Some(reserved) = &call.reserved {
        let own = params.get("maxTokens").and_then(Value::as_u64).unwrap_or(u64::MAX);
        params.insert("maxTokens".to_owned(), reserved.output.min(own).into());
    }
    params
}

fn context(state: &State, open: &OpenModelCall<'_>) -> CallContext {
    CallContext {
        thread_id: state.thread_id.to_string(),
        run_id: open.run.run_id.to_string(),
        message_id: open.run.message_id.to_string(),
        item_id: open.item.map(|item| item.def.id.to_string()),
        item_description: open.item.map(|item| item.def.description.clone()),
        iteration: open.call.iteration,
        attempt: open.call.attempt,
        query: open.run.query.to_string(),
        a2a_message_id: a2a_message_id(open.run),
        has_other: open.run.settings.choice(open.call.choice + 1).is_some(),
        fit: None,
    }
}

fn a2a_message_id(run: &Run) -> Option<String> {
    let id = run.metadata.as_ref()?.get("a2a")?.get("messageId")?;
    Some(id.as_str()?.to_owned())
}

fn planning(
    state: &State,
    open: &OpenModelCall<'_>,
    frame: Frame<'_>,
    tools: &[Arc<ToolSpec>],
    fitted: &FittedHistory<'_>,
) -> Vec<PromptMessage> {
    let query = query_of(open, fitted);
    let history = fitted.history();
    if state.phase() != RunPhase::Refining {
        return prompt::plan(&prompt::PlanPrompt { frame, query: &query, history, tools });
    }
    let items: Vec<TodoItem> = state.list.iter().map(view::todo_item).collect();
    let plan = text_of(&state.head.plan, fitted.payloads);
    prompt::refine(&prompt::RefinePrompt {
        frame,
        query: &query,
        history,
        tools,
        intent: &state.head.intent,
        plan: &plan,
        items: &items,
        notes: &[open.active.notes.clone(), outdated(state)].concat(),
    })
}

/// Items that are based on outdated results: a planner must know them, to have them done again too.
fn outdated(state: &State) -> Vec<String> {
    let outdated = state.list.iter().filter(|item| !item.progress.outdated.is_empty());
    let note = |item: &Item| {
        let needs: Vec<&str> = item.progress.outdated.iter().map(|id| id.as_str()).collect();
        format!("Item {} rests on an earlier result of {}, done again since.", item.def.id, needs.join(", "))
    };
    outdated.map(note).collect()
}

/// The run's query, followed by the steering messages that were shown to a planner.
fn query_of(open: &OpenModelCall<'_>, fitted: &FittedHistory<'_>) -> String {
    let mut query = open.run.query.to_string();
    for steer in open.active.steers.iter().filter(|steer| steer.shown) {
        query.push_str("\n\n");
        query.push_str(&text_of(&steer.text, fitted.payloads));
    }
    query
}

fn step(
    state: &State,
    open: &OpenModelCall<'_>,
    frame: Frame<'_>,
    item: &Item,
    tools: &[Arc<ToolSpec>],
    fitted: &FittedHistory<'_>,
) -> Vec<PromptMessage> {
    let (results, left_out) = results(state, open, fitted);
    let turns = item_loop::turns(state, item, fitted.payloads);
    let work = item.progress.work.as_ref();
    let execution = &open.run.settings.execution;
    let prompt = prompt::StepPrompt {
        frame,
        item: &view::todo_item(item),
        results: &results,
        left_out,
        tools,
        turns: &turns,
        most_of_own: fitted.most_of_own,
        notes: work.map(|work| work.notes.as_slice()).unwrap_or_default(),
        is_last: work.is_some_and(|work| open.call.iteration >= work.max_iterations(execution)),
    };
    match state.shape {
        Shape::Single => prompt::converse(&prompt, fitted.history()),
        Shape::Planned => prompt::step(&prompt),
    }
}

fn synthesis(
    state: &State,
    open: &OpenModelCall<'_>,
    frame: Frame<'_>,
    fitted: &FittedHistory<'_>,
) -> Vec<PromptMessage> {
    let plan = text_of(&state.head.plan, fitted.payloads);
    prompt::synthesis(&prompt::SynthesisPrompt {
        frame,
        query: &query_of(open, fitted),
        history: fitted.history(),
        intent: &state.head.intent,
        plan: &plan,
        results: &results(state, open, fitted).0,
    })
}

/// Whether a prompt shows the results of this item's tool calls: the synthesis does for every item, a step for its
/// dependencies.
fn shows_calls(item: &Item, of: Option<&Item>) -> bool {
    of.is_none_or(|of| of.def.dependencies.contains(&item.def.id))
}

/// The items whose results a prompt shows, in list order, and how many others are left out: a step shows only the last
/// of those that it does not depend on.
fn shown_items<'a>(state: &'a State, run: &Run, of: Option<&Item>) -> (Vec<&'a Item>, usize) {
    let mut shown: Vec<&Item> = state.list.iter().filter(|item| item.progress.status.is_settled()).collect();
    let most = prompt::most_others(run.settings.execution.tool_result_max_length as usize);
    let others = shown.iter().filter(|item| !shows_calls(item, of)).count();
    let left_out = others.saturating_sub(most);
    let mut too_many = left_out;
    shown.retain(|item| {
        let is_left_out = too_many > 0 && !shows_calls(item, of);
        too_many -= usize::from(is_left_out);
        !is_left_out
    });
    (shown, left_out)
}

/// The results of other items in a prompt, and how many are left out.
fn results(state: &State, open: &OpenModelCall<'_>, fitted: &FittedHistory<'_>) -> (Vec<StepResult>, usize) {
    let (payloads, of) = (fitted.payloads, open.item);
    let (shown, left_out) = shown_items(state, open.run, of);
    let results = shown
        .into_iter()
        .map(|item| StepResult {
            item_id: item.def.id.to_string(),
            description: item.def.description.clone(),
            status: item.progress.status,
            reason: item.progress.reason.clone(),
            result: item.progress.result.clone().map(|result| payload::inline(result, payloads)),
            tool_results: if shows_calls(item, of) {
                view::tool_results(state, item).into_iter().map(|r| inlined(r, payloads)).collect()
            } else {
                Vec::new()
            },
            is_dependency: of.is_some() && shows_calls(item, of),
            outdated: item.progress.outdated.iter().map(ToString::to_string).collect(),
        })
        .collect();
    (fit::cut(results, fitted.most), left_out)
}

pub(crate) fn inlined(result: ToolResult, payloads: &Payloads) -> ToolResult {
    ToolResult {
        output: result.output.map(|output| payload::inline(output, payloads)),
        metadata: result.metadata.map(|metadata| payload::inline(metadata, payloads)),
        // A proof of execution, of no use to models.
        executed: None,
        ..result
    }
}

pub(crate) fn text_of(value: &Value, payloads: &Payloads) -> String {
    match payload::inline(value.clone(), payloads) {
        Value::String(text) => text,
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    }
}
