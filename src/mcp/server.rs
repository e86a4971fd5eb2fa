//! Supervises one server: starts it, lists its tools, and restarts it with exponential backoff when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, SemaphorePermit, watch};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::beginning::Beginning;
use super::call_errors::cut;
use super::call_permits::CallPermits;
use super::changes::ChangeCounts;
use super::client::{Connection, RELIST_PAUSE};
use super::credentials::Refusal;
use super::definition::Definition;
use super::listing::ListingError;
use crate::config::McpServer;
use crate::domain::ids::TenantPk;
use crate::domain::tool::{CallCode, ToolError};
use crate::egress::Egress;

pub(super) const MIN_BACKOFF: Duration = Duration::from_millis(500);
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// How long a server must have been up, or a subscription must have lasted, for the backoff to be reset.
pub(super) const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(60);
/// How many calls a server must have answered for the backoff to be reset, however soon it ended: it works, and something
/// ends it again and again.
const BACKOFF_RESET_ANSWERS: u32 = 3;
/// How long a call waits for a server that is down. While the server starts for the first time, a call waits for the
/// start timeout if that is longer.
const MAX_CALL_WAIT: Duration = Duration::from_secs(10);
/// How much is kept and logged of why a server is down. It may have said that itself, at any length.
const MAX_REASON_CHARS: usize = 2_000;
/// Change notifications within this time are handled together. The time doubles with each notification that brings no
/// change, so a server that notifies all the time is queried less often.
const MIN_DEBOUNCE: Duration = Duration::from_millis(200);
const MAX_DEBOUNCE: Duration = Duration::from_secs(5);

/// A server's configuration and its owner.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) name: Arc<str>,
    /// `None`: the operator's server, which every tenant may use.
    pub(super) owner: Option<TenantPk>,
    pub(super) settings: McpServer,
    /// The timeout until the tools are listed.
    pub(super) start: Duration,
    pub(super) message_bytes: usize,
    pub(super) most_tools: usize,
}

impl Profile {
    /// The label in metrics. Names that tenants chose are not exposed there.
    pub(super) fn label(&self) -> String {
        match self.owner {
            None => self.name.to_string(),
            Some(_) => "tenant".to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = McpHealth)]
pub enum Health {
    Starting,
    Ready,
    Down,
    Disabled,
}

/// A snapshot of a server's state.
#[derive(Clone, Debug)]
pub(super) struct ServerState {
    pub(super) health: Health,
    /// Why the server is down.
    pub(super) why: Option<String>,
    pub(super) restarts: u32,
    pub(super) protocol: Option<String>,
    /// The tools that it listed last; `None`: none were listed yet.
    pub(super) listed: Option<Arc<[Arc<Definition>]>>,
    /// Incremented whenever `listed` changes.
    pub(super) listing: u64,
    /// The server has more tools than the limit.
    pub(super) has_more: bool,
}

impl ServerState {
    /// Stores a new listing if it differs from the last one; returns whether it does.
    fn set_listing(&mut self, definitions: Vec<Definition>, has_more: bool) -> bool {
        let is_same = |known: &Arc<[Arc<Definition>]>| {
            let is_alike =
                |(old, new): (&Arc<Definition>, &Definition)| old.hash() == new.hash() && old.refused == new.refused;
            known.len() == definitions.len() && known.iter().zip(&definitions).all(is_alike)
        };
        if self.has_more == has_more && self.listed.as_ref().is_some_and(is_same) {
            return false;
        }
        self.listed = Some(definitions.into_iter().map(Arc::new).collect());
        self.has_more = has_more;
        self.listing += 1;
        true
    }
}

pub(super) struct Server {
    pub(super) profile: Profile,
    state: Mutex<ServerState>,
    beginning: Beginning,
    connection: watch::Sender<Option<Arc<Connection>>>,
    /// How many calls it has answered since it was started last.
    answers: AtomicU32,
    pub(super) call_permits: CallPermits,
    stop: CancellationToken,
    changes: ChangeCounts,
    /// The listing and the version of the pins for which new tools were pinned and changes logged.
    processed: Mutex<Option<(u64, i64)>>,
}

impl Server {
    /// Starts the supervision in the background.
    pub(super) fn start(profile: Profile, egress: Arc<Egress>, changes: ChangeCounts) -> Arc<Self> {
        let state = ServerState {
            health: Health::Starting,
            why: None,
            restarts: 0,
            protocol: None,
            listed: None,
            listing: 0,
            has_more: false,
        };
        let half = Duration::from_millis(profile.settings.timeout_ms.into()) / 2;
        let (connection, call_permits, stop) =
            (watch::Sender::new(None), CallPermits::new(half), CancellationToken::new());
        let (state, beginning) = (Mutex::new(state), Beginning::default());
        let (answers, processed) = (AtomicU32::default(), Mutex::default());
        let server = Self { profile, state, beginning, connection, answers, call_permits, stop, changes, processed };
        let server = Arc::new(server);
        let supervisor = server.clone();
        tokio::spawn(async move {
            supervisor.stop.clone().run_until_cancelled(supervisor.supervise(egress)).await;
            // The supervisor may have been polled once more after `end`, and may have published a connection.
            supervisor.connection.send_replace(None);
        });
        server
    }

