//! An agent core from outside the crate: one question, one model call, one answer.
//!
//! It needs only the engine's crate. Runtime, store and HTTP do not know it. It does what every core must do: keep a state
//! that says what it waits for, record what happened, and start nothing before the commit. So a crash loses nothing.

use pes_engine::domain::facts::{Fact, FinalResponseBody, RecordedMessage, RunFinishedBody, RunStartedBody};
use pes_engine::domain::fault::{Code, Fault};
use pes_engine::domain::ids::{MessageId, Mint, RunId, StreamId, ThreadId};
use pes_engine::domain::message::{ConversationMessage, MessageRole};
use pes_engine::domain::model::{CallContext, ModelRequest, Phase, Usage};
use pes_engine::domain::observation::Record;
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::run::{Ask, CallerStatus, Counters, Outcome, ResultStatus, Run, RunStatus};
use pes_engine::domain::thread::ThreadStatus;
use pes_engine::effect::Effect;
use pes_engine::event::{CancelEvent, Event, ModelEvent, SystemEvent};
use pes_engine::step::{Keep, Row, RowKind, Step};
use pes_engine::{Core, HistoryQuery, Loaded, Machine, Prompt, PromptMaterial, PromptNeeds, Stamp, World};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The core; [`Thread`] is its machine.
pub struct Oneshot;

impl Oneshot {
    pub const NAME: &str = "oneshot";
}

impl Core for Oneshot {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault> {
        let damaged = |e: serde_json::Error| Fault::new(Code::Internal, format!("The thread cannot be read: {e}."));
        let head = match loaded.head.as_str() {
            "" => Head::default(),
            text => serde_json::from_str(text).map_err(damaged)?,
        };
        Ok(Box::new(Thread { id: loaded.thread_id, head }))
    }
}

struct Thread {
    id: ThreadId,
    head: Head,
}

/// Everything that is stored for the core, written with every transition.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Head {
    rows: i64,
    run: Option<Run>,
    attempt: u32,
    /// The running model call, and the lease epoch under which it was started.
    running: Option<(i64, StreamId)>,
    cancelled: bool,
}

