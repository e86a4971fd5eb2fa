//! Turns a query into a run. One decision of the thread's actor accepts it. The response is sent once that is durable.

use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::{ProcessAsk, Receipt, rewind};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::lookup::RunLookups;
use crate::domain::message::HistoryMessage;
use crate::domain::run::{Ask, OnBusy};
use crate::domain::settings::{RunSettings, ThreadConfig};
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::domain::trace::{TraceOrigin, is_trace_id};
use crate::engine::event::Event;
use crate::failpoint;
use crate::runtime::{CommandError, CommitExtras, DecisionResult, IdempotencyRowFn};
use crate::service::a2a::pushes;
use crate::service::feed::EarlySubscription;
use crate::service::once::{self, Answered, Idempotent, StoredResponse};
use crate::service::spending::Payer;
use crate::service::{Result, Service, admission, settings, threads};
use crate::store::ThreadRow;

/// The thread's id is resolved again if the thread was created or deleted meanwhile.
const MAX_TRIES: usize = 8;

/// Accepts a query; an unknown thread is created by the same commit.
pub async fn process(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    ask: ProcessAsk,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    Ok(start(service, caller, id, ask, key, Subscription::None).await?.map(|started| started.receipt))
}

/// Like [`process`]. Also returns a subscription to everything that follows, from before the query was accepted; `None` with a
/// replayed response.
pub async fn process_subscribed(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    ask: ProcessAsk,
    key: Option<Idempotent>,
) -> Result<(Answered<Receipt>, Option<EarlySubscription>)> {
    Ok(match start(service, caller, id, ask, key, Subscription::FromBefore).await? {
        Answered::Fresh(Started { receipt, early }) => (Answered::Fresh(receipt), early),
        Answered::Replayed(stored) => (Answered::Replayed(stored), None),
    })
}

/// Whether the caller subscribes to what follows.
#[derive(Clone, Copy)]
enum Subscription {
    None,
    /// From before the query is accepted, so that nothing is missed.
    FromBefore,
}

/// A query that was accepted.
struct Started {
    receipt: Receipt,
    /// If the caller subscribes.
    early: Option<EarlySubscription>,
}

async fn start(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    ask: ProcessAsk,
    key: Option<Idempotent>,
    subscription: Subscription,
) -> Result<Answered<Started>> {
    service.runtime.accepting()?;
    if ask.continue_at.is_some() && ask.on_busy == OnBusy::Interrupt {
        // The active run is cancelled before the query is accepted. If a client that disconnects in between ended this
        // future, the run would be cancelled and the query not accepted. So it runs in a task of its own.
        let (service, caller, id) = (service.clone(), caller.clone(), id.clone());
        let accepted = tokio::spawn(async move { accept_once(&service, &caller, &id, ask, key, subscription).await });
        accepted.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    } else {
        accept_once(service, caller, id, ask, key, subscription).await
    }
}

async fn accept_once(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    ask: ProcessAsk,
    key: Option<Idempotent>,
    subscription: Subscription,
) -> Result<Answered<Started>> {
    // Boxed, because each of the futures that await it would contain it.
    let accepted = accept_run(service, caller, id, ask, key.as_ref(), subscription).boxed();
    once::perform(service, caller, key.as_ref(), accepted).await
}

async fn accept_run(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    mut ask: ProcessAsk,
    key: Option<&Idempotent>,
    subscription: Subscription,
) -> Result<Started, CommandError> {
    service.tools.toolset(caller.tenant).await.check_client_tools(&ask.options.client_tools)?;
    check_history(&ask.history, service.config.limits.history_messages)?;
    let mut mint = service.mint();
    let (run, message) = (mint.run(), mint.message());
    let (trace_id, trace) = traced(&ask, || mint.hex());
    let trace = service.runtime.with_sampled_flag(&trace_id, trace);
    let pushes = match &ask.push {
        Some(receiver) => vec![pushes::receiver(service, caller, &run, &receiver.config, receiver.version)?],
        None => Vec::new(),
    };
    let mut refusal = CommandError::Gone;
    // Shared by all tries; `ask` has no text from here on.
    let query: Arc<str> = mem::take(&mut ask.query).into();
    for _ in 0..MAX_TRIES {
        let (row, no_config) = (find_thread(service, caller, id).await?, ThreadConfig::default());
        let (pk, core, config) = match &row {
            Some(row) => (row.pk, &row.core, &row.profile.config),
            None => (service.runtime.new_pk(), &service.config.agent.core, &no_config),
        };
        let settings = settings::of_run(service, caller, core, config, &ask.options)?;
        let writers = match &row {
            Some(row) => threads::prompt_writers(service, row).await?,
            None => Vec::new(),
        };
        // A schedule's run counts against the caps of the key that wrote the schedule last, which is the first in `shaped_by`.
        let payer = Payer { tenant: caller.tenant, key: ask.shaped_by.first().unwrap_or(&caller.name) };
        let _place = admission::check(service, payer, &settings, &query, ask.fire.is_some()).await?;
        let rewind = rewind::of(service, caller, id, row.as_ref(), &ask, key).await?;
        let has_rewind = rewind.is_some();
        // Subscribed after the rewind, so that the caller does not receive the end of the run that was cancelled for it.
        let early = match (subscription, &row) {
            (Subscription::FromBefore, Some(_)) => Some(EarlySubscription::of(service, pk).await?),
            (Subscription::FromBefore, None) => Some(EarlySubscription::of_new(&service.hub, pk)),
            (Subscription::None, _) => None,
        };
        let asked = ask_of(&ask, query.clone(), trace_id.clone(), trace.clone(), caller, writers, settings);
        let event = Event::Asked { run: run.clone(), message: message.clone(), ask: Box::new(asked), rewind };
        let new = row.is_none().then(|| threads::new_thread(service, caller, id.clone(), core.clone()));
        let extras = CommitExtras {
            create: new.map(|new| (new, ThreadProfile::default())),
            idempotency: stored_receipt(caller, key, id, Some(&run)),
            lookups: Some(RunLookups { run: run.clone(), keys: ask.lookups.clone() }),
            pushes: pushes.clone(),
            fire: ask.fire.clone(),
            ..CommitExtras::default()
        };
        match service.runtime.decide(pk, event, extras).await {
            Err(CommandError::Exists | CommandError::Gone) => {}
            // The thread has changed since it was read.
            Err(CommandError::Fault(fault)) if has_rewind && fault.code == Code::ThreadBusy => refusal = fault.into(),
            Err(refusal) => return Err(refusal),
            Ok(decided) => {
                failpoint::reached("process.acked");
                return Ok(Started { receipt: receipt(id, Some(&run), &decided).ok_or_else(no_run)?, early });
            }
        }
    }
    Err(refusal)
}

