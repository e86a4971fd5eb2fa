//! Starting effects: only under a lease that holds, with everything that they need read at that moment.

use std::sync::Arc;

use tokio::task;
use tracing::field::{DisplayValue, display};
use tracing::{Instrument, Span};

use super::actor::Actor;
use super::lease::Lease;
use super::loaded::LoadedThread;
use super::perform::{ModelCall, PeerCall, ToolRun, model_failed};
use super::shared::Shared;
use crate::domain::hitl::Reply;
use crate::domain::ids::{StreamId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::model::{FailureKind, ModelRequest};
use crate::domain::run::Run;
use crate::engine::effect::Effect;
use crate::engine::event::{Event, ModelEvent, ToolEvent};
use crate::engine::{HistoryQuery, Machine, Prompt, PromptMaterial, PromptNeeds};
use crate::live::StreamHead;
use crate::store::{self, Store};

impl Actor {
    /// The thread's name in the log; absent while the thread is not in memory.
    pub(super) fn thread_id(&self) -> Option<DisplayValue<&ThreadId>> {
        self.loaded.as_ref().map(|loaded| display(&loaded.row.thread_id))
    }

    /// Starts effects whose intent is committed. If the lease has ended meanwhile, nothing starts: the process that
    /// holds the thread next settles them.
    pub(super) async fn start(&mut self, effects: Vec<Effect>) {
        let Some(loaded) = &self.loaded else { return };
        let held = self.shared.lease_keeper.hold().filter(|hold| loaded.row.fence.lease == Some(hold.lease));
        let Some(hold) = held else { return self.drop_work_in_progress() };
        self.hold = Some(hold.clone());
        for effect in effects {
            match &effect {
                Effect::CallModel { stream, attempt } => {
                    let (stream, attempt) = (stream.clone(), *attempt);
                    self.start_model(effect, stream, attempt, hold.clone()).await;
                }
                Effect::CallTool { call, attempt } => {
                    let Some(loaded) = &self.loaded else { return };
                    let Some(invocation) = loaded.machine.invocation(call) else {
                        tracing::error!(threadId = %loaded.row.thread_id, callId = %call, "the slot is running but the core has no invocation for it; not started");
                        continue;
                    };
                    let run = ToolRun {
                        shared: self.shared.clone(),
                        pk: self.pk,
                        tenant: loaded.row.tenant,
                        thread_id: loaded.row.thread_id.clone(),
                        invocation,
                        attempt: *attempt,
                        hold: hold.clone(),
                        asks: self.work.asks(),
                    };
                    let span = span(loaded);
                    self.work.start(effect, hold.clone(), run.perform().instrument(span));
                }
                Effect::Delegate { task, .. } | Effect::AskPeer { task, .. } | Effect::CancelPeer { task, .. } => {
                    let Some(loaded) = &self.loaded else { return };
                    let Some(peer_call_input) = loaded.machine.peer_call_input(task) else {
                        tracing::error!(threadId = %loaded.row.thread_id, taskId = %task, "the slot is running but the core has no invocation for it; not started");
                        continue;
                    };
                    let call = PeerCall {
                        shared: self.shared.clone(),
                        pk: self.pk,
                        tenant: loaded.row.tenant,
                        peer_call_input,
                        hold: hold.clone(),
                    };
                    let span = span(loaded);
                    self.work.start(effect, hold.clone(), call.perform().instrument(span));
                }
            }
        }
    }

    /// Running calls that asked hear what is stored for them, and that their question is not open if it is not.
    pub(super) fn reply_to_calls(&mut self) {
        let Some(loaded) = &self.loaded else { return };
        let uncommitted = &self.uncommitted;
        self.work.reply(|asking| {
            let is_uncommitted =
                |event: &Arc<Event>| matches!(&**event, Event::Tool(ToolEvent::Asked { call, .. }) if *call == asking.call);
            match loaded.machine.asked(&asking.call).filter(|asked| asked.number == asking.number) {
                Some(asked) => asked.reply,
                None if uncommitted.iter().any(is_uncommitted) => None,
                None => Some(Reply::Cancelled),
            }
        });
    }

    async fn start_model(&mut self, effect: Effect, stream: StreamId, attempt: u32, hold: Lease) {
        let Some(loaded) = &self.loaded else { return };
        let shared = &self.shared;
        let request = match shared.material(&*shared.store, loaded.row.pk, &*loaded.machine, &effect).await {
            Ok(material) => {
                shared.tools.prepare(loaded.row.tenant).await;
                let tools = shared.tools.toolset(loaded.row.tenant);
                loaded.machine.request(&shared.world(&tools), &effect, &material)
            }
            Err(error) => {
                let event = model_failed(&stream, attempt, FailureKind::Retry, &error.to_string());
                return self.work.start(effect, hold, async { Some(event) });
            }
        };
        let Some(request) = request else {
            let event = model_failed(&stream, attempt, FailureKind::Broken, "there is no prompt for this call");
            return self.work.start(effect, hold, async { Some(event) });
        };
        let request = match request {
            Prompt::Call(request) => *request,
            Prompt::Overflows(extent) => {
                let event = Event::Model(ModelEvent::Overflowed { stream, attempt, extent });
                return self.work.start(effect, hold, async { Some(event) });
            }
        };
        let head = head(loaded, &stream, &request);
        let (shared, tenant, interrupt) = (self.shared.clone(), loaded.row.tenant, self.work.interrupt());
        let hold_of_call = hold.clone();
        let call =
            ModelCall { shared, pk: self.pk, tenant, stream, attempt, request, head, hold: hold_of_call, interrupt };
        let span = span(loaded);
        self.work.start(effect, hold, call.perform().instrument(span));
        // Lets the call go out before the next one's prompt is read.
        task::yield_now().await;
    }
}

/// The span of an effect: its log lines name its thread and run.
fn span(loaded: &LoadedThread) -> Span {
    let thread = &loaded.row.thread_id;
    match loaded.machine.run() {
        Some(run) => tracing::info_span!("run", threadId = %thread, runId = %run.run_id, traceId = %run.trace_id),
        None => tracing::info_span!("run", threadId = %thread),
    }
}

fn head(loaded: &LoadedThread, stream: &StreamId, request: &ModelRequest) -> StreamHead {
    StreamHead {
        stream_id: stream.clone(),
        phase: request.phase,
        step_id: request.context.item_id.as_deref().map(Into::into),
        step_description: request.context.item_description.clone(),
        thread_id: loaded.row.thread_id.clone(),
        run_id: request.context.run_id.as_str().into(),
        trace_id: request.trace_id.clone(),
    }
}

/// Further back nobody looks for where a summary ends.
const MOST_MESSAGES: u32 = 1_000;

impl Shared {
    /// What the prompt of an effect needs, as it is stored now.
    pub(super) async fn material(
        &self,
        store: &dyn Store,
        pk: ThreadPk,
        machine: &dyn Machine,
        effect: &Effect,
    ) -> store::Result<PromptMaterial> {
        let PromptNeeds { payloads, history } = machine.needs(effect);
        let payloads = if payloads.is_empty() {
            Default::default()
        } else {
            store.payloads(pk, &payloads).await?.into_iter().collect()
        };
        let history = match (history, machine.run()) {
            (Some(recent), Some(run)) => history_before(store, pk, run, recent).await?,
            (Some(_), None) | (None, _) => Vec::new(),
        };
        Ok(PromptMaterial { payloads, history })
    }
}

/// Messages before the run's own.
async fn history_before(
    store: &dyn Store,
    pk: ThreadPk,
    run: &Run,
    recent: HistoryQuery,
) -> store::Result<Vec<ConversationMessage>> {
    let mut most = recent.newest.saturating_add(recent.except.len() as u32);
    loop {
        let found = store.history(pk, &run.message_id, most).await?;
        let is_all = found.len() < most as usize;
        let found = recent.kept(found, if recent.since.is_some() { most } else { recent.newest });
        let is_enough = found.len() >= recent.newest as usize;
        let reaches = |since| found.iter().any(|message| message.message_id == since);
        if is_all || most >= MOST_MESSAGES || (is_enough && recent.since.clone().is_none_or(reaches)) {
            return Ok(found);
        }
        most = most.saturating_mul(2);
    }
}
