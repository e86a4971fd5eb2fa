//! The actors of this process: one task per thread in memory, started on demand, ended when idle.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::actor::Actor;
use super::command::{Command, Refusal};
use super::shared::Shared;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadPk;
use crate::domain::thread::ThreadStatus;

/// Before a task that panicked is started again: a thread that panics each time costs little until it is quarantined.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(200);

/// How long a command waits for a place in a full mailbox.
const MAILBOX_WAIT: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Actors(Mutex<HashMap<ThreadPk, ActorEntry>>);

struct ActorEntry {
    mailbox: mpsc::Sender<Command>,
    /// Whether this process holds the thread's lease; written by the actor.
    is_holder: Arc<AtomicBool>,
}

impl Actors {
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    pub(super) fn all(&self) -> Vec<ThreadPk> {
        self.0.lock().keys().copied().collect()
    }

    pub(super) fn is_live(&self, pk: ThreadPk) -> bool {
        self.0.lock().contains_key(&pk)
    }

    pub(super) fn holds(&self, pk: ThreadPk) -> bool {
        self.0.lock().get(&pk).is_some_and(|live| live.is_holder.load(Ordering::Relaxed))
    }

    /// Removes an actor that is idle; `false`: its mailbox holds a command, and it must go on.
    pub(super) fn leave(&self, pk: ThreadPk, mailbox: &mpsc::Receiver<Command>) -> bool {
        let mut live = self.0.lock();
        if !mailbox.is_empty() {
            return false;
        }
        live.remove(&pk);
        true
    }

    fn forget(&self, pk: ThreadPk) {
        let mut live = self.0.lock();
        live.remove(&pk);
    }
}

/// A command that its thread's mailbox did not take.
struct NotTaken {
    error: TrySendError<Command>,
    mailbox: mpsc::Sender<Command>,
}

impl Shared {
    /// Hands a command to the thread's task, which is started if there is none. If the mailbox is full, waits for a
    /// place for [`MAILBOX_WAIT`].
    async fn send(self: &Arc<Self>, pk: ThreadPk, mut command: Command) -> Result<(), Fault> {
        let until = Instant::now() + MAILBOX_WAIT;
        loop {
            let Err(refused) = self.try_send(pk, command) else { return Ok(()) };
            let NotTaken { error, mailbox } = *refused;
            command = match error {
                TrySendError::Closed(_) => return Err(task_broke()),
                TrySendError::Full(command) => command,
            };
            // The command is put in under the lock, so that an actor which ends leaves no command in its mailbox.
            timeout_at(until, mailbox.reserve()).await.map_err(|_| too_many())?.ok();
        }
    }

    fn try_send(self: &Arc<Self>, pk: ThreadPk, command: Command) -> Result<(), Box<NotTaken>> {
        let mut live = self.actors.0.lock();
        let mailbox = &live.entry(pk).or_insert_with(|| self.start(pk)).mailbox;
        mailbox.try_send(command).map_err(|error| Box::new(NotTaken { error, mailbox: mailbox.clone() }))
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn ask<T>(
        self: &Arc<Self>,
        pk: ThreadPk,
        command: impl FnOnce(oneshot::Sender<Result<T, Refusal>>) -> Command,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(pk, command(reply)).await?;
        answer.await.unwrap_or_else(|_| Err(task_broke().into()))
    }

    /// Has the thread looked after, and waits until that is durable.
    pub(super) async fn wake(self: &Arc<Self>, pk: ThreadPk) -> Result<(), Refusal> {
        self.ask(pk, |reply| Command::Wake { reply }).await
    }

    fn start(self: &Arc<Self>, pk: ThreadPk) -> ActorEntry {
        let (sender, mailbox) = mpsc::channel(self.config.limits.mailbox.max(1));
        let is_holder = Arc::new(AtomicBool::new(false));
        let written_by_actor = is_holder.clone();
        let shared = self.clone();
        self.tasks.spawn(async move {
            let actor = Actor::new(shared.clone(), pk, mailbox, written_by_actor);
            if AssertUnwindSafe(actor.run()).catch_unwind().await.is_err() {
                tracing::error!(threadPk = pk.0, "a thread's task panicked; it is started again from the stored state");
                shared.actors.forget(pk);
                shared.draining.run_until_cancelled(shared.restart_after_panic(pk)).await;
            }
        });
        ActorEntry { mailbox: sender, is_holder }
    }

    /// Counts the crash in the store, then wakes the thread. Tries again until the store has counted it.
    async fn restart_after_panic(self: &Arc<Self>, pk: ThreadPk) {
        sleep(PAUSE_AFTER_PANIC).await;
        while let Err(error) = self.store.count_crash(pk).await {
            tracing::warn!(threadPk = pk.0, %error, "a crash of a thread could not be counted; trying again");
            sleep(PAUSE_AFTER_PANIC).await;
        }
        loop {
            match self.store.thread_by_pk(pk).await {
                // A quarantined thread is not woken but to end its runs: rebuilding it may be what panicked.
                Ok(Some(row)) if row.status == ThreadStatus::Quarantined && row.wake_at.is_none() => return,
                Ok(_) | Err(_) => {}
            }
            if self.wake_again(pk).await {
                return;
            }
            sleep(PAUSE_AFTER_PANIC).await;
        }
    }

    /// Wakes a thread that the store does not show as due, as what it does is under way in this process. `false`: it was not woken,
    /// try again. Where its new task panics, too, that task has it started again itself.
    async fn wake_again(self: &Arc<Self>, pk: ThreadPk) -> bool {
        let (reply, answer) = oneshot::channel();
        match self.send(pk, Command::Wake { reply }).await {
            Ok(()) => matches!(answer.await, Ok(Ok(()) | Err(Refusal::Gone)) | Err(_)),
            Err(_) => false,
        }
    }
}

fn too_many() -> Fault {
    Fault::new(Code::TooManyRequests, "Too many requests wait for this thread's turn.").retry_after(500)
}

fn task_broke() -> Fault {
    Fault::new(Code::Internal, "The thread's task broke; what was committed holds. Try again.")
}