    /// Stops the server; calls in flight are lost.
    pub(super) fn end(&self) {
        self.stop.cancel();
        self.connection.send_replace(None);
    }

    /// The tools of the last listing, once there was one.
    pub(super) fn listed(&self) -> Option<Arc<[Arc<Definition>]>> {
        self.lock().listed.clone()
    }

    pub(super) fn state(&self) -> ServerState {
        self.lock().clone()
    }

    /// Whether tools of that listing need no pinning or logging, given that version of the pins.
    pub(super) fn is_processed(&self, seen: (u64, i64)) -> bool {
        *self.processed.lock() == Some(seen)
    }

    pub(super) fn mark_processed(&self, seen: (u64, i64)) {
        *self.processed.lock() = Some(seen);
    }

    /// Waits for the connection and for a permit for one call. The wait ends well before the call's own timeout;
    /// otherwise a call that was never sent would be reported as possibly executed.
    pub(super) async fn connection(&self) -> Result<(Arc<Connection>, SemaphorePermit<'_>), ToolError> {
        let health = self.lock().health;
        let max_wait = match health {
            Health::Starting => self.profile.start.max(MAX_CALL_WAIT),
            Health::Ready | Health::Down | Health::Disabled => MAX_CALL_WAIT,
        };
        let until = Instant::now() + max_wait.min(self.call_permits.max_wait);
        let Some(permit) = self.call_permits.acquire(until).await else {
            return Err(self.unavailable("it has not answered the calls before this one".to_owned()));
        };
        let mut live = self.connection.subscribe();
        let is_live = |live: &Option<Arc<Connection>>| live.as_ref().is_some_and(|live| live.is_live());
        let found = timeout_at(until, live.wait_for(is_live)).await;
        match found.ok().and_then(Result::ok).and_then(|live| live.clone()) {
            Some(connection) => Ok((connection, permit)),
            None => {
                let why =
                    self.state().why.map_or_else(|| "it has not started yet".to_owned(), |why| self.public_reason(why));
                Err(self.unavailable(why))
            }
        }
    }

    /// Records that it has answered a call.
    pub(super) fn record_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    fn unavailable(&self, why: String) -> ToolError {
        ToolError::new(CallCode::Unavailable, format!("The MCP server `{}` does not answer: {why}", self.profile.name))
    }

    /// The reason as runs and models see it. Errors of the operator's servers may contain the operator's secrets and
    /// folders, so they are only logged.
    pub(super) fn public_reason(&self, why: String) -> String {
        match self.profile.owner {
            Some(_) => why,
            None => "it is down; the log of this server says why".to_owned(),
        }
    }

    async fn supervise(&self, egress: Arc<Egress>) {
        let mut backoff = Backoff::default();
        loop {
            let began = Instant::now();
            let why = cut(self.run_connection(&egress).await, MAX_REASON_CHARS);
            self.connection.send_replace(None);
            tracing::warn!(server = &*self.profile.name, why, "an MCP server is down; it is started again");
            metrics::counter!("pes_mcp_restarts_total", "server" => self.profile.label()).increment(1);
            self.update(|state| {
                state.health = Health::Down;
                state.why = Some(why);
                state.restarts += 1;
            });
            sleep(backoff.pause_after(began.elapsed(), self.answers.swap(0, Ordering::Relaxed))).await;
        }
    }

