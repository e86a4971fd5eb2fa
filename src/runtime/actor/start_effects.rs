//! Starting effects: only under a valid lease, and with all that they need read at that moment. Running calls get the replies
//! to their questions here, too.

use std::sync::Arc;

use tokio::task;
use tracing::field::{DisplayValue, display};
use tracing::{Instrument, Span};

use super::Actor;
use super::loaded::LoadedThread;
use crate::domain::hitl::Reply;
use crate::domain::ids::{CallId, StreamId, TaskId, ThreadId};
use crate::domain::model::{FailureKind, ModelRequest};
use crate::engine::Prompt;
use crate::engine::effect::Effect;
use crate::engine::event::{Event, ModelEvent, ToolEvent};
use crate::live::StreamHead;
use crate::runtime::lease::Lease;
use crate::runtime::perform::{ModelAttempt, PeerAttempt, ToolAttempt, model_not_sent};
use crate::store;

impl Actor {
    /// The thread's id for log lines; absent while the thread is not in memory.
    pub(super) fn thread_id(&self) -> Option<DisplayValue<&ThreadId>> {
        self.loaded.as_ref().map(|loaded| display(&loaded.row.thread_id))
    }

    /// Starts effects whose intent is committed. If the lease has ended meanwhile, nothing starts: the next holder of the
    /// thread settles them.
    pub(super) async fn start_effects(&mut self, effects: Vec<Effect>) {
        let Some(loaded) = &self.loaded else { return };
        let current = self.shared.lease_keeper.current_lease();
        let Some(lease) = current.filter(|lease| loaded.row.fence.lease == Some(lease.id)) else {
            return self.abort_effects();
        };
        self.lease = Some(lease.clone());
        let mut effects = effects.into_iter();
        while let Some(effect) = effects.next() {
            match &effect {
                Effect::CallModel { stream, attempt } => {
                    let (stream, attempt) = (stream.clone(), *attempt);
                    self.start_model(effect, stream, attempt, lease.clone()).await;
                    if effects.len() > 0 {
                        // Lets the request be sent before the next one's prompt is read.
                        task::yield_now().await;
                    }
                }
                Effect::CallTool { call, attempt } => {
                    let (call, attempt) = (call.clone(), *attempt);
                    self.start_tool(effect, &call, attempt, lease.clone());
                }
                Effect::Delegate { task, .. } | Effect::AskPeer { task, .. } | Effect::CancelPeer { task, .. } => {
                    let task = task.clone();
                    self.start_peer_call(effect, &task, lease.clone());
                }
            }
        }
    }

    /// Sends running calls the stored replies to their questions, or a cancellation if the question is not open any more.
    pub(super) fn reply_to_calls(&mut self) {
        let Some(loaded) = &self.loaded else { return };
        let uncommitted = &self.uncommitted;
        self.effects.reply(|question| {
            let is_uncommitted =
                |event: &Arc<Event>| matches!(&**event, Event::Tool(ToolEvent::Asked { call, .. }) if *call == question.call);
            match loaded.machine.asked(&question.call).filter(|asked| asked.number == question.number) {
                Some(asked) => asked.reply,
                None if uncommitted.iter().any(is_uncommitted) => None,
                None => Some(Reply::Cancelled),
            }
        });
    }

    async fn start_model(&mut self, effect: Effect, stream: StreamId, attempt: u32, lease: Lease) {
        let Some(loaded) = &self.loaded else { return };
        let request = match self.render(loaded, &effect).await {
            Ok(Some(Prompt::Call(request))) => *request,
            Ok(Some(Prompt::Overflows(extent))) => {
                let event = Event::Model(ModelEvent::Overflowed { stream, attempt, extent });
                return self.effects.start(effect, lease, async { Some(event) });
            }
            Ok(None) => {
                let event = model_not_sent(&stream, attempt, FailureKind::Broken, "there is no prompt for this call");
                return self.effects.start(effect, lease, async { Some(event) });
            }
            Err(error) => {
                let event = model_not_sent(&stream, attempt, FailureKind::Retry, &error.to_string());
                return self.effects.start(effect, lease, async { Some(event) });
            }
        };
        let call = ModelAttempt {
            shared: self.shared.clone(),
            pk: self.pk,
            tenant: loaded.row.tenant,
            head: head(loaded, &stream, &request),
            stream,
            attempt,
            request,
            lease: lease.clone(),
            interrupt: self.effects.interrupt(),
        };
        let span = span(loaded);
        self.effects.start(effect, lease, call.perform().instrument(span));
    }

    /// Reads what the prompt of a model call needs, and renders it. `None`: there is no prompt for it.
    async fn render(&self, loaded: &LoadedThread, effect: &Effect) -> store::Result<Option<Prompt>> {
        let shared = &self.shared;
        let material = shared.material(&*shared.store, loaded.row.pk, &*loaded.machine, effect).await?;
        let tools = shared.tools.toolset(loaded.row.tenant).await;
        Ok(loaded.machine.prompt(&shared.world(&tools), effect, &material))
    }

    fn start_tool(&mut self, effect: Effect, call: &CallId, attempt: u32, lease: Lease) {
        let Some(loaded) = &self.loaded else { return };
        let Some(invocation) = loaded.machine.invocation(call) else {
            tracing::error!(
                threadId = %loaded.row.thread_id,
                callId = %call,
                "the slot is running but the core has no invocation for it; not started"
            );
            return;
        };
        let call = ToolAttempt {
            shared: self.shared.clone(),
            pk: self.pk,
            tenant: loaded.row.tenant,
            thread_id: loaded.row.thread_id.clone(),
            invocation,
            attempt,
            lease: lease.clone(),
            messages: self.effects.message_sender(),
        };
        let span = span(loaded);
        self.effects.start(effect, lease, call.perform().instrument(span));
    }

    fn start_peer_call(&mut self, effect: Effect, task: &TaskId, lease: Lease) {
        let Some(loaded) = &self.loaded else { return };
        let Some(input) = loaded.machine.peer_call_input(task) else {
            tracing::error!(
                threadId = %loaded.row.thread_id,
                taskId = %task,
                "the slot is running but the core has no input for it; not started"
            );
            return;
        };
        let call = PeerAttempt {
            shared: self.shared.clone(),
            pk: self.pk,
            tenant: loaded.row.tenant,
            input,
            lease: lease.clone(),
        };
        let span = span(loaded);
        self.effects.start(effect, lease, call.perform().instrument(span));
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
