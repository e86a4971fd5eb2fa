//! The calls that a thread made after a place in its log and that may have had an effect: a thread that goes back there, or a
//! copy of it, asks before it makes them again.

use std::collections::{HashMap, HashSet};

use super::{Result, Service};
use crate::domain::facts::Fact;
use crate::domain::ids::{CallId, ThreadPk};
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::plan::TodoItem;
use crate::domain::settings::RunSettings;
use crate::domain::tool::{CallRecord, ToolCall, ToolClass, ToolResult};
use crate::engine::Toolbox;
use crate::engine::history::later_calls::{
    MAX_LATER_CALLS, forgotten_calls, is_short_digest, known_calls, may_take_effect, may_take_effect_by_log,
    short_digest, short_digest_of,
};
use crate::engine::history::{ShownPlan, WentBack};
use crate::engine::step::RowKind;
use crate::runtime::rows::legible;
use crate::service::pages::Observations;
use crate::store::{ObservationAsk, ThreadRow};

/// Observations that are read at once.
const CHUNK: u32 = 500;

/// Calls that are read at once.
const CALLS_AT_ONCE: usize = 64;

/// The place to which the thread had gone back as of `at`, unless a run had completed since: what was called after it counts
/// as called later.
pub(super) async fn place_gone_back_to(service: &Service, row: &ThreadRow, at: i64) -> Result<Option<i64>> {
    let types = WentBack::TYPES.to_vec();
    let ask = ObservationAsk { after: 0, until: Some(at), limit: CHUNK, types };
    let (mut log, mut went_back) = (Observations::from(&*service.reads, row.pk, ask), WentBack::default());
    while let Some(recorded) = log.next().await? {
        if let Ok(fact) = recorded.fact() {
            went_back.apply(recorded.seq, &fact);
        }
    }
    Ok(went_back.place())
}

/// The digests of the first such calls after `seq`. `plan` is the plan as of that place: its calls are known to whoever
/// continues from there, unless the run had no plan.
pub(super) async fn after(service: &Service, row: &ThreadRow, seq: i64, plan: &ShownPlan) -> Result<Vec<String>> {
    let mut wanted = forgotten_calls(plan);
    let mut seen: HashSet<CallId> = known_calls(plan).into_iter().chain(wanted.iter().cloned()).collect();
    // A plan that was copied from another thread has calls of that one, of which this log says nothing else.
    let types = vec![ObservationType::ToolCall, ObservationType::Plan];
    let mut log = log_after(service, row.pk, seq, types);
    let (mut digests, mut unstored) = (Vec::new(), Vec::new());
    loop {
        while wanted.len() < CALLS_AT_ONCE
            && let Some(recorded) = log.next().await?
        {
            wanted.extend(calls_in(&recorded).into_iter().filter(|id| seen.insert(id.clone())));
        }
        let rest = wanted.split_off(wanted.len().min(CALLS_AT_ONCE));
        unstored.extend(add_digests(service, row.pk, &wanted, &mut digests).await?);
        if wanted.len() < CALLS_AT_ONCE || digests.len() == MAX_LATER_CALLS {
            break;
        }
        wanted = rest;
    }
    if !unstored.is_empty() && digests.len() < MAX_LATER_CALLS {
        add_digests_by_log(service, row, seq, plan, unstored, &mut digests).await?;
    }
    Ok(digests)
}

fn log_after(service: &Service, pk: ThreadPk, seq: i64, types: Vec<ObservationType>) -> Observations<'_> {
    Observations::from(&*service.reads, pk, ObservationAsk { after: seq, limit: CHUNK, types, ..Default::default() })
}

/// Adds the digests of those of these calls that may have had an effect. Returns those that have no record.
async fn add_digests(
    service: &Service,
    pk: ThreadPk,
    calls: &[CallId],
    digests: &mut Vec<String>,
) -> Result<Vec<CallId>> {
    let wanted: Vec<_> = calls.iter().map(|id| (pk, RowKind::Call, id.to_string())).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = service.reads.rows_by_id(&wanted).await?;
    rows.sort_by_key(|(_, row)| row.ord);
    let stored: HashSet<&str> = rows.iter().map(|(_, row)| row.id.as_str()).collect();
    let unstored = calls.iter().filter(|id| !stored.contains(id.as_str())).cloned().collect();
    for (_, row) in &rows {
        let Some(call) = legible::<CallRecord>(row).filter(may_take_effect) else { continue };
        let arguments = service.with_payloads(pk, call.modified_arguments.unwrap_or(call.arguments)).await?;
        add(digests, short_digest(&call.tool_name, &arguments));
    }
    Ok(unstored)
}

