//! One server, looked after: started, its tools listed, started again when it ends, with longer and longer pauses.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::client::{Connection, MOST_CALLS};
use super::definition::Definition;
use super::news::News;
use crate::config::McpServer;
use crate::domain::ids::TenantPk;
use crate::domain::tool::ToolError;
use crate::egress::Egress;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a server must have been up for its next pause to be the first again.
const STEADY: Duration = Duration::from_secs(60);
/// How long a call waits for a server that is not there; for one that is starting for the first time, as long as that may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Changes that a server announces within this time are read together. It grows with each announcement that brings nothing
/// new: a server that announces all the time is asked less and less often.
const GATHER: Duration = Duration::from_millis(200);
const LONGEST_GATHER: Duration = Duration::from_secs(5);

/// A server as it is described, and on whose word.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) name: Arc<str>,
    /// `None`: the operator's, for every tenant.
    pub(super) owner: Option<TenantPk>,
    pub(super) settings: McpServer,
    /// Until its tools are listed.
    pub(super) start: Duration,
    pub(super) message_bytes: usize,
    pub(super) most_tools: usize,
}

impl Profile {
    /// The label in metrics: names that tenants chose do not appear there.
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

/// How a server is, for who asks.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) health: Health,
    /// Why it is down.
    pub(super) why: Option<String>,
    pub(super) restarts: u32,
    pub(super) protocol: Option<String>,
    /// What it listed last; `None`: nothing yet.
    pub(super) listed: Option<Arc<[Arc<Definition>]>>,
    /// Grows whenever that is something else.
    pub(super) listing: u64,
    /// It has more tools than are taken.
    pub(super) has_more: bool,
}

impl State {
    /// Takes what it lists now, if that is something else than before; whether it is.
    fn list(&mut self, definitions: Vec<Definition>, has_more: bool) -> bool {
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
    state: Mutex<State>,
    live: watch::Sender<Option<Arc<Connection>>>,
    /// One for each call that may wait for its answer.
    places: Semaphore,
    stop: CancellationToken,
    news: News,
    /// The listing, and the version of what is trusted, whose new tools are pinned and whose changes are announced.
    settled: Mutex<Option<(u64, i64)>>,
}

impl Server {
    /// Begins to look after it; returns at once.
    pub(super) fn start(profile: Profile, egress: Arc<Egress>, news: News) -> Arc<Self> {
        let state = State {
            health: Health::Starting,
            why: None,
            restarts: 0,
            protocol: None,
            listed: None,
            listing: 0,
            has_more: false,
        };
        let (live, places, stop) = (watch::Sender::new(None), Semaphore::new(MOST_CALLS), CancellationToken::new());
        let (state, settled) = (Mutex::new(state), Mutex::default());
        let server = Arc::new(Self { profile, state, live, places, stop, news, settled });
        let keeper = server.clone();
        tokio::spawn(async move {
            keeper.stop.clone().run_until_cancelled(keeper.look_after(egress)).await;
            // It was polled once more after `end`, and may have become ready in that moment.
            keeper.live.send_replace(None);
        });
        server
    }

    /// Ends it; calls under way are lost.
    pub(super) fn end(&self) {
        self.stop.cancel();
        self.live.send_replace(None);
    }

    pub(super) fn state(&self) -> State {
        self.held().clone()
    }

    /// Whether nothing is to be pinned or announced of that listing, with what is trusted at that version.
    pub(super) fn is_settled(&self, seen: (u64, i64)) -> bool {
        *self.settled.lock() == Some(seen)
    }

    pub(super) fn settle(&self, seen: (u64, i64)) {
        *self.settled.lock() = Some(seen);
    }

