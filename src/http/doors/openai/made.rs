//! Threads that are made before a request is accepted on them: a copy of another thread, or one of another core. Libraries send a
//! request that was refused again, and each time would leave one more behind. Also those that nobody needs once their answer is
//! told.

use std::panic::resume_unwind;

use super::asking::{Asker, Begun};
use super::refusal::Refusal;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::service::once::Answered;
use crate::service::threads::NewThreadAsk;
use crate::service::{fork, retention, threads};

/// A thread that was made for a request. When this is dropped it is erased, so also where the client hangs up.
pub(super) struct Made {
    pub(super) thread: ThreadId,
    stays: Stays,
    /// Who erases it; `None`: it was erased, or stays.
    by: Option<(AppState, Caller)>,
}

/// When such a thread stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    /// Once something was asked on it.
    Used,
    Never,
}

impl Made {
    fn new(app: AppState, caller: Caller, thread: ThreadId) -> Self {
        Self { thread, stays: Stays::Used, by: Some((app, caller)) }
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

    /// The same; it never stays. Where no server is there to erase it, as this one stopped or died, it is deleted when it is a
    /// day old.
    pub(super) async fn create_to_throw_away(
        asker: &Asker,
        id: ThreadId,
        ask: NewThreadAsk,
    ) -> Result<Option<Self>, Fault> {
        let Some(mut made) = Self::create(asker, id, ask).await? else { return Ok(None) };
        made.stays = Stays::Never;
        retention::keep_shortly(&asker.app.service, &asker.caller, &made.thread).await?;
        Ok(Some(made))
    }

    /// What begins on it; where something else did, or nothing, nothing is left of it when this returns.
    pub(super) async fn settle(mut self, begun: Result<Begun, Refusal>) -> Result<Begun, Refusal> {
        match begun {
            Ok(begun) if begun.thread == self.thread => match self.stays {
                Stays::Never => Ok(Begun { throw_away: Some(self), ..begun }),
                Stays::Used => {
                    self.by = None;
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
        if let Some(erased) = self.erased() {
            // Also where its client hangs up meanwhile.
            let _ = tokio::spawn(erased).await;
        }
    }

    fn erased(&mut self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let (app, caller) = self.by.take()?;
        Some(erase(app, caller, self.thread.clone(), self.stays))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(erased) = self.erased() {
            tokio::spawn(erased);
        }
    }
}

async fn erase(app: AppState, caller: Caller, thread: ThreadId, stays: Stays) {
    let erased = match stays {
        Stays::Used => threads::delete_unused(&app.service, &caller, &thread).await.map(drop),
        Stays::Never => threads::delete(&app.service, &caller, &thread).await,
    };
    match erased {
        Err(fault) if fault.code == Code::NotFound => {}
        Err(error) => tracing::warn!(threadId = %thread, %error, "a thread stays that was made for one request"),
        Ok(()) => {}
    }
}

/// Does it also where nobody waits for it any more: what was made is known then, and erased.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(work).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}
