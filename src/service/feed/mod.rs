//! A thread's log as clients read it: page by page, or as a live feed, whose frames programs read as
//! [`Frame`](crate::domain::frame::Frame).

mod early;
mod folds;
mod live;
mod log;
mod run_frames;
mod until;

use serde::Serialize;

use super::{Result, Service, runs};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadPk};
use crate::domain::observation::{Observation, ObservationType};

pub use crate::live::{Encoded, EncodedKind};
pub use early::EarlySubscription;
pub use live::{Feed, after_seq, before, continued, open, subscribe};
pub use log::page;

pub(super) use folds::FoldCache;
pub(super) use log::{LogReader, fold_to};

/// A page of a thread's log.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventsPage {
    /// Oldest first.
    pub items: Vec<Observation>,
    /// The `after` of the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// The seq of the thread's newest observation, also if it is on another page.
    pub last_seq: i64,
    /// The seq of the oldest observation that is kept.
    pub min_seq: i64,
}

/// Where a feed begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Behind this seq; 0: from the beginning.
    Seq(i64),
    /// Live only.
    Latest,
}

impl Default for After {
    fn default() -> Self {
        After::Seq(0)
    }
}

/// What a feed sends. By default all observations from the beginning of the log, and without an end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeedAsk {
    /// Where it begins.
    pub after: After,
    /// Empty = all.
    pub types: Vec<ObservationType>,
    /// Whether the text of models is sent while it is written.
    pub tokens: bool,
    /// The feed ends after this run's `RUN_FINISHED`.
    pub until: Option<RunId>,
    /// It also ends when that run is suspended and nothing of it runs any more.
    pub ends_suspended: bool,
}

impl FeedAsk {
    /// Fails if `until` is no run of this thread.
    async fn check_until(&self, service: &Service, caller: &Caller, thread: ThreadPk) -> Result<()> {
        if let Some(run) = &self.until
            && runs::stored(service, caller, run).await?.0 != thread
        {
            return Err(Fault::not_found("run"));
        }
        Ok(())
    }

    /// The types to subscribe to: those that are wanted, and `RUN_FINISHED` if the feed ends with a run.
    fn subscribed_types(&self) -> Vec<ObservationType> {
        let mut types = self.types.clone();
        if self.until.is_some() && !types.is_empty() {
            types.push(ObservationType::RunFinished);
        }
        types
    }

    /// The types to read from the store: those to subscribe to, and those that are recorded when the status of a run
    /// changes. If another process made the change, there is no frame of the run, and the feed makes one.
    fn read_types(&self) -> Vec<ObservationType> {
        let mut types = self.subscribed_types();
        if !types.is_empty() {
            types.extend(ObservationType::OF_CALLER_STATUS);
            types.extend([ObservationType::A2aTask, ObservationType::StateUpdate]);
        }
        types
    }
}