    /// The connection, waited for if it is being made, and a place for a call on it. Waiting ends well before the call's own
    /// time: after that, a call that was never sent would count as one that may have been carried out.
    pub(super) async fn ready(&self) -> Result<(Arc<Connection>, SemaphorePermit<'_>), ToolError> {
        let patience = match self.state().health {
            Health::Starting => self.profile.start.max(PATIENCE),
            Health::Ready | Health::Down | Health::Disabled => PATIENCE,
        };
        let half = Duration::from_millis(self.profile.settings.timeout_ms.into()) / 2;
        let until = Instant::now() + patience.min(half);
        let Ok(Ok(place)) = timeout_at(until, self.places.acquire()).await else {
            return Err(self.unavailable("it has not answered the calls before this one".to_owned()));
        };
        let mut live = self.live.subscribe();
        let is_live = |live: &Option<Arc<Connection>>| live.as_ref().is_some_and(|live| live.is_live());
        let found = timeout_at(until, live.wait_for(is_live)).await;
        match found.ok().and_then(Result::ok).and_then(|live| live.clone()) {
            Some(connection) => Ok((connection, place)),
            None => {
                let why = self.state().why.map_or_else(|| "it has not started yet".to_owned(), |why| self.told(why));
                Err(self.unavailable(why))
            }
        }
    }

    fn unavailable(&self, why: String) -> ToolError {
        ToolError::new("unavailable", format!("The MCP server `{}` does not answer: {why}", self.profile.name))
    }

    /// Why it is not there, as runs and their models are told. What a configured server says of itself may name the operator's
    /// secrets and folders: that is in the log.
    pub(super) fn told(&self, why: String) -> String {
        match self.profile.owner {
            Some(_) => why,
            None => "it is down; the log of this server says why".to_owned(),
        }
    }

    async fn look_after(&self, egress: Arc<Egress>) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let why = self.serve(&egress).await;
            self.live.send_replace(None);
            tracing::warn!(server = &*self.profile.name, why, "an MCP server is down; it is started again");
            metrics::counter!("pes_mcp_restarts_total", "server" => self.profile.label()).increment(1);
            self.tell(|state| {
                state.health = Health::Down;
                state.why = Some(why);
                state.restarts += 1;
            });
            if began.elapsed() > STEADY {
                pause = FIRST_PAUSE;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// From the start to the end of one connection: why it ended.
    async fn serve(&self, egress: &Arc<Egress>) -> String {
        let changed = Arc::new(Notify::new());
        let opened = timeout(self.profile.start, async {
            let connection = Connection::open(&self.profile, egress, changed.clone()).await?;
            self.list(&connection).await?;
            Ok::<_, String>(Arc::new(connection))
        });
        let connection = match opened.await {
            Ok(Ok(connection)) => connection,
            Ok(Err(why)) => return why,
            Err(_) => return format!("it was not ready within {} ms", self.profile.start.as_millis()),
        };
        self.live.send_replace(Some(connection.clone()));
        tracing::info!(server = &*self.profile.name, "an MCP server is ready");
        self.tell(|state| {
            state.health = Health::Ready;
            state.why = None;
            state.protocol = connection.protocol();
        });
        let mut listens = std::pin::pin!(connection.listen(&changed));
        let mut gather = GATHER;
        loop {
            tokio::select! {
                why = connection.ended() => return why,
                // Calls under way hold the connection until they are answered.
                () = connection.forgotten() => return "it has forgotten the session".to_owned(),
                () = &mut listens => {}
                () = async { changed.notified().await; sleep(gather).await } => {
                    match timeout(self.profile.start, self.list(&connection)).await {
                        Ok(Ok(true)) => gather = GATHER,
                        Ok(Ok(false)) => gather = (gather * 2).min(LONGEST_GATHER),
                        Ok(Err(why)) => return why,
                        Err(_) => return "it did not list its tools in time".to_owned(),
                    }
                }
            }
        }
    }

    /// Asks for its tools; whether they are others than before. Only then somebody's agents are offered something else.
    async fn list(&self, connection: &Connection) -> Result<bool, String> {
        let (definitions, has_more) = connection.definitions(self.profile.most_tools).await?;
        let is_other = self.held().list(definitions, has_more);
        if is_other {
            self.news.tell(self.profile.owner);
        }
        Ok(is_other)
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.held());
        self.news.wake();
    }

    fn held(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