/// The query as the engine gets it. `writers` wrote the instructions of its thread.
fn ask_of(
    ask: &ProcessAsk,
    query: Arc<str>,
    trace_id: String,
    trace: TraceOrigin,
    caller: &Caller,
    writers: Vec<String>,
    settings: RunSettings,
) -> Ask {
    Ask {
        query,
        metadata: ask.metadata.clone(),
        user_id: ask.user_id.clone(),
        session_id: ask.session_id.clone(),
        trace_id,
        trace,
        on_busy: ask.on_busy,
        requested_by: caller.name.clone(),
        shaped_by: ask.shaped_by.iter().cloned().chain(writers).collect(),
        history: ask.history.clone(),
        settings,
    }
}

/// Checks the number of messages, and that none is empty: providers refuse empty messages.
fn check_history(history: &[HistoryMessage], most: usize) -> Result<()> {
    if history.len() > most {
        return Err(Fault::invalid("/history", format!("has at most {most} messages")));
    }
    match history.iter().position(|message| message.content.trim().is_empty()) {
        Some(at) => Err(Fault::invalid(&format!("/history/{at}/content"), "must say something")),
        None => Ok(()),
    }
}

/// The thread to which a query goes. `None`: it does not exist yet.
async fn find_thread(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Option<ThreadRow>> {
    let row = service.store.thread(caller.tenant, id).await?;
    match &row {
        // Nothing more of it is read, because reading it may be what crashes the process.
        Some(row) if row.status == ThreadStatus::Quarantined => return Err(Fault::quarantined()),
        Some(_) => {}
        None => threads::check_id(service, id)?,
    }
    Ok(row)
}

/// The receipt of this run, or of the active one.
pub(super) fn receipt(id: &ThreadId, run: Option<&RunId>, decided: &DecisionResult) -> Option<Receipt> {
    let run = match run {
        Some(asked) => decided.run_of(asked),
        None => decided.current.as_ref().or(decided.runs.first()),
    }?;
    Some(Receipt {
        run_id: run.run_id.clone(),
        thread_id: id.clone(),
        status: run.status,
        events_url: format!("/threads/{id}/events"),
        run_url: format!("/runs/{}", run.run_id),
        suspensions: Vec::new(),
    })
}

/// Builds the response that is stored under the idempotency key: the receipt, with status 202.
pub(super) fn stored_receipt(
    caller: &Caller,
    key: Option<&Idempotent>,
    id: &ThreadId,
    run: Option<&RunId>,
) -> Option<IdempotencyRowFn> {
    let (key, tenant, id, run) = (key?.clone(), caller.tenant, id.clone(), run.cloned());
    Some(Box::new(move |decided, now| {
        let receipt = receipt(&id, run.as_ref(), decided);
        let location = receipt.as_ref().map(|receipt| receipt.run_url.clone());
        let body = serde_json::to_string(&receipt).expect("a receipt is plain data");
        key.row(tenant, now, StoredResponse { status: 202, body, location })
    }))
}

pub(super) fn no_run() -> Fault {
    Fault::new(Code::RunFinished, "There is no active run on this thread.")
}

/// The run's trace. If the client's trace id is a W3C trace id, the run joins that trace. Any other text is kept as the
/// client's own name of the trace.
fn traced(ask: &ProcessAsk, new: impl FnOnce() -> String) -> (String, TraceOrigin) {
    let trace = ask.trace.clone();
    match ask.trace_id.clone() {
        Some(id) if is_trace_id(&id) => {
            let origin = trace.filter(|trace| trace.id == id).map(|trace| trace.origin);
            (id, origin.unwrap_or_default())
        }
        client_trace_id => {
            let (id, origin) = trace.map_or_else(|| (new(), TraceOrigin::default()), |trace| (trace.id, trace.origin));
            (id, TraceOrigin { client_trace_id, ..origin })
        }
    }
}
