//! The state that every handler gets: the service, the keys, the configuration, and this server's URLs.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::json::BodyLimits;
use super::links::Links;
use super::listeners::Listeners;
use super::rates::Rates;
use super::remote_addr::RemoteAddr;
use crate::auth::{Keys, Pass, RECHECK_INTERVAL};
use crate::config::Config;
use crate::domain::Millis;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::RunId;
use crate::service::Service;
use crate::service::runs::{self, Waited, WaitsFor};

/// The maximum length of a request from an agent that may only read.
const MAX_READ_ONLY_BODY_BYTES: usize = 64 << 10;

/// Shared by all requests; clones are references.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

/// What the routes find in an [`AppState`].
#[allow(unnameable_types, reason = "the routes reach it through `AppState`; nobody else sees anything of it")]
pub struct Inner {
    pub(crate) config: Config,
    pub(crate) service: Service,
    pub(crate) keys: Arc<Keys>,
    pub(crate) links: Links,
    /// When this server began to serve.
    pub(crate) since: Millis,
    /// Cancelled when the server is about to stop: `/readyz` fails, and requests are still served.
    pub(crate) leaving: CancellationToken,
    /// Cancelled when the server begins to stop: changes are refused, and sockets get a notice.
    pub(crate) stopping: CancellationToken,
    /// Every open WebSocket and event stream, so that the server can wait for their closing messages before it stops.
    pub(crate) streams: TaskTracker,
    pub(crate) listeners: Listeners,
    pub(crate) rates: Rates,
}

impl AppState {
    /// `address` is where the listener is bound. Fails if the public URL or a proxy range is invalid.
    pub fn new(config: Config, service: Service, keys: Arc<Keys>, address: SocketAddr) -> Result<Self, Fault> {
        let links = Links::new(&config.server, address)?;
        service.served_at(links.own());
        let (leaving, stopping, streams) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let (since, listeners, rates) = (service.now(), Listeners::default(), Rates::new(&config.limits));
        Ok(Self(Arc::new(Inner { config, service, keys, links, since, leaving, stopping, streams, listeners, rates })))
    }

    /// The URL of this server, as far as it is known without a request.
    pub(crate) fn url(&self) -> String {
        self.links.own().base
    }

    /// The URL prefix of this server, as the caller of this request reaches it.
    pub(crate) fn base(&self, parts: &Parts) -> String {
        self.links.base(RemoteAddr::ip(&parts.extensions), &parts.headers)
    }

    /// The limits for requests from other agents. Files are sent inside the body, so the body limit is large if the key
    /// may start a run. All other requests are short.
    pub(crate) fn a2a_limits(&self, caller: &Caller) -> BodyLimits {
        let most = self.config.a2a.body_bytes;
        let (most, setting) = if caller.may(Scope::Run) || most <= MAX_READ_ONLY_BODY_BYTES {
            (most, Some("a2a.body_bytes"))
        } else {
            (MAX_READ_ONLY_BODY_BYTES, None)
        };
        BodyLimits::from(&self.config.limits).with_length(most, setting)
    }

    /// From now on `/readyz` fails. All other requests are served as before, each on a connection that ends with it.
    pub(crate) fn leave(&self) {
        self.leaving.cancel();
    }

    /// From now on no changes are accepted: `/readyz` fails, changes are answered with 503, and sockets get a notice
    /// and are closed.
    pub(crate) fn stop(&self) {
        self.leave();
        self.stopping.cancel();
        self.streams.close();
    }

    /// Does `work` while the caller's credentials are valid. They are checked as often as those of a stream, so a
    /// request that waits for a run is not answered to a key that was revoked, or a token that expired, meanwhile.
    pub(crate) async fn while_admitted<T>(&self, pass: &Pass, work: impl Future<Output = T>) -> Result<T, Fault> {
        let ended = async {
            loop {
                tokio::time::sleep(RECHECK_INTERVAL).await;
                if let Some(ended) = self.keys.ended(pass).await {
                    return ended;
                }
            }
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            ended = ended => Err(no_longer_admitted(ended.why())),
        }
    }

    /// Refuses a caller that was admitted with these credentials, if they are no longer valid.
    pub(crate) async fn check_still_admitted(&self, pass: &Pass) -> Result<(), Fault> {
        match self.keys.check_again(pass).await? {
            Some(ended) => Err(no_longer_admitted(ended.why())),
            None => Ok(()),
        }
    }

    /// The same for a response that is being sent, which must not wait for the store: see [`Keys::ended`].
    pub(crate) async fn check_stream(&self, pass: &Pass) -> Result<(), Fault> {
        match self.keys.ended(pass).await {
            Some(ended) => Err(no_longer_admitted(ended.why())),
            None => Ok(()),
        }
    }

    /// Waits for what `what` says, at most `at_most` and not longer than the server runs, and returns the run's state
    /// then.
    pub(crate) async fn wait_run(
        &self,
        caller: &Caller,
        id: &RunId,
        what: WaitsFor,
        at_most: Duration,
    ) -> Result<Waited, Fault> {
        match self.stopping.run_until_cancelled(runs::wait_for(&self.service, caller, id, what, at_most)).await {
            Some(waited) => waited,
            None => runs::wait_for(&self.service, caller, id, what, Duration::ZERO).await,
        }
    }
}

fn no_longer_admitted(why: &str) -> Fault {
    Fault::new(Code::Unauthorized, format!("The request was ended: {why}."))
}

impl Deref for AppState {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
