//! Who listens to runs that end when nobody does: for clients whose stop button is a closed connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::DropGuard;

use super::app_state::AppState;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::RunId;
use crate::domain::lookup::LookupKey;
use crate::domain::run::RunStatus;
use crate::service::{lookups, runs};

/// How many listen in this process, by run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners(Arc<Mutex<HashMap<RunId, usize>>>);

/// Somebody listens to a run. When this is dropped before the end was told, and nobody else listens after the grace, then
/// the run is cancelled, unless it waits for a person.
pub(crate) struct Listening {
    app: AppState,
    caller: Caller,
    run: RunId,
    /// Under which other processes say that somebody listens.
    key: LookupKey,
    /// `None`: the run goes on without listeners.
    grace: Option<Duration>,
    announcing: Option<DropGuard>,
}

/// How often in the time for which it counts an announcement is made again.
const RENEWALS: u32 = 3;

/// An announcement counts for no shorter time.
const LEAST_ANNOUNCED: Duration = Duration::from_secs(3);

impl Listening {
    pub(crate) fn to(app: &AppState, caller: &Caller, run: &RunId, grace: Option<Duration>, key: LookupKey) -> Self {
        *app.listeners.0.lock().entry(run.clone()).or_default() += 1;
        Self { app: app.clone(), caller: caller.clone(), run: run.clone(), key, grace, announcing: None }
    }

    /// The end was told, or the run is not to end with its listeners.
    pub(crate) fn told_all(&mut self) {
        self.grace = None;
    }

    /// Every process sees from here on that somebody listens: the first listener may have been at another one.
    pub(crate) async fn is_announced(&mut self) -> Result<(), Fault> {
        let Some(grace) = self.grace else { return Ok(()) };
        let (app, caller, run, key) = (self.app.clone(), self.caller.clone(), self.run.clone(), self.key.clone());
        let counts = grace.max(LEAST_ANNOUNCED);
        let lasts = Millis::try_from(counts.as_millis()).unwrap_or(Millis::MAX);
        lookups::listen(&app.service, &caller, &key, &run, lasts).await?;
        let over = app.stopping.child_token();
        self.announcing = Some(over.clone().drop_guard());
        tokio::spawn(async move {
            while over.run_until_cancelled(tokio::time::sleep(counts / RENEWALS)).await.is_some() {
                if let Err(error) = lookups::listen(&app.service, &caller, &key, &run, lasts).await {
                    tracing::debug!(runId = %run, %error, "that somebody listens is not announced");
                }
            }
        });
        Ok(())
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
            let (app, caller) = (self.app.clone(), self.caller.clone());
            tokio::spawn(cancel_unheard(app, caller, self.run.clone(), self.key.clone(), grace));
        }
    }
}

async fn cancel_unheard(app: AppState, caller: Caller, run: RunId, key: LookupKey, grace: Duration) {
    let mut wait = grace;
    loop {
        if app.stopping.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
        if app.listeners.0.lock().contains_key(&run) {
            return;
        }
        wait = match announced(&app, &caller, &run, &key).await {
            Ok(Duration::ZERO) => break,
            Ok(wait) => wait,
            Err(error) => {
                tracing::debug!(runId = %run, %error, "whether somebody listens elsewhere is looked up again");
                grace
            }
        };
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

/// How long it still counts that somebody listens elsewhere.
async fn announced(app: &AppState, caller: &Caller, run: &RunId, key: &LookupKey) -> Result<Duration, Fault> {
    let found = lookups::find(&app.service, caller, key, 1).await?;
    let until = found.iter().find(|found| found.run_id == *run).map_or(0, |found| found.listening_until);
    Ok(u64::try_from(until - app.service.now()).map(Duration::from_millis).unwrap_or_default())
}
