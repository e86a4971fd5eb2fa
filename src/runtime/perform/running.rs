//! The running effects of a thread: one task each. They end with an event, or are aborted or stopped.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::call_questions::{CallMessage, CallQuestion};
use super::results;
use crate::domain::hitl::Reply;
use crate::domain::ids::CallId;
use crate::engine::effect::Effect;
use crate::engine::event::{Event, ToolEvent};
use crate::poll_gate::run_until_cancelled;
use crate::runtime::lease::Lease;

/// Bounds how long a stop waits for code that does not yield.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// An effect and its result.
type EffectResult = (Effect, Option<Event>);

/// The running effects of one thread. Dropping it aborts them.
pub(in crate::runtime) struct RunningEffects {
    tasks: JoinSet<EffectResult>,
    /// The tasks of effects that no run waits for.
    background: JoinSet<EffectResult>,
    handles: HashMap<Effect, AbortHandle>,
    /// The channel of messages from running calls.
    messages: (mpsc::Sender<CallMessage>, mpsc::Receiver<CallMessage>),
    /// Questions of running calls that wait for their reply.
    open_questions: HashMap<CallId, CallQuestion>,
    /// Interrupts the running model calls, which then report their usage so far.
    interrupt: CancellationToken,
    /// Interrupts those of all threads.
    interrupt_all: CancellationToken,
}

impl RunningEffects {
    /// No effects. `interrupt_all` interrupts all model calls that will run.
    pub(in crate::runtime) fn new(interrupt_all: CancellationToken) -> Self {
        let (tasks, background) = (JoinSet::new(), JoinSet::new());
        let (handles, messages, open_questions) = (HashMap::new(), mpsc::channel(1), HashMap::new());
        let interrupt = interrupt_all.child_token();
        Self { tasks, background, handles, messages, open_questions, interrupt, interrupt_all }
    }

    pub(in crate::runtime) fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    pub(in crate::runtime) fn contains(&self, effect: &Effect) -> bool {
        self.handles.contains_key(effect)
    }

    /// Starts an effect. `perform` returns its event; `None`: it did nothing, because the lease had ended. When the lease ends,
    /// the effect is dropped at once, whatever the thread's task is doing.
    pub(in crate::runtime) fn start(
        &mut self,
        effect: Effect,
        lease: Lease,
        perform: impl Future<Output = Option<Event>> + Send + 'static,
    ) {
        let named = effect.clone();
        // On the heap, because a future inside others is copied with each of them.
        let perform = Box::pin(AssertUnwindSafe(perform).catch_unwind());
        let task = async move {
            let event = match run_until_cancelled(&lease.ended, perform).await {
                Some(Ok(event)) => event,
                Some(Err(_)) => Some(results::panicked(&named)),
                None => None,
            };
            (named, event)
        };
        let tasks = if effect.is_background() { &mut self.background } else { &mut self.tasks };
        self.handles.insert(effect, tasks.spawn(task));
    }

    /// The result of the next effect that ends by itself, or a message of a running call; pending while there is neither.
    pub(in crate::runtime) async fn next(&mut self) -> Event {
        loop {
            let ended = tokio::select! {
                Some(ended) = self.tasks.join_next() => ended,
                Some(ended) = self.background.join_next() => ended,
                Some(message) = self.messages.1.recv() => return self.take_message(message),
            };
            // An aborted effect has no handle any more, and its result is dropped.
            if let Ok((effect, event)) = ended
                && let (Some(_), Some(event)) = (self.handles.remove(&effect), event)
            {
                return event;
            }
        }
    }

    /// The event that a running call's message is.
    fn take_message(&mut self, message: CallMessage) -> Event {
        match message {
            CallMessage::Asked(question) => {
                let event = question.event();
                self.open_questions.insert(question.call.clone(), question);
                event
            }
            CallMessage::Withdrew { call, attempt, number } => {
                Event::Tool(ToolEvent::Withdrew { call, attempt, number })
            }
        }
    }

    /// The channel for the messages of running calls.
    pub(in crate::runtime) fn message_sender(&self) -> mpsc::Sender<CallMessage> {
        self.messages.0.clone()
    }

    /// The token that interrupts model calls.
    pub(in crate::runtime) fn interrupt(&self) -> CancellationToken {
        self.interrupt.clone()
    }

    /// Sends every open question the reply that `reply` finds for it; `None`: it stays open.
    pub(in crate::runtime) fn reply(&mut self, reply: impl Fn(&CallQuestion) -> Option<Reply>) {
        let replies: Vec<(CallId, Reply)> =
            self.open_questions.iter().filter_map(|(call, open)| Some((call.clone(), reply(open)?))).collect();
        for (call, reply) in replies {
            // If the receiver is gone, the call has ended.
            self.open_questions.remove(&call).map(|open| open.reply.send(reply));
        }
    }

    /// Aborts an effect whose result is no longer wanted.
    pub(in crate::runtime) fn abort(&mut self, effect: &Effect) {
        if let Some(handle) = self.handles.remove(effect) {
            handle.abort();
        }
    }

    /// Aborts the effects that are not in `wanted`.
    pub(in crate::runtime) fn retain(&mut self, wanted: &[Effect]) {
        self.handles.retain(|effect, handle| {
            let is_wanted = wanted.contains(effect);
            if !is_wanted {
                handle.abort();
            }
            is_wanted
        });
    }

    /// Stops the effects of the run and waits until their tasks have ended. Model calls are interrupted. Returns their events,
    /// because they contain usage that must be paid, and those of effects that had ended already. A task that does not yield in
    /// time is detached: it cannot be stopped, and its result is dropped.
    pub(in crate::runtime) async fn stop(&mut self) -> Vec<Event> {
        std::mem::replace(&mut self.interrupt, self.interrupt_all.child_token()).cancel();
        self.handles.retain(|effect, handle| {
            if !(effect.is_background() || matches!(effect, Effect::CallModel { .. })) {
                handle.abort();
            }
            effect.is_background()
        });
        self.open_questions.clear();
        let mut events = Vec::new();
        let ends = async {
            while let Some(ended) = self.tasks.join_next().await {
                events.extend(ended.ok().and_then(|(_, event)| event));
            }
        };
        if timeout(STOP_TIMEOUT, ends).await.is_err() {
            tracing::error!(pending = self.tasks.len(), "effects did not stop within 2 s; their tasks are detached");
            self.tasks.abort_all();
            self.tasks.detach_all();
        }
        events
    }

    /// Aborts all effects; their tasks end when they next yield.
    pub(in crate::runtime) fn abort_all(&mut self) {
        self.handles.clear();
        self.open_questions.clear();
        self.tasks.abort_all();
        self.background.abort_all();
    }
}