impl Machine for Thread {
    fn decide(&mut self, _: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Fault> {
        let before = self.head.clone();
        let mut turn =
            Turn { head: &mut self.head, stamp, mint: Mint::new(stamp.now, stamp.seed), step: Step::default() };
        match event {
            Event::Asked { .. } if before.run.is_some() => {
                return Err(Fault::new(Code::ThreadBusy, "One question at a time."));
            }
            Event::Asked { ask, rewind, .. } if !ask.history.is_empty() || rewind.is_some() => {
                return Err(Fault::new(Code::Invalid, "This core keeps no conversation."));
            }
            Event::Asked { run, message, ask, .. } => turn.begin(&self.id, run, message, *ask),
            Event::Model(ModelEvent::Replied { stream, attempt, reply }) if turn.waits_for(&stream, attempt) => {
                turn.answer(ResultStatus::Success, reply.text, &reply.usage);
            }
            Event::Model(ModelEvent::Failed { stream, attempt, failure }) if turn.waits_for(&stream, attempt) => {
                turn.answer(ResultStatus::Error, failure.message, &Usage::default());
            }
            Event::Cancel(CancelEvent::Asked { .. }) if before.run.is_some() => turn.head.cancelled = true,
            Event::Cancel(CancelEvent::EffectsStopped) if before.cancelled => turn.head.running = None,
            Event::System(SystemEvent::Quarantined { crashes }) => {
                turn.answer(ResultStatus::Error, format!("crashed {crashes} times"), &Usage::default());
            }
            Event::System(SystemEvent::Recovered) => turn.lose_what_ran_before(),
            // Late or irrelevant. The core starts no tools and no tasks, so it gets no results of them.
            Event::Model(_) | Event::Tool(_) | Event::Peer(_) | Event::Cancel(_) | Event::System(_) => {}
            Event::Person(_) => return Err(Fault::new(Code::Invalid, "This core only answers questions.")),
        }
        turn.go_on();
        Ok(turn.seal(&before))
    }

    fn running(&self) -> Vec<Effect> {
        let running = self.head.running.iter();
        running.map(|(_, stream)| Effect::CallModel { stream: stream.clone(), attempt: self.head.attempt }).collect()
    }

    fn is_active(&self) -> bool {
        self.head.run.is_some()
    }

    fn prompt_needs(&self, _: &Effect) -> PromptNeeds {
        let newest = |run: &Run| HistoryQuery { newest: run.settings.history_limit, ..HistoryQuery::default() };
        PromptNeeds { history: self.head.run.as_ref().map(newest), ..PromptNeeds::default() }
    }

    fn prompt(&self, _: &World<'_>, effect: &Effect, material: &PromptMaterial) -> Option<Prompt> {
        let run = self.head.run.as_ref().filter(|_| self.running().contains(effect))?;
        let mut messages =
            vec![PromptMessage::System { content: "Phase: execution oneshot\n\nAnswer briefly.".into() }];
        messages.extend(material.history.iter().map(said));
        messages.push(PromptMessage::User { content: run.query.to_string() });
        Some(Prompt::Call(Box::new(ModelRequest {
            provider: run.settings.provider.clone(),
            model: run.settings.model.clone(),
            phase: Phase::Execution,
            messages,
            tools: Vec::new(),
            response_schema: None,
            params: run.settings.llm_params.clone(),
            trace_id: run.trace_id.clone(),
            trace: run.call_trace(&format!("{}:{}", run.run_id, self.head.attempt)),
            context: CallContext { query: run.query.to_string(), attempt: self.head.attempt, ..CallContext::default() },
        })))
    }

    fn view(&self) -> Value {
        json!({ "threadId": self.id, "todoList": [], "runId": self.head.run.as_ref().map(|run| &run.run_id) })
    }

    fn run(&self) -> Option<&Run> {
        self.head.run.as_ref()
    }
}

/// A transition under construction.
struct Turn<'a> {
    head: &'a mut Head,
    stamp: Stamp,
    mint: Mint,
    step: Step,
}

