//! The actors of this process: one task per thread in memory, started on demand, ended when idle.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::actor::{Actor, Command, CommandError, CommitExtras, DecisionResult};
use super::shared::Shared;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadPk;
use crate::domain::thread::ThreadStatus;
use crate::engine::event::Event;

/// The pause before a panicked task is started again. It keeps a thread that always panics cheap until it is quarantined, and
/// doubles while the store fails.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
const MAX_RESTART_PAUSE: Duration = Duration::from_secs(32);

/// Bounds how long a command waits for room in a full mailbox.
const MAILBOX_TIMEOUT: Duration = Duration::from_secs(2);

/// The stored version of its thread that a waiting actor knows. There is none while the actor commits, and none if it has
/// nothing under way: then nothing has to be stopped if another process writes the thread.
#[derive(Clone)]
pub(super) struct KnownVersion(Arc<AtomicI64>);

impl KnownVersion {
    const NONE: i64 = -1;

    fn none() -> Self {
        Self(Arc::new(AtomicI64::new(Self::NONE)))
    }

    pub(super) fn set(&self, version: Option<i64>) {
        self.0.store(version.unwrap_or(Self::NONE), Ordering::SeqCst);
    }

    fn get(&self) -> Option<i64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|version| *version != Self::NONE)
    }
}

struct LiveActor {
    mailbox: mpsc::Sender<Command>,
    known: KnownVersion,
}

#[derive(Default)]
pub(super) struct Actors(Mutex<HashMap<ThreadPk, LiveActor>>);

impl Actors {
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// The threads whose actors wait for something that is under way, each with the version that its actor knows.
    pub(super) fn known_versions(&self) -> HashMap<ThreadPk, i64> {
        self.0.lock().iter().filter_map(|(pk, actor)| Some((*pk, actor.known.get()?))).collect()
    }

    pub(super) fn is_live(&self, pk: ThreadPk) -> bool {
        self.0.lock().contains_key(&pk)
    }

    /// Removes an idle actor; `false`: its mailbox has a command, and it must continue.
    pub(super) fn remove_if_idle(&self, pk: ThreadPk, mailbox: &mpsc::Receiver<Command>) -> bool {
        let mut live = self.0.lock();
        if !mailbox.is_empty() {
            return false;
        }
        live.remove(&pk);
        true
    }

    /// No further command is sent to the actor.
    pub(super) fn remove(&self, pk: ThreadPk) {
        let mut live = self.0.lock();
        live.remove(&pk);
    }
}

/// A command that the mailbox did not accept.
struct RejectedCommand {
    error: TrySendError<Command>,
    mailbox: mpsc::Sender<Command>,
}

impl Shared {
    /// Sends a command to the thread's task, which is started if there is none. If the mailbox is full, waits for room for
    /// at most [`MAILBOX_TIMEOUT`].
    async fn send(self: &Arc<Self>, pk: ThreadPk, mut command: Command) -> Result<(), Fault> {
        let until = Instant::now() + MAILBOX_TIMEOUT;
        loop {
            let Err(rejected) = self.try_send(pk, command) else { return Ok(()) };
            let RejectedCommand { error, mailbox } = *rejected;
            command = match error {
                TrySendError::Closed(_) => return Err(self.task_ended()),
                TrySendError::Full(command) => command,
            };
            let room = timeout_at(until, mailbox.reserve()).await.map_err(|_| mailbox_full())?;
            // Under the lock under which an actor ends, so that none leaves a command behind.
            let live = self.actors.0.lock();
            if let Ok(room) = room
                && live.get(&pk).is_some_and(|current| current.mailbox.same_channel(&mailbox))
            {
                room.send(command);
                return Ok(());
            }
        }
    }

    fn try_send(self: &Arc<Self>, pk: ThreadPk, command: Command) -> Result<(), Box<RejectedCommand>> {
        let mut live = self.actors.0.lock();
        let mailbox = &live.entry(pk).or_insert_with(|| self.spawn_actor(pk)).mailbox;
        mailbox.try_send(command).map_err(|error| Box::new(RejectedCommand { error, mailbox: mailbox.clone() }))
    }

