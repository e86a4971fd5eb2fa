//! Who listens to runs that end when nobody does: for clients whose stop button is a closed connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::app_state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::RunId;
use crate::domain::run::RunStatus;
use crate::service::runs;

/// How many listen in this process, by run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners(Arc<Mutex<HashMap<RunId, usize>>>);

/// Somebody listens to a run. When this is dropped before the end was told, and nobody else listens after the grace, then
/// the run is cancelled, unless it waits for a person.
pub(crate) struct Listening {
    app: AppState,
    caller: Caller,
    run: RunId,
    /// `None`: the run goes on without listeners.
    grace: Option<Duration>,
}

impl Listening {
    pub(crate) fn to(app: &AppState, caller: &Caller, run: &RunId, grace: Option<Duration>) -> Self {
        *app.listeners.0.lock().entry(run.clone()).or_default() += 1;
        Self { app: app.clone(), caller: caller.clone(), run: run.clone(), grace }
    }

    /// The end was told, or the run is not to end with its listeners.
    pub(crate) fn told_all(&mut self) {
        self.grace = None;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut all = self.app.listeners.0.lock();
        if let Some(count) = all.get_mut(&self.run) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.run);
            }
        }
        drop(all);
        // A server that stops hangs up on everybody.
        if let Some(grace) = self.grace.filter(|_| !self.app.stopping.is_cancelled()) {
            tokio::spawn(cancel_unheard(self.app.clone(), self.caller.clone(), self.run.clone(), grace));
        }
    }
}

async fn cancel_unheard(app: AppState, caller: Caller, run: RunId, grace: Duration) {
    if app.stopping.run_until_cancelled(tokio::time::sleep(grace)).await.is_none() {
        return;
    }
    if app.listeners.0.lock().contains_key(&run) {
        return;
    }
    let goes_on = match runs::get(&app.service, &caller, &run).await {
        Ok(run) => matches!(run.status, RunStatus::Running | RunStatus::Queued | RunStatus::Waiting),
        Err(_) => false,
    };
    if goes_on {
        tracing::debug!(runId = %run, "cancelled: its client hung up");
        if let Err(error) = runs::cancel(&app.service, &caller, &run, None).await {
            tracing::debug!(runId = %run, %error, "a run that nobody listens to is not cancelled");
        }
    }
}
