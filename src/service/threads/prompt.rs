//! The prompt of a past model call, rendered again from the log and the rows.

use serde::Serialize;

use super::row;
use crate::domain::caller::Caller;
use crate::domain::facts::{Fact, LlmStreamMetadataBody, LlmStreamStartBody, RecordedMessage};
use crate::domain::fault::Fault;
use crate::domain::ids::{ItemId, MessageId, RunId, StreamId, ThreadId};
use crate::domain::model::Phase;
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::prompt::digest;
use crate::domain::run::Run;
use crate::engine::PastCall;
use crate::engine::history::ShownPlan;
use crate::engine::step::{Row, RowKind};
use crate::engine::{PromptPart, prompt_parts};
use crate::runtime::rows::read;
use crate::service::pages::{Entries, Observations};
use crate::service::{Result, Service, feed, fork};
use crate::store::{ObservationAsk, Order, PageAsk, ThreadRow};

/// What a model call saw.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallPrompt {
    pub stream_id: StreamId,
    /// Of its `LLM_STREAM_START`.
    pub seq: i64,
    pub run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    pub phase: Phase,
    pub provider: String,
    pub model: String,
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// Whether this is what was sent, to the byte, by the digest in its `LLM_STREAM_METADATA`; absent as long as there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<bool>,
    /// How many tokens the model reads and writes in one call; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// As the provider counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Among them, those that it had read before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// The names of the tools that it could call; a planner is only told of them.
    pub tools: Vec<String>,
    /// In the order of the prompt.
    pub parts: Vec<PromptPart>,
}

/// Observations and rows that are read at once.
const CHUNK: u32 = 500;

/// The prompt of one attempt at a model call.
pub async fn prompt(service: &Service, caller: &Caller, id: &ThreadId, stream: &StreamId) -> Result<CallPrompt> {
    let row = row(service, caller, id).await?;
    let begun = begun(service, &row, stream).await?.ok_or_else(|| Fault::not_found("stream"))?;
    let run = service.reads.row(row.pk, RowKind::Run, begun.run.as_str()).await?.ok_or_else(gone)?;
    let context = run_context(service, &row, &begun, &read(&run)?).await?;
    let figures = context.figures.clone();
    let call = past_call(service, &row, &begun, run, context).await?;
    let settings = call.run.settings.clone();
    let found = service.runtime.past_prompt(&row, call).await?.ok_or_else(gone)?;
    let LlmStreamStartBody { stream_id, phase, provider, model, attempt, iteration, .. } = begun.body;
    let sent = figures.as_ref().and_then(|figures| figures.prompt_digest.as_ref());
    Ok(CallPrompt {
        stream_id,
        seq: begun.seq,
        run_id: begun.run,
        item_id: begun.item,
        phase,
        provider,
        model,
        attempt,
        iteration,
        exact: sent.map(|sent| *sent == digest(&found.request.messages)),
        window: found.window,
        input_tokens: figures.as_ref().map(|figures| figures.input_tokens),
        cached: figures.map(|figures| figures.cached_input_tokens),
        tools: found.request.tools.iter().map(|tool| tool.name.clone()).collect(),
        parts: prompt_parts(&found.request, &settings),
    })
}

fn gone() -> Fault {
    let mut fault = Fault::not_found("prompt");
    fault.detail = "What this prompt was made of is no longer stored, or its agent core shows no prompts.".to_owned();
    fault
}

/// The start of the call, from its `LLM_STREAM_START`.
struct CallStart {
    seq: i64,
    run: RunId,
    item: Option<ItemId>,
    body: LlmStreamStartBody,
}

async fn begun(service: &Service, row: &ThreadRow, stream: &StreamId) -> Result<Option<CallStart>> {
    let types = vec![ObservationType::LlmStreamStart];
    let ask = ObservationAsk { after: row.min_seq - 1, limit: CHUNK, types, ..ObservationAsk::default() };
    let mut log = Observations::from(&*service.reads, row.pk, ask);
    while let Some(observation) = log.next().await? {
        if observation.content["streamId"] == stream.as_str()
            && let Ok(Fact::LlmStreamStart(body)) = observation.fact()
        {
            let Observation { seq, run_id: run, parent_id: item, .. } = observation;
            return Ok(Some(CallStart { seq, run, item, body }));
        }
    }
    Ok(None)
}

