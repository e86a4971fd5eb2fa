//! Who listens to runs that end when nobody does: for clients whose stop button is a closed connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::DropGuard;

use super::app_state::AppState;
use crate::auth::Pass;
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
/// the run is cancelled, unless it waits for a person, or what its caller showed counts no more at that time: then the server
/// hung up.
pub(crate) struct Listening {
    app: AppState,
    caller: Caller,
    pass: Pass,
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

/// Where the store did not answer it is asked again no sooner.
const PAUSE: Duration = Duration::from_secs(1);

impl Listening {
    pub(crate) fn to(
        app: &AppState,
        (caller, pass): (&Caller, &Pass),
        run: &RunId,
        grace: Option<Duration>,
        key: LookupKey,
    ) -> Self {
        *app.listeners.0.lock().entry(run.clone()).or_default() += 1;
        let (app, caller, pass) = (app.clone(), caller.clone(), pass.clone());
        Self { app, caller, pass, run: run.clone(), key, grace, announcing: None }
    }

    /// The end was told, or the run is not to end with its listeners.
    pub(crate) fn told_all(&mut self) {
        self.grace = None;
    }

    /// Every process sees from here on that somebody listens: the first listener may have been at another one.
    pub(crate) async fn announce(&mut self) -> Result<(), Fault> {
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
            let (app, caller, pass) = (self.app.clone(), self.caller.clone(), self.pass.clone());
            let unheard = Unheard { app, caller, pass, run: self.run.clone(), key: self.key.clone() };
            tokio::spawn(unheard.ends_after(grace));
        }
    }
}

/// A run whose listener is gone.
struct Unheard {
    app: AppState,
    caller: Caller,
    pass: Pass,
    run: RunId,
    key: LookupKey,
}

impl Unheard {
    /// Cancels the run if nobody listens by then.
    async fn ends_after(self, grace: Duration) {
        // The server hung up, and not the client: what was asked for while the pass counted goes on. What ends only within
        // the grace has nothing to do with who hung up.
        if self.app.keys.ended(&self.pass).await.is_some() {
            return;
        }
        let mut wait = grace;
        while self.app.stopping.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
            if self.app.listeners.0.lock().contains_key(&self.run) {
                return;
            }
            let next = match self.end().await {
                Ok(next) => next,
                Err(fault) => pause_after(&fault, &self.run).map(|pause| grace.max(pause)),
            };
            let Some(next) = next else { return };
            wait = next;
        }
    }

    /// How long it still counts that somebody listens elsewhere; `None`: the run is cancelled now, or is not to be.
    async fn end(&self) -> Result<Option<Duration>, Fault> {
        let wait = announced(&self.app, &self.caller, &self.run, &self.key).await?;
        if !wait.is_zero() {
            return Ok(Some(wait));
        }
        self.cancel().await.map(|()| None)
    }

    async fn cancel(&self) -> Result<(), Fault> {
        let (service, caller, run) = (&self.app.service, &self.caller, &self.run);
        let status = runs::get(service, caller, run).await?.status;
        if matches!(status, RunStatus::Running | RunStatus::Queued | RunStatus::Waiting) {
            tracing::debug!(runId = %run, "cancelled: its client hung up");
            runs::cancel(service, caller, run, None).await?;
        }
        Ok(())
    }
}

/// Cancels a run that nobody waits for any more; again and again while the store does not answer, until the server stops.
pub(crate) async fn cancel_until_done(app: &AppState, caller: &Caller, run: &RunId) {
    while let Err(fault) = runs::cancel(&app.service, caller, run, None).await {
        let Some(pause) = pause_after(&fault, run) else { return };
        if app.stopping.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// When a run is looked up or cancelled again that was not now; `None`: never, as it is over, or would be refused again.
fn pause_after(fault: &Fault, run: &RunId) -> Option<Duration> {
    tracing::debug!(runId = %run, %fault, "a run that nobody waits for is not cancelled");
    fault.code.retryable().then_some(PAUSE)
}

/// How long it still counts that somebody listens elsewhere.
async fn announced(app: &AppState, caller: &Caller, run: &RunId, key: &LookupKey) -> Result<Duration, Fault> {
    let found = lookups::find(&app.service, caller, key, 1).await?;
    let until = found.iter().find(|found| found.run_id == *run).map_or(0, |found| found.listening_until);
    Ok(u64::try_from(until - app.service.now()).map(Duration::from_millis).unwrap_or_default())
}