fn add(digests: &mut Vec<String>, digest: String) {
    if digests.len() < MAX_LATER_CALLS && !digests.contains(&digest) {
        digests.push(digest);
    }
}

/// What the log tells of each of these calls.
type LoggedCalls = HashMap<CallId, Option<LoggedCall>>;

/// A call as the log tells of it.
struct LoggedCall {
    call: ToolCall,
    result: Option<ToolResult>,
}

/// Adds the digests of those of these calls that may have had an effect by what the log tells: the calls of an imported
/// thread have no records.
async fn add_digests_by_log(
    service: &Service,
    row: &ThreadRow,
    seq: i64,
    plan: &ShownPlan,
    unstored: Vec<CallId>,
    digests: &mut Vec<String>,
) -> Result<()> {
    let mut calls: LoggedCalls = unstored.iter().map(|id| (id.clone(), None)).collect();
    plan.todo_list.iter().for_each(|item| tell_of_item(&mut calls, item));
    let types = vec![ObservationType::ToolCall, ObservationType::ToolExecution, ObservationType::Plan];
    let mut log = log_after(service, row.pk, seq, types);
    while let Some(recorded) = log.next().await? {
        tell(&mut calls, &recorded);
    }
    let tools = service.tools.toolset(row.tenant).await;
    for LoggedCall { call, result } in unstored.iter().filter_map(|id| calls.remove(id)?) {
        let spec = tools.declared(&RunSettings::default(), &call.tool_name);
        if spec.is_some_and(|spec| spec.class == ToolClass::Read) || !may_take_effect_by_log(result.as_ref()) {
            continue;
        }
        // A file that is imported may say anything of what was executed.
        let executed = result.and_then(|result| result.executed).map(|executed| short_digest_of(&executed));
        let digest = match executed.filter(|digest| is_short_digest(digest)) {
            Some(digest) => digest,
            None => short_digest(&call.tool_name, &service.with_payloads(row.pk, call.arguments).await?),
        };
        add(digests, digest);
    }
    Ok(())
}

/// Keeps what an observation tells of these calls.
fn tell(calls: &mut LoggedCalls, recorded: &Observation) {
    let fact = recorded.fact();
    if let Ok(Fact::ToolCall(body)) = fact {
        body.tool_calls.into_iter().for_each(|call| tell_of_call(calls, call));
    } else if let Ok(Fact::ToolExecution(result)) = fact {
        tell_of_result(calls, result);
    } else if let Ok(Fact::Plan(body)) = fact {
        body.todo_list.iter().flatten().for_each(|item| tell_of_item(calls, item));
    }
}

fn tell_of_item(calls: &mut LoggedCalls, item: &TodoItem) {
    item.tool_calls.iter().chain(&item.actual_tool_calls).for_each(|call| tell_of_call(calls, call.clone()));
    item.tool_results.iter().for_each(|result| tell_of_result(calls, result.clone()));
}

fn tell_of_call(calls: &mut LoggedCalls, call: ToolCall) {
    if let Some(told) = calls.get_mut(&call.call_id) {
        let result = told.take().and_then(|before| before.result);
        *told = Some(LoggedCall { call, result });
    }
}

fn tell_of_result(calls: &mut LoggedCalls, result: ToolResult) {
    if let Some(Some(told)) = calls.get_mut(&result.call_id) {
        told.result = Some(ToolResult { output: None, ..result });
    }
}

/// The calls that an observation names: those of a reply, or those of the items of a whole list.
fn calls_in(recorded: &Observation) -> Vec<CallId> {
    let fact = recorded.fact();
    let calls = if let Ok(Fact::ToolCall(body)) = fact {
        body.tool_calls
    } else if let Ok(Fact::Plan(body)) = fact {
        body.todo_list.into_iter().flatten().flat_map(|item| item.tool_calls).collect()
    } else {
        // It cannot be read.
        Vec::new()
    };
    calls.into_iter().map(|call| call.call_id).collect()
}
