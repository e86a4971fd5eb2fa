//! Threads that are created before their request is accepted (a copy of another thread, or a thread with another core),
//! and threads for a single request. Client libraries repeat refused requests, so each refusal would leave another
//! unused thread.

use std::panic::resume_unwind;

use super::error::OpenAiError;
use super::run_request::StartedRun;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::doors::DoorRequest;
use crate::service::once::Answered;
use crate::service::threads::NewThreadAsk;
use crate::service::{fork, retention, threads};

/// A thread that was created for one request. Dropping this erases the thread, so it is also erased if the client
/// disconnects.
pub(super) struct TemporaryThread {
    pub(super) thread: ThreadId,
    keep: KeepPolicy,
    /// Who erases it. `None` if it was erased, or is kept.
    owner: Option<(AppState, Caller)>,
}

/// Whether the thread is kept after the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeepPolicy {
    /// It is kept once a run was started on it.
    IfStarted,
    Never,
}

impl TemporaryThread {
    fn new(app: AppState, caller: Caller, thread: ThreadId) -> Self {
        Self { thread, keep: KeepPolicy::IfStarted, owner: Some((app, caller)) }
    }

    /// Copies a thread as of this `seq`, under this id.
    pub(super) async fn copy(ctx: &DoorRequest, of: &ThreadId, at: i64, id: ThreadId) -> Result<Self, Fault> {
        let (app, caller, of) = (ctx.app.clone(), ctx.caller.clone(), of.clone());
        run_to_completion(async move {
            fork::fork(&app.service, &caller, &of, Some(at), Some(id.clone()), None).await?;
            Ok(Self::new(app, caller, id))
        })
        .await
    }

    /// Creates the thread with this id. `None` if it existed before.
    pub(super) async fn create(ctx: &DoorRequest, id: ThreadId, ask: NewThreadAsk) -> Result<Option<Self>, Fault> {
        let (app, caller) = (ctx.app.clone(), ctx.caller.clone());
        let ask = NewThreadAsk { thread_id: Some(id.clone()), ..ask };
        run_to_completion(async move {
            match threads::create(&app.service, &caller, ask, None).await {
                Err(fault) if fault.code == Code::ThreadExists => Ok(None),
                created => Ok(matches!(created?, Answered::Fresh((_, true))).then(|| Self::new(app, caller, id))),
            }
        })
        .await
    }

    /// Like [`create`](Self::create), but the thread is never kept. If this server stops or crashes before it erases
    /// the thread, the retention deletes it after a day.
    pub(super) async fn create_temporary(
        ctx: &DoorRequest,
        id: ThreadId,
        ask: NewThreadAsk,
    ) -> Result<Option<Self>, Fault> {
        let Some(mut created) = Self::create(ctx, id, ask).await? else { return Ok(None) };
        created.keep = KeepPolicy::Never;
        retention::keep_shortly(&ctx.app.service, &ctx.caller, &created.thread).await?;
        Ok(Some(created))
    }

    /// Decides what happens to the thread once the run was started. If the run started on another thread, or not at
    /// all, the thread is erased before this returns.
    pub(super) async fn settle(mut self, begun: Result<StartedRun, OpenAiError>) -> Result<StartedRun, OpenAiError> {
        match begun {
            Ok(begun) if begun.thread == self.thread => match self.keep {
                KeepPolicy::Never => Ok(StartedRun { temporary: Some(self), ..begun }),
                KeepPolicy::IfStarted => {
                    self.owner = None;
                    Ok(begun)
                }
            },
            other => {
                self.erase().await;
                other
            }
        }
    }

    pub(super) async fn erase(mut self) {
        if let Some(erased) = self.take_erasure() {
            // In its own task, so that it completes even if the client disconnects.
            let _ = tokio::spawn(erased).await;
        }
    }

    fn take_erasure(&mut self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let (app, caller) = self.owner.take()?;
        Some(erase(app, caller, self.thread.clone(), self.keep))
    }
}

impl Drop for TemporaryThread {
    fn drop(&mut self) {
        if let Some(erased) = self.take_erasure() {
            tokio::spawn(erased);
        }
    }
}

async fn erase(app: AppState, caller: Caller, thread: ThreadId, keep: KeepPolicy) {
    let erased = match keep {
        KeepPolicy::IfStarted => threads::delete_unused(&app.service, &caller, &thread).await.map(drop),
        KeepPolicy::Never => threads::delete(&app.service, &caller, &thread).await,
    };
    match erased {
        Err(fault) if fault.code == Code::NotFound => {}
        Err(error) => {
            tracing::warn!(threadId = %thread, %error, "a thread that was made for one request was not erased")
        }
        Ok(()) => {}
    }
}

/// Completes the work even if the caller is dropped. The created thread is then known, and is erased.
async fn run_to_completion<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(work).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}
