//! Cancels runs whose client has disconnected, for clients whose stop button closes the connection.

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

/// The number of connected clients in this process, by run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners(Arc<Mutex<HashMap<RunId, usize>>>);

/// A client that is connected to a run. When this is dropped before the end was sent, and no client is connected after
/// the grace period, the run is cancelled. It is not cancelled if it waits for a person, or if the caller's credentials
/// were no longer valid when this was dropped: then the server has closed the connection.
pub(crate) struct ConnectedClient {
    run: WatchedRun,
    /// `None` if the run goes on without clients.
    grace: Option<Duration>,
    announcing: Option<DropGuard>,
}

/// How often an announcement is renewed during its lifetime.
const RENEWALS_PER_LIFETIME: u32 = 3;

/// The minimum lifetime of an announcement.
const MIN_ANNOUNCEMENT: Duration = Duration::from_secs(3);

/// The minimum wait before a retry if the store did not answer.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl ConnectedClient {
    pub(crate) fn connect(
        app: &AppState,
        (caller, pass): (&Caller, &Pass),
        run: &RunId,
        grace: Option<Duration>,
        key: LookupKey,
    ) -> Self {
        *app.listeners.0.lock().entry(run.clone()).or_default() += 1;
        let (app, caller, pass) = (app.clone(), caller.clone(), pass.clone());
        Self { run: WatchedRun { app, caller, pass, id: run.clone(), key }, grace, announcing: None }
    }

    /// The end was sent, so the run is not cancelled.
    pub(crate) fn mark_finished(&mut self) {
        self.grace = None;
    }

    /// Announces this client to all processes. The client's first request may have been served by another process.
    pub(crate) async fn announce(&mut self) -> Result<(), Fault> {
        let Some(grace) = self.grace else { return Ok(()) };
        let (run, lifetime) = (self.run.clone(), grace.max(MIN_ANNOUNCEMENT));
        run.announce_client(lifetime).await?;
        let over = run.app.stopping.child_token();
        self.announcing = Some(over.clone().drop_guard());
        tokio::spawn(async move {
            while over.run_until_cancelled(tokio::time::sleep(lifetime / RENEWALS_PER_LIFETIME)).await.is_some() {
                if let Err(error) = run.announce_client(lifetime).await {
                    tracing::debug!(runId = %run.id, %error, "a connected client is not announced");
                }
            }
        });
        Ok(())
    }
}

impl Drop for ConnectedClient {
    fn drop(&mut self) {
        let WatchedRun { app, id, .. } = &self.run;
        let mut all = app.listeners.0.lock();
        if let Some(count) = all.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                all.remove(id);
            }
        }
        drop(all);
        // A server that stops closes every connection.
        if let Some(grace) = self.grace.filter(|_| !app.stopping.is_cancelled()) {
            tokio::spawn(self.run.clone().cancel_after(grace));
        }
    }
}

/// A run that a client watches, or watched until it disconnected.
#[derive(Clone)]
struct WatchedRun {
    app: AppState,
    caller: Caller,
    pass: Pass,
    id: RunId,
    /// The key under which a connected client is announced to other processes.
    key: LookupKey,
}

impl WatchedRun {
    /// Announces a connected client to all processes, for this long.
    async fn announce_client(&self, lifetime: Duration) -> Result<(), Fault> {
        let lasts = Millis::try_from(lifetime.as_millis()).unwrap_or(Millis::MAX);
        lookups::listen(&self.app.service, &self.caller, &self.key, &self.id, lasts).await?;
        Ok(())
    }

    /// How long an announcement of another process is still valid.
    async fn announcement_left(&self) -> Result<Duration, Fault> {
        let found = lookups::find(&self.app.service, &self.caller, &self.key, 1).await?;
        let until = found.iter().find(|found| found.run_id == self.id).map_or(0, |found| found.listening_until);
        Ok(u64::try_from(until - self.app.service.now()).map(Duration::from_millis).unwrap_or_default())
    }

    /// Cancels the run if no client is connected after the grace period.
    async fn cancel_after(self, grace: Duration) {
        // The server closed the connection because the credentials had ended, so the run goes on. Credentials that end
        // during the grace period make no difference.
        if self.app.keys.ended(&self.pass).await.is_some() {
            return;
        }
        let mut wait = grace;
        while self.app.stopping.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
            if self.app.listeners.0.lock().contains_key(&self.id) {
                return;
            }
            let next = match self.end().await {
                Ok(next) => next,
                Err(fault) => retry_delay(&fault, &self.id).map(|pause| grace.max(pause)),
            };
            let Some(next) = next else { return };
            wait = next;
        }
    }

    /// How long another process's announcement is still valid. `None` if the run was cancelled now, or does not need to
    /// be.
    async fn end(&self) -> Result<Option<Duration>, Fault> {
        let wait = self.announcement_left().await?;
        if !wait.is_zero() {
            return Ok(Some(wait));
        }
        self.cancel().await.map(|()| None)
    }

    async fn cancel(&self) -> Result<(), Fault> {
        let (service, caller, run) = (&self.app.service, &self.caller, &self.id);
        let status = runs::get(service, caller, run).await?.status;
        if matches!(status, RunStatus::Running | RunStatus::Queued | RunStatus::Waiting) {
            tracing::debug!(runId = %run, "a run was cancelled because its client disconnected");
            runs::cancel(service, caller, run, None).await?;
        }
        Ok(())
    }
}

/// Cancels a run that nobody waits for any more. Retries while the store does not answer, until the server stops.
pub(crate) async fn cancel_until_done(app: &AppState, caller: &Caller, run: &RunId) {
    while let Err(fault) = runs::cancel(&app.service, caller, run, None).await {
        let Some(pause) = retry_delay(&fault, run) else { return };
        if app.stopping.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// When to retry a lookup or a cancellation that failed. `None` if the run has ended, or a retry would fail again.
fn retry_delay(fault: &Fault, run: &RunId) -> Option<Duration> {
    tracing::debug!(runId = %run, %fault, "cancelling an abandoned run failed");
    fault.code.retryable().then_some(RETRY_DELAY)
}