    /// Sends a command and waits for its reply.
    pub(super) async fn request<T>(
        self: &Arc<Self>,
        pk: ThreadPk,
        command: impl FnOnce(oneshot::Sender<Result<T, CommandError>>) -> Command,
    ) -> Result<T, CommandError> {
        let (reply, answer) = oneshot::channel();
        self.send(pk, command(reply)).await?;
        answer.await.unwrap_or_else(|_| Err(self.task_ended().into()))
    }

    /// The thread's task ended without a reply: the drain is over, or it panicked.
    fn task_ended(&self) -> Fault {
        let is_stopped = self.stop.accepting().err().filter(|_| self.stop.halted.is_cancelled());
        is_stopped.unwrap_or_else(|| {
            Fault::new(Code::Internal, "The thread's task failed. Everything that was committed is kept; try again.")
        })
    }

    /// Has the thread's task decide on `event`, and commit the decision together with `extras`.
    pub(super) async fn decide(
        self: &Arc<Self>,
        pk: ThreadPk,
        event: Event,
        extras: CommitExtras,
    ) -> Result<DecisionResult, CommandError> {
        let (event, extras) = (Arc::new(event), Box::new(extras));
        self.request(pk, |reply| Command::Decide { event, extras, reply }).await
    }

    /// Has the thread's task do what is due, and waits until that is durable.
    pub(super) async fn wake(self: &Arc<Self>, pk: ThreadPk) -> Result<(), CommandError> {
        self.request(pk, |reply| Command::Wake { reply }).await
    }

    fn spawn_actor(self: &Arc<Self>, pk: ThreadPk) -> LiveActor {
        let known = KnownVersion::none();
        let known_here = known.clone();
        let (mailbox, receiver) = mpsc::channel(self.config.limits.mailbox.max(1));
        let shared = self.clone();
        self.stop.tasks.spawn(async move {
            let actor = Actor::new(shared.clone(), pk, receiver, known_here);
            if AssertUnwindSafe(actor.run()).catch_unwind().await.is_err() {
                tracing::error!(threadPk = pk.0, "a thread's task panicked; it is started again from the stored state");
                shared.actors.remove(pk);
                shared.stop.draining.run_until_cancelled(shared.restart_after_panic(pk)).await;
            }
        });
        LiveActor { mailbox, known }
    }

    /// Counts the crash in the store, retrying until that succeeds, then wakes the thread in the same way.
    async fn restart_after_panic(self: &Arc<Self>, pk: ThreadPk) {
        let mut pause = RESTART_PAUSE;
        sleep(pause).await;
        while let Err(error) = self.store.count_crash(pk).await {
            if pause == RESTART_PAUSE {
                tracing::warn!(threadPk = pk.0, %error, "a crash of a thread could not be counted; it is tried again, less and less often");
            }
            pause = (pause * 2).min(MAX_RESTART_PAUSE);
            sleep(pause).await;
        }
        pause = RESTART_PAUSE;
        loop {
            match self.store.thread_by_pk(pk).await {
                // A quarantined thread is only woken to end its runs: rebuilding it may be what panicked.
                Ok(Some(row)) if row.status == ThreadStatus::Quarantined && row.wake_at.is_none() => return,
                Ok(_) | Err(_) => {}
            }
            let Err(refusal) = self.wake_after_panic(pk).await else { return };
            if pause == RESTART_PAUSE {
                tracing::warn!(
                    threadPk = pk.0,
                    ?refusal,
                    "a thread whose task panicked could not be woken; it is tried again, less and less often"
                );
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_RESTART_PAUSE);
        }
    }

    /// Wakes the thread after a panic: the store does not show it as due, because its effects ran in this process. An error: try
    /// again. If the new task panics too, its own restart handles that.
    async fn wake_after_panic(self: &Arc<Self>, pk: ThreadPk) -> Result<(), CommandError> {
        let (reply, answer) = oneshot::channel();
        self.send(pk, Command::Wake { reply }).await?;
        match answer.await {
            Ok(Err(CommandError::Gone)) | Err(_) => Ok(()),
            Ok(woken) => woken,
        }
    }
}

fn mailbox_full() -> Fault {
    Fault::new(Code::TooManyRequests, "Too many requests wait for this thread's turn.").retry_after(500)
}
