//! Effects under way: one task each. The result of each is an event; a panic is a failure like any other.

mod failed;
mod model;
mod peer;
mod people;
mod reach;
mod reply;
#[cfg(test)]
mod tests;
mod tool;

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::domain::hitl::Reply;
use crate::domain::ids::CallId;
use crate::engine::effect::Effect;
use crate::engine::event::Event;
use crate::runtime::lease::Lease;

pub(super) use failed::{model_failed, peer_failed, tool_failed};
pub(super) use model::ModelCall;
pub(super) use peer::PeerCall;
pub(super) use people::Asking;
pub(super) use reach::{Reached, Sought};
pub(super) use tool::ToolRun;

/// How long a stop waits for code that does not yield.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// An effect and what it came to.
type Ended = (Effect, Option<Event>);

/// The effects of one thread that are under way. Dropping it aborts them.
pub(super) struct Work {
    tasks: JoinSet<Ended>,
    /// Those that hold no run up.
    aside: JoinSet<Ended>,
    handles: HashMap<Effect, AbortHandle>,
    asks: (mpsc::Sender<Asking>, mpsc::Receiver<Asking>),
    /// Questions of running calls that wait for their reply.
    asking: HashMap<CallId, Asking>,
    /// Ends the model calls under way, which say what they took until then.
    interrupt: CancellationToken,
}

impl Default for Work {
    fn default() -> Self {
        let (tasks, aside) = (JoinSet::new(), JoinSet::new());
        let (handles, asks, asking) = (HashMap::new(), mpsc::channel(1), HashMap::new());
        Self { tasks, aside, handles, asks, asking, interrupt: CancellationToken::new() }
    }
}

impl Work {
    pub(super) fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    pub(super) fn holds(&self, effect: &Effect) -> bool {
        self.handles.contains_key(effect)
    }

    /// Starts an effect; `perform` answers it with its event, `None`: it did nothing, because its right to was lost.
    /// When the lease ends, it is dropped where it stands, whatever its thread's task waits for.
    pub(super) fn start(
        &mut self,
        effect: Effect,
        hold: Lease,
        perform: impl Future<Output = Option<Event>> + Send + 'static,
    ) {
        let named = effect.clone();
        let task = async move {
            let perform = AssertUnwindSafe(perform).catch_unwind();
            let event = match hold.ended.run_until_cancelled(perform).await {
                Some(Ok(event)) => event,
                Some(Err(_)) => Some(failed::panicked(&named)),
                None => None,
            };
            (named, event)
        };
        let tasks = if effect.is_background() { &mut self.aside } else { &mut self.tasks };
        self.handles.insert(effect, tasks.spawn(task));
    }

    /// The result of the next effect that ends by itself, or the question of one under way; pending while there is neither.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            let ended = tokio::select! {
                Some(ended) = self.tasks.join_next() => ended,
                Some(ended) = self.aside.join_next() => ended,
                Some(asking) = self.asks.1.recv() => {
                    let event = asking.event();
                    self.asking.insert(asking.call.clone(), asking);
                    return event;
                }
            };
            // Of one that was aborted all is forgotten already.
            if let Ok((effect, event)) = ended
                && let (Some(_), Some(event)) = (self.handles.remove(&effect), event)
            {
                return event;
            }
        }
    }

    /// Where a running call asks.
    pub(super) fn asks(&self) -> mpsc::Sender<Asking> {
        self.asks.0.clone()
    }

    /// What interrupts a model call.
    pub(super) fn interrupt(&self) -> CancellationToken {
        self.interrupt.clone()
    }

    /// Gives every open question the reply that `reply` finds for it; `None`: it stays open.
    pub(super) fn reply(&mut self, reply: impl Fn(&Asking) -> Option<Reply>) {
        let replies: Vec<(CallId, Reply)> =
            self.asking.iter().filter_map(|(call, asking)| Some((call.clone(), reply(asking)?))).collect();
        for (call, reply) in replies {
            // Who does not listen any more has ended.
            self.asking.remove(&call).map(|asking| asking.reply.send(reply));
        }
    }

    /// Aborts an effect whose result is no longer wanted.
    pub(super) fn abort(&mut self, effect: &Effect) {
        if let Some(handle) = self.handles.remove(effect) {
            handle.abort();
        }
    }

    /// Aborts those that are not among these.
    pub(super) fn keep_only(&mut self, wanted: &[Effect]) {
        self.handles.retain(|effect, handle| {
            let is_wanted = wanted.contains(effect);
            if !is_wanted {
                handle.abort();
            }
            is_wanted
        });
    }

    /// Aborts the effects of the run and waits until their tasks have ended; model calls are interrupted, and what they say
    /// of that is returned, because it was spent. One whose code does not yield for too long is left to itself: it cannot be
    /// stopped, and its result is dropped.
    pub(super) async fn stop(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.interrupt).cancel();
        self.handles.retain(|effect, handle| {
            if !(effect.is_background() || matches!(effect, Effect::CallModel { .. })) {
                handle.abort();
            }
            effect.is_background()
        });
        self.asking.clear();
        let mut spent = Vec::new();
        let ends = async {
            while let Some(ended) = self.tasks.join_next().await {
                spent.extend(ended.ok().and_then(|(_, event)| event).filter(|event| matches!(event, Event::Model(_))));
            }
        };
        if timeout(STOP_WAIT, ends).await.is_err() {
            tracing::error!(pending = self.tasks.len(), "effects did not stop within 2 s; their tasks are detached");
            self.tasks.abort_all();
            self.tasks.detach_all();
        }
        spent
    }

    /// Aborts everything; the tasks end when they next yield.
    pub(super) fn drop_all(&mut self) {
        self.handles.clear();
        self.asking.clear();
        self.tasks.abort_all();
        self.aside.abort_all();
    }
}
