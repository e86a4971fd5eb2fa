//! Starting effects: only under a lease that holds, with everything that they need read at that moment.

use std::sync::Arc;

use tokio::task;
use tracing::{Instrument, Span};

use super::actor::Actor;
use super::lease::Incarnation;
use super::perform::{Errand, ModelCall, ToolRun, model_failed};
use super::seat::Seat;
use super::shared::Shared;
use crate::domain::hitl::Reply;
use crate::domain::ids::{StreamId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::model::{FailureKind, ModelRequest};
use crate::engine::effect::Effect;
use crate::engine::event::Event;
use crate::engine::{Material, Needs, Prompt, Recent};
use crate::live::StreamHead;
use crate::store;

impl Actor {
    /// Starts effects whose intent is committed. If the lease has ended meanwhile, nothing starts: whoever holds the
    /// thread next settles them.
    pub(super) async fn start(&mut self, effects: Vec<Effect>) {
        let Some(seat) = &self.seat else { return };
        let held = self.shared.tenure.hold().filter(|hold| seat.row.fence.lease == Some(hold.lease));
        let Some(hold) = held else { return self.let_go() };
        self.hold = Some(hold.clone());
        for effect in effects {
            match &effect {
                Effect::CallModel { stream, attempt } => {
                    let (stream, attempt) = (stream.clone(), *attempt);
                    self.start_model(effect, stream, attempt, hold.clone()).await;
                }
                Effect::CallTool { call, attempt } => {
                    let Some(seat) = &self.seat else { return };
                    let Some(invocation) = seat.machine.invocation(call) else {
                        tracing::error!(threadId = %seat.row.thread_id, callId = %call, "a call without arguments");
                        continue;
                    };
                    let run = ToolRun {
                        shared: self.shared.clone(),
                        pk: self.pk,
                        tenant: seat.row.tenant,
                        thread_id: seat.row.thread_id.clone(),
                        invocation,
                        attempt: *attempt,
                        hold: hold.clone(),
                        asks: self.work.asks(),
                    };
                    let span = span(seat);
                    self.work.start(effect, hold.clone(), run.perform().instrument(span));
                }
                Effect::Delegate { task, .. } | Effect::AskPeer { task, .. } | Effect::CancelPeer { task, .. } => {
                    let Some(seat) = &self.seat else { return };
                    let Some(mission) = seat.machine.mission(task) else {
                        tracing::error!(threadId = %seat.row.thread_id, taskId = %task, "a task without an errand");
                        continue;
                    };
                    let errand = Errand {
                        shared: self.shared.clone(),
                        pk: self.pk,
                        tenant: seat.row.tenant,
                        mission,
                        hold: hold.clone(),
                    };
                    let span = span(seat);
                    self.work.start(effect, hold.clone(), errand.perform().instrument(span));
                }
            }
        }
    }

    /// Running calls that asked hear what is stored for them, and that their question is not open if it is not.
    pub(super) fn reply_to_calls(&mut self) {
        let Some(seat) = &self.seat else { return };
        let owed = &self.owed;
        self.work.reply(|asking| {
            let is_owed =
                |event: &Arc<Event>| matches!(&**event, Event::ToolAsked { call, .. } if *call == asking.call);
            match seat.machine.asked(&asking.call).filter(|asked| asked.number == asking.number) {
                Some(asked) => asked.reply,
                None if owed.iter().any(is_owed) => None,
                None => Some(Reply::Cancelled),
            }
        });
    }

    async fn start_model(&mut self, effect: Effect, stream: StreamId, attempt: u32, hold: Incarnation) {
        let Some(seat) = &self.seat else { return };
        let request = match self.shared.material(seat, &effect).await {
            Ok(material) => {
                let tools = self.shared.tools.toolset(seat.row.tenant);
                seat.machine.request(&self.shared.world(&tools), &effect, &material)
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
                let event = Event::Overflowed { stream, attempt, extent };
                return self.work.start(effect, hold, async { Some(event) });
            }
        };
        let head = head(seat, &stream, &request);
        let (shared, tenant) = (self.shared.clone(), seat.row.tenant);
        let call = ModelCall { shared, pk: self.pk, tenant, stream, attempt, request, head, hold: hold.clone() };
        let span = span(seat);
        self.work.start(effect, hold, call.perform().instrument(span));
        // Lets the call go out before the next one's prompt is read.
        task::yield_now().await;
    }
}

/// What an effect logs is told with its run.
fn span(seat: &Seat) -> Span {
    let thread = &seat.row.thread_id;
    match seat.machine.run() {
        Some(run) => tracing::info_span!("run", threadId = %thread, runId = %run.run_id, traceId = %run.trace_id),
        None => tracing::info_span!("run", threadId = %thread),
    }
}

fn head(seat: &Seat, stream: &StreamId, request: &ModelRequest) -> StreamHead {
    StreamHead {
        stream_id: stream.clone(),
        phase: request.phase,
        step_id: request.context.item_id.as_deref().map(Into::into),
        step_description: request.context.item_description.clone(),
        thread_id: seat.row.thread_id.clone(),
        run_id: request.context.run_id.as_str().into(),
        trace_id: request.trace_id.clone(),
    }
}

/// Further back nobody looks for where a summary ends.
const MOST_MESSAGES: u32 = 1_000;

impl Shared {
    /// What the prompt of an effect needs, as it is stored now.
    async fn material(&self, seat: &Seat, effect: &Effect) -> store::Result<Material> {
        let Needs { payloads, history } = seat.machine.needs(effect);
        let pk = seat.row.pk;
        let payloads = match payloads.is_empty() {
            true => Default::default(),
            false => self.store.payloads(pk, &payloads).await?.into_iter().collect(),
        };
        let history = match history {
            Some(recent) => self.history(pk, seat, recent).await?,
            None => Vec::new(),
        };
        Ok(Material { payloads, history })
    }

    /// Messages before the active run's own.
    async fn history(&self, pk: ThreadPk, seat: &Seat, recent: Recent) -> store::Result<Vec<ConversationMessage>> {
        let Some(run) = seat.machine.run() else { return Ok(Vec::new()) };
        let mut most = recent.newest.saturating_add(recent.except.len() as u32);
        loop {
            let found = self.store.history(pk, &run.message_id, most).await?;
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
}
