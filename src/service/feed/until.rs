//! The run with which a feed ends.

use crate::domain::caller::Caller;
use crate::domain::fault::Code;
use crate::domain::ids::RunId;
use crate::domain::run::{Run, RunStatus};
use crate::service::{Result, Service, runs};

pub(super) struct EndCondition {
    pub run: RunId,
    /// The feed also ends when the run is suspended.
    pub ends_suspended: bool,
}

/// The state of that run.
pub(super) enum RunState {
    /// `None`: the feed ends with no run.
    Unfinished(Option<Box<Run>>),
    Ended(Box<Run>),
    /// The run was deleted with its thread.
    Erased,
}

impl EndCondition {
    pub fn is_met(&self, status: RunStatus) -> bool {
        status.is_terminal() || (self.ends_suspended && status == RunStatus::Suspended)
    }

    /// The state of the run as it is stored.
    pub async fn run_state(&self, service: &Service, caller: &Caller) -> Result<RunState> {
        match runs::stored(service, caller, &self.run).await {
            Ok((_, run)) if self.is_met(run.status) => Ok(RunState::Ended(Box::new(run))),
            Ok((_, run)) => Ok(RunState::Unfinished(Some(Box::new(run)))),
            Err(fault) if fault.code == Code::NotFound => Ok(RunState::Erased),
            Err(fault) => Err(fault),
        }
    }
}