impl Turn<'_> {
    fn begin(&mut self, thread: &ThreadId, run_id: RunId, message: MessageId, ask: Ask) {
        let run = Run {
            run_id,
            thread_id: thread.clone(),
            status: RunStatus::Running,
            reason: None,
            message_id: message,
            query: ask.query,
            metadata: ask.metadata,
            user_id: ask.user_id,
            session_id: ask.session_id,
            trace_id: ask.trace_id,
            trace: ask.trace,
            requested_by: vec![ask.requested_by],
            caller_status: CallerStatus::Running,
            since: self.stamp.now,
            created_at: self.stamp.now,
            started_at: Some(self.stamp.now),
            finished_at: None,
            settings: ask.settings.into(),
            counters: Counters::default(),
            outcome: None,
        };
        let said = self.say(&run, run.message_id.clone(), MessageRole::User, run.query.to_string());
        let (model, provider) = (run.settings.model.clone(), run.settings.provider.clone());
        let options = Some(Box::new(run.settings.options()));
        self.record(&run, RunStartedBody { query: said.content.clone(), message: said, model, provider, options });
        self.write_run(&run);
        self.head.run = Some(run);
        self.head.attempt = 1;
    }

    fn waits_for(&self, stream: &StreamId, attempt: u32) -> bool {
        self.head.attempt == attempt && self.head.running.as_ref().is_some_and(|(_, running)| running == stream)
    }

    /// Ends the run with its answer, or with the sentence that explains the failure.
    fn answer(&mut self, status: ResultStatus, text: String, usage: &Usage) {
        let Some(mut run) = self.head.run.take() else { return };
        let message_id = self.mint.message();
        let said = self.say(&run, message_id.clone(), MessageRole::Ai, text);
        self.record(&run, FinalResponseBody { ui_metadata: None, message: said });
        run.counters.llm_calls = self.head.attempt;
        run.counters.usage.add(usage);
        run.outcome = Some(Outcome { status, message_id, error: None, errors: Vec::new() });
        let is_error = status == ResultStatus::Error;
        self.end(run, if is_error { RunStatus::Failed } else { RunStatus::Completed });
    }

    fn end(&mut self, mut run: Run, status: RunStatus) {
        run.set_status(status, self.stamp.now);
        run.finished_at = Some(self.stamp.now);
        let body = RunFinishedBody {
            status,
            total_duration_ms: self.stamp.now - run.created_at,
            llm_calls: run.counters.llm_calls,
            tool_calls: 0,
            usage: run.counters.usage.clone(),
            cost_usd: None,
            result_status: run.outcome.as_ref().map(|outcome| outcome.status),
        };
        self.record(&run, body);
        self.write_run(&run);
        *self.head = Head { rows: self.head.rows, ..Head::default() };
    }

    /// The earlier lease holder may have sent the call: the next attempt gets its own stream.
    fn lose_what_ran_before(&mut self) {
        if self.head.running.as_ref().is_some_and(|(epoch, _)| Some(*epoch) != self.stamp.holder) {
            self.head.running = None;
            self.head.attempt += 1;
        }
    }

    /// Starts the pending call: only the lease holder may.
    fn go_on(&mut self) {
        if self.head.cancelled && self.head.running.is_none() {
            if let Some(run) = self.head.run.take() {
                self.end(run, RunStatus::Cancelled);
            }
        } else if let (Some(epoch), Some(_), None) = (self.stamp.holder, &self.head.run, &self.head.running) {
            self.head.running = Some((epoch, self.mint.stream()));
        }
    }

    fn seal(mut self, before: &Head) -> Step {
        if self.head == before && self.step.records.is_empty() {
            return Step { is_cancelling: self.head.cancelled, ..Step::nothing() };
        }
        let is_open = self.head.run.is_some();
        self.step.status = if is_open { ThreadStatus::Running } else { ThreadStatus::Idle };
        // Wakes the lease holder for a call that could not start here.
        self.step.wake_at = (is_open && self.head.running.is_none()).then_some(self.stamp.now);
        self.step.is_cancelling = self.head.cancelled;
        self.step.progress = self.head.attempt == before.attempt || !is_open;
        self.step.head = Some(text(self.head));
        self.step
    }

    /// Writes a message; returns it in the form of observations.
    fn say(&mut self, run: &Run, message_id: MessageId, role: MessageRole, content: String) -> RecordedMessage {
        let message = ConversationMessage {
            message_id,
            thread_id: run.thread_id.clone(),
            role,
            content,
            timestamp: self.stamp.now,
            run_id: Some(run.run_id.clone()),
            requested_by: None,
            metadata: None,
        };
        self.head.rows += 1;
        let (id, ord) = (message.message_id.to_string(), self.head.rows);
        self.step.rows.push(Row { kind: RowKind::Message, id, ord, keep: Keep::Never, body: text(&message) });
        RecordedMessage::of(&message, Value::String(message.content.clone()))
    }

    fn write_run(&mut self, run: &Run) {
        let (id, keep) = (run.run_id.to_string(), if run.status.is_terminal() { Keep::Never } else { Keep::Always });
        self.step.rows.push(Row { kind: RowKind::Run, id, ord: self.head.rows, keep, body: text(run) });
        self.step.runs.push(run.clone());
    }

    fn record(&mut self, run: &Run, fact: impl Into<Fact>) {
        let fact = fact.into();
        self.step.records.push(Record {
            id: self.mint.observation(),
            run_id: run.run_id.clone(),
            parent_id: None,
            trace_id: run.trace_id.clone(),
            timestamp: self.stamp.now,
            title: fact.kind().as_str().to_owned(),
            fact,
            metadata: None,
        });
    }
}

fn said(message: &ConversationMessage) -> PromptMessage {
    let content = message.content.clone();
    match message.role {
        MessageRole::Ai => PromptMessage::Assistant { content, tool_calls: Vec::new(), replay: None },
        MessageRole::User | MessageRole::System | MessageRole::Tool => PromptMessage::User { content },
    }
}

fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("our own types have string keys and finite numbers")
}
