//! A query comes in: it starts a run, waits in the queue, steers, or interrupts.

use serde_json::{Map, Value};

use super::record::to_value;
use super::state::{Active, Phase, Replan, Steer};
use super::transition::{Handled, Taken, Transition};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{MessageId, RunId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::run::{Ask, CallerStatus, Counters, OnBusy, Run, RunStatus};

impl Transition<'_> {
    pub fn ask(&mut self, run: RunId, message: MessageId, mut ask: Ask) -> Handled {
        if self.state.head.quarantined {
            return Err(Fault::quarantined());
        }
        let on_busy = ask.on_busy;
        ask.metadata = ask.metadata.map(|metadata| self.store_metadata(&message, metadata));
        let run = self.accepted(run, message, ask);
        if self.state.run.is_none() && self.state.head.queue.is_empty() {
            let ord = self.ord();
            self.start_run(ord, run);
            return Ok(Taken::Yes);
        }
        match on_busy {
            OnBusy::Reject => Err(Fault::new(
                Code::ThreadBusy,
                "A run is active; wait for it, or set onBusy to enqueue or interrupt.",
            )),
            OnBusy::Enqueue => self.enqueue(run, false),
            OnBusy::Steer if self.can_be_steered() => self.steer(run),
            OnBusy::Steer => self.enqueue(run, false),
            OnBusy::Interrupt => {
                self.enqueue(run, true)?;
                self.interrupt();
                Ok(Taken::Yes)
            }
        }
    }

    fn accepted(&self, run_id: RunId, message_id: MessageId, ask: Ask) -> Run {
        Run {
            run_id,
            thread_id: self.state.thread_id.clone(),
            status: RunStatus::Queued,
            message_id,
            query: ask.query,
            metadata: ask.metadata,
            user_id: ask.user_id,
            session_id: ask.session_id,
            trace_id: ask.trace_id,
            trace: ask.trace,
            requested_by: Some(ask.requested_by).filter(|name| !name.is_empty()).into_iter().collect(),
            standing: CallerStatus::Queued,
            since: self.stamp.now,
            created_at: self.stamp.now,
            started_at: None,
            finished_at: None,
            settings: ask.settings,
            counters: Counters::default(),
            outcome: None,
        }
    }

    /// Makes it the active run and records its start.
    pub fn start_run(&mut self, ord: i64, mut run: Run) {
        run.status = RunStatus::Running;
        run.started_at = Some(self.stamp.now);
        add_names(&mut run.requested_by, &std::mem::take(&mut self.state.head.shapers));
        let message = self.user_message(&run);
        // The number is given anew: contexts are ordered by run, and this one begins now.
        let message_ord = self.ord();
        self.write_message(message_ord, &message);
        self.state.head.active = Some(Active {
            run: run.run_id.clone(),
            ord,
            counters: Counters::default(),
            model: None,
            steers: Vec::new(),
            replan: Replan::Unasked,
            cancel: None,
            pause: None,
            asked: None,
            granted: Default::default(),
            largest: 0,
            notes: Vec::new(),
            planned: false,
            review: Default::default(),
            stopped: false,
        });
        let shown = self.shown(&message);
        self.state.run = Some(run);
        self.run_changed();
        self.record_run_started(shown);
        self.begin_flow();
    }

    fn user_message(&self, run: &Run) -> ConversationMessage {
        ConversationMessage {
            message_id: run.message_id.clone(),
            thread_id: run.thread_id.clone(),
            role: MessageRole::User,
            content: run.query.clone(),
            timestamp: run.created_at,
            run_id: Some(run.run_id.clone()),
            metadata: run.metadata.clone(),
        }
    }

    /// What a message carries is stored once: large members of its parts stand apart.
    fn store_metadata(&mut self, message: &MessageId, metadata: Map<String, Value>) -> Map<String, Value> {
        let mut apart = |name: &str, value: Value| self.store(format!("{message}.{name}"), value);
        let stored = metadata.into_iter().map(|(name, value)| match value {
            Value::Object(members) => {
                let members = members.into_iter().map(|(member, value)| {
                    let value = apart(&format!("{name}.{member}"), value);
                    (member, value)
                });
                let members = members.collect();
                (name, Value::Object(members))
            }
            plain => {
                let plain = apart(&name, plain);
                (name, plain)
            }
        });
        stored.collect()
    }

    /// A message of the active run that no query came with.
    pub fn hear(&mut self, mut message: ConversationMessage) {
        let id = message.message_id.clone();
        message.metadata = message.metadata.map(|metadata| self.store_metadata(&id, metadata));
        message.run_id = Some(self.run().run_id.clone());
        let shown = self.keep(&message);
        self.record_state_update(vec!["messages".into()], Some(shown));
    }

    fn enqueue(&mut self, run: Run, first: bool) -> Handled {
        let limit = self.world.limits.queued_runs;
        if self.state.head.queue.len() >= limit {
            return Err(Fault::new(Code::QueueFull, format!("At most {limit} runs may wait on a thread; try later.")));
        }
        // A run's number is below those of its messages.
        let ord = self.ord();
        let message = self.told(&run);
        self.record_state_update(vec!["queue".into()], Some(message));
        self.write_run(ord, &run);
        let at = if first { 0 } else { self.state.head.queue.len() };
        self.state.head.queue.insert(at, run.run_id.clone());
        self.state.queued.insert(run.run_id.clone(), (ord, run));
        Ok(Taken::Yes)
    }

    /// Stores the user's message and returns it as observations show it.
    fn told(&mut self, run: &Run) -> Value {
        let message = self.user_message(run);
        self.keep(&message)
    }

    pub fn keep(&mut self, message: &ConversationMessage) -> Value {
        let ord = self.ord();
        self.write_message(ord, message);
        self.shown(message)
    }

    /// A user's message as observations show it: what is large in it is stored once.
    fn shown(&mut self, message: &ConversationMessage) -> Value {
        let content = self.store(message.message_id.as_str(), Value::String(message.content.clone()));
        let mut shown = to_value(message);
        shown["content"] = content;
        shown
    }

    fn can_be_steered(&self) -> bool {
        let is_cancelled = self.state.head.active.as_ref().is_none_or(|active| active.cancel.is_some());
        match self.state.phase() {
            Phase::Planning | Phase::Refining | Phase::Executing => {
                !is_cancelled && self.state.shape == super::state::Shape::Planned
            }
            Phase::Idle | Phase::Synthesizing => false,
        }
    }

    /// The message joins the active run; the plan is refined as soon as no item is executing.
    fn steer(&mut self, mut run: Run) -> Handled {
        let most = self.world.limits.queued_runs;
        if self.active().steers.len() >= most {
            return Err(Fault::new(
                Code::QueueFull,
                format!("At most {most} messages may change the course of one run; try again when it has ended."),
            ));
        }
        run.run_id = self.run().run_id.clone();
        self.is_shaped_by(&run.requested_by);
        let shown = self.told(&run);
        let text = shown["content"].clone();
        self.active().steers.push(Steer { message: run.message_id, text, shown: false });
        self.record_state_update(vec!["messages".into()], Some(shown));
        Ok(Taken::Yes)
    }

    /// Who steers a run or edits its plan has asked for what it does; where none is active, for what the next one does.
    pub fn is_shaped_by(&mut self, names: &[String]) {
        let Some(active) = self.state.run.as_mut() else {
            return add_names(&mut self.state.head.shapers, names);
        };
        add_names(&mut active.requested_by, names);
        self.run_changed();
    }
}

/// Each name stands there once.
pub(super) fn add_names(known: &mut Vec<String>, names: &[String]) {
    for name in names {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
}
