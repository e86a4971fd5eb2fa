//! Threads that are made before a request is accepted on them: a copy of another thread, or one of another core. Libraries send a
//! request that was refused again, and each time would leave one more behind.

use std::panic::resume_unwind;

use super::asking::{Asker, Begun};
use super::refusal::Refusal;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::service::once::Answered;
use crate::service::threads::NewThreadAsk;
use crate::service::{fork, threads};

/// A thread that was made for a request. When this is dropped it is erased unless something was asked on it, so also where the
/// client hangs up.
pub(super) struct Made {
    pub(super) thread: ThreadId,
    /// Who erases it; `None`: it stays.
    by: Option<(AppState, Caller)>,
}

impl Made {
    fn new(app: AppState, caller: Caller, thread: ThreadId) -> Self {
        Self { thread, by: Some((app, caller)) }
    }

    /// A copy of a thread as of a place in its log, under this id.
    pub(super) async fn copy(asker: &Asker, of: &ThreadId, at: i64, id: ThreadId) -> Result<Self, Fault> {
        let (app, caller, of) = (asker.app.clone(), asker.caller.clone(), of.clone());
        to_the_end(async move {
            fork::fork(&app.service, &caller, &of, Some(at), Some(id.clone()), None).await?;
            Ok(Self::new(app, caller, id))
        })
        .await
    }

    /// The thread under this id; `None`: it was there before.
    pub(super) async fn create(asker: &Asker, id: ThreadId, ask: NewThreadAsk) -> Result<Option<Self>, Fault> {
        let (app, caller) = (asker.app.clone(), asker.caller.clone());
        let ask = NewThreadAsk { thread_id: Some(id.clone()), ..ask };
        to_the_end(async move {
            match threads::create(&app.service, &caller, ask, None).await {
                Err(fault) if fault.code == Code::ThreadExists => Ok(None),
                made => Ok(matches!(made?, Answered::Fresh((_, true))).then(|| Self::new(app, caller, id))),
            }
        })
        .await
    }

    /// It stays if this began on it; else nothing is left of it when this returns.
    pub(super) async fn settle(self, begun: &Result<Begun, Refusal>) {
        if begun.as_ref().is_ok_and(|begun| begun.thread == self.thread) {
            self.keep();
        } else {
            self.erase().await;
        }
    }

    pub(super) fn keep(mut self) {
        self.by = None;
    }

    async fn erase(mut self) {
        if let Some((app, caller)) = self.by.take() {
            // Also where its client hangs up meanwhile.
            let _ = tokio::spawn(erase_unused(app, caller, self.thread.clone())).await;
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some((app, caller)) = self.by.take() {
            tokio::spawn(erase_unused(app, caller, self.thread.clone()));
        }
    }
}

async fn erase_unused(app: AppState, caller: Caller, thread: ThreadId) {
    match threads::delete_unused(&app.service, &caller, &thread).await {
        Err(fault) if fault.code == Code::NotFound => {}
        Err(error) => tracing::warn!(threadId = %thread, %error, "a thread stays whose request was refused"),
        Ok(_) => {}
    }
}

/// Does it also where nobody waits for it any more: what was made is known then, and erased.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(work).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}