/// What the log records of the run around the call.
#[derive(Default)]
struct RunContext {
    steers: Vec<RecordedMessage>,
    replies: Vec<serde_json::Value>,
    sums_upto: Option<MessageId>,
    figures: Option<LlmStreamMetadataBody>,
}

/// Reads the run's log from its beginning to the call's usage figures.
async fn run_context(service: &Service, row: &ThreadRow, begun: &CallStart, run: &Run) -> Result<RunContext> {
    let types = vec![
        ObservationType::LlmStreamEnd,
        ObservationType::LlmStreamError,
        ObservationType::LlmStreamMetadata,
        ObservationType::StateUpdate,
    ];
    let after = service.reads.run_began(row.pk, &begun.run).await?.unwrap_or(row.min_seq) - 1;
    let ask = ObservationAsk { after, limit: CHUNK, types, ..ObservationAsk::default() };
    let mut log = Observations::from(&*service.reads, row.pk, ask);
    let mut context = RunContext::default();
    while let Some(observation) = log.next().await? {
        if observation.run_id == begun.run && context.add(&observation, begun, run) {
            break;
        }
    }
    Ok(context)
}

impl RunContext {
    /// Takes what the call needs from an observation. Returns `true` once nothing more is needed.
    fn add(&mut self, observation: &Observation, begun: &CallStart, run: &Run) -> bool {
        let stream = &begun.body.stream_id;
        let is_before = observation.seq < begun.seq;
        let Ok(fact) = observation.fact() else { return false };
        if let Fact::LlmStreamEnd(end) = &fact {
            if is_before && observation.parent_id == begun.item {
                self.replies.push(end.text.clone());
            }
            // The result of a summary is recorded after its reply.
            return end.stream_id == *stream && begun.body.purpose.is_none();
        }
        if let Fact::LlmStreamError(error) = &fact {
            return error.stream_id == *stream;
        }
        if let Fact::LlmStreamMetadata(figures) = fact {
            if figures.stream_id == *stream {
                self.figures = Some(figures);
            }
        } else if let Fact::StateUpdate(update) = fact
            && !update.is_queued()
        {
            if is_before {
                let is_steer = |message: &RecordedMessage| message.message_id != run.message_id;
                self.steers.extend(update.message.filter(is_steer));
            } else if begun.body.purpose.is_some() {
                self.sums_upto = update.summary.map(|summary| summary.upto);
                return self.sums_upto.is_some();
            }
        }
        false
    }
}

async fn past_call(
    service: &Service,
    row: &ThreadRow,
    begun: &CallStart,
    run: Row,
    context: RunContext,
) -> Result<PastCall> {
    let fold = feed::fold_to(service, row.pk, fork::within(row, begun.seq - 1, "/streamId")?).await?;
    let plan = fork::plan_of(&fold.view())?;
    let mut rows = calls(service, row, &plan).await?;
    if begun.item.is_some() {
        rows.extend(turns(service, row, run.ord).await?);
    }
    Ok(PastCall {
        thread_id: row.thread_id.clone(),
        run: read(&run)?,
        item: begun.item.clone(),
        begun: begun.body.clone(),
        plan,
        summary: fold.summary().cloned(),
        sums_upto: context.sums_upto,
        steers: context.steers,
        replies: context.replies,
        rows,
        is_cut: false,
    })
}

/// The rows of the calls that the plan names.
async fn calls(service: &Service, row: &ThreadRow, plan: &ShownPlan) -> Result<Vec<Row>> {
    let named = plan.todo_list.iter().flat_map(|item| &item.tool_calls);
    let wanted: Vec<_> = named.map(|call| (row.pk, RowKind::Call, call.call_id.to_string())).collect();
    let mut rows = Vec::with_capacity(wanted.len());
    for wanted in wanted.chunks(CHUNK as usize) {
        rows.extend(service.reads.rows_by_id(wanted).await?.into_iter().map(|(_, row)| row));
    }
    Ok(rows)
}

/// The turns of all items with a number above `since`.
async fn turns(service: &Service, row: &ThreadRow, since: i64) -> Result<Vec<Row>> {
    let turns = Entries::from(PageAsk::beyond(since, CHUNK), |page| async move {
        service.reads.rows(row.pk, RowKind::Turn, Order::Ascending, &page).await
    });
    Ok(turns.all().await?)
}