    /// Runs one connection from start to end. Returns why it ended.
    async fn run_connection(&self, egress: &Arc<Egress>) -> String {
        let (changed, refusal) = (Arc::new(Notify::new()), Refusal::default());
        let mut refused = refusal.subscribe();
        let mut opened = None;
        let ready = timeout(self.profile.start, async {
            let connection =
                Connection::open(&self.profile, &self.beginning, egress, changed.clone(), refusal.clone()).await?;
            let connection = opened.insert(connection);
            match self.refresh_tools(connection).await {
                Ok(_) => Ok(()),
                Err(ListingError { has_ended: true, .. }) => Err(connection.ended().await),
                Err(error) => Err(error.why),
            }
        });
        let connection = match (ready.await, opened) {
            (Ok(Err(why)), _) => return why,
            (Ok(Ok(())), Some(connection)) => Arc::new(connection),
            (Ok(Ok(())) | Err(_), opened) => {
                if let Some(connection) = opened {
                    connection.close().await;
                }
                let late = format!("it was not ready within {} ms", self.profile.start.as_millis());
                return self.beginning.with_last_output(&late);
            }
        };
        self.connection.send_replace(Some(connection.clone()));
        tracing::info!(server = &*self.profile.name, "an MCP server is ready");
        self.update(|state| {
            state.health = Health::Ready;
            state.why = None;
            state.protocol = connection.protocol();
        });
        let mut listens = std::pin::pin!(connection.listen());
        let refresh = || self.refresh_tools(&connection);
        let refreshes = refresh_when_announced(&self.profile.name, &changed, self.profile.start, refresh);
        let mut refreshes = std::pin::pin!(refreshes);
        loop {
            tokio::select! {
                why = connection.ended() => return why,
                // Calls in flight hold their own reference to the connection until they are answered.
                why = connection.session_ended() => return why.to_owned(),
                () = &mut listens => {}
                Ok(()) = refused.changed() => {
                    let why = refused.borrow_and_update().clone();
                    self.on_refusal(why);
                }
                why = &mut refreshes => return why,
            }
        }
    }

    /// The server refused a call for its credentials; `None`: it has carried out another since. Calls are sent to it all
    /// the same.
    fn on_refusal(&self, why: Option<String>) {
        let why = why.map(|why| cut(why, MAX_REASON_CHARS));
        if let Some(why) = &why {
            tracing::warn!(server = &*self.profile.name, why, "an MCP server refuses its credentials");
        }
        self.update(|state| {
            state.health = if why.is_some() { Health::Down } else { Health::Ready };
            state.why = why;
        });
    }

    /// Lists the tools. Returns whether they have changed; only then agents are offered something else.
    async fn refresh_tools(&self, connection: &Connection) -> Result<bool, ListingError> {
        let (definitions, has_more) = connection.definitions(&self.profile).await?;
        let has_changed = self.lock().set_listing(definitions, has_more);
        if has_changed {
            self.changes.count(self.profile.owner);
        }
        Ok(has_changed)
    }

    fn update(&self, change: impl FnOnce(&mut ServerState)) {
        change(&mut self.lock());
        self.changes.wake();
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock()
    }
}

/// The pauses before a server is started again.
struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(MIN_BACKOFF)
    }
}

impl Backoff {
    /// The pause after the server was up for this time and answered this number of calls.
    fn pause_after(&mut self, up: Duration, answers: u32) -> Duration {
        if up > BACKOFF_RESET_AFTER || answers >= BACKOFF_RESET_ANSWERS {
            self.0 = MIN_BACKOFF;
        }
        let next = (self.0 * 2).min(MAX_BACKOFF);
        std::mem::replace(&mut self.0, next)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Lists the tools again whenever the server has announced a change. `refresh` returns whether they have changed; it may
/// take as long as `limit`. If they are not listed, those that were listed last stay, as the server may do its calls all
/// the same, and they are listed again after a pause. Returns why the server cannot be reached any more.
async fn refresh_when_announced<F: Future<Output = Result<bool, ListingError>>>(
    server: &str,
    announced: &Notify,
    limit: Duration,
    refresh: impl Fn() -> F,
) -> String {
    let (mut debounce, mut has_failed) = (MIN_DEBOUNCE, false);
    loop {
        if has_failed {
            let _: Result<(), Elapsed> = timeout(RELIST_PAUSE, announced.notified()).await;
        } else {
            announced.notified().await;
        }
        sleep(debounce).await;
        let late = || ListingError::new("it did not list its tools in time");
        let has_changed = match timeout(limit, refresh()).await.unwrap_or_else(|_| Err(late())) {
            Ok(has_changed) => {
                has_failed = false;
                has_changed
            }
            Err(ListingError { why, is_unreachable: true, .. }) => return why,
            Err(ListingError { why, is_unreachable: false, .. }) => {
                if !has_failed {
                    let why = cut(why, MAX_REASON_CHARS);
                    tracing::warn!(server, why, "an MCP server does not list its tools again");
                }
                has_failed = true;
                false
            }
        };
        debounce = if has_changed { MIN_DEBOUNCE } else { (debounce * 2).min(MAX_DEBOUNCE) };
    }
}

#[cfg(test)]
mod tests;
