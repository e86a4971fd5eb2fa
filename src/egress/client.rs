//! The clients: which hosts each may call, its connection pool, and how one request is sent.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Position, Url};

use super::connect::{self, Resolver};
use super::connection::{Connection, SendError};
use super::guard::{AddressCheck, DnsLookup, Guard, SystemDns};
use super::pool::Pool;
use super::response::IncomingResponse;
use super::{Allow, Destination, Error, OutgoingRequest, redirect, request};
use crate::domain::ids::TenantPk;

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 3;
/// Which URLs may be called besides those that the operator's settings name.
#[derive(Clone)]
pub struct EgressRules {
    /// Applies to every tenant.
    pub allow: Allow,
    /// Additional entries for single tenants.
    pub tenants: HashMap<TenantPk, Allow>,
    /// Whether only hosts on an allow-list are called, so that the public internet is denied.
    pub deny: bool,
    /// Whether http URLs are called when the allow-list does not name their host.
    pub plain_http: bool,
    pub dns: Arc<dyn DnsLookup>,
}

impl Default for EgressRules {
    /// Allows the public internet and nothing else.
    fn default() -> Self {
        let (allow, tenants, dns) = (Allow::default(), HashMap::new(), Arc::new(SystemDns));
        Self { allow, tenants, deny: false, plain_http: true, dns }
    }
}

pub struct Egress {
    operator_client: Client,
    default_client: GuardedClient,
    tenants: HashMap<TenantPk, GuardedClient>,
}

/// A client with its guard. Its connections are not shared with clients that have another guard.
struct GuardedClient {
    guard: Arc<Guard>,
    client: Client,
}

/// Connections that were opened through one resolver.
struct Client {
    resolver: Resolver,
    connect: Duration,
    pool: Arc<Pool>,
    /// Created on first use: a server that makes no TLS call does not load certificates. A failure is not kept: the
    /// certificates may be there at the next call.
    tls: OnceLock<TlsConnector>,
}

impl Egress {
    /// `connect` is the timeout for opening a connection. Besides the operator's URLs, only the public internet is
    /// called.
    pub fn new(connect: Duration) -> Self {
        Self::with_rules(connect, EgressRules::default())
    }

    /// Like [`new`](Self::new), with other rules for the URLs that the operator did not name.
    pub fn with_rules(connect: Duration, rules: EgressRules) -> Self {
        let guarded = |allow: Allow| {
            let guard = Arc::new(Guard { allow, deny: rules.deny, plain_http: rules.plain_http });
            let resolver = Resolver { dns: rules.dns.clone(), guard: Some(guard.clone()) };
            GuardedClient { guard, client: Client::new(resolver, connect) }
        };
        let tenants = rules.tenants.iter().map(|(tenant, own)| (*tenant, guarded(rules.allow.and(own)))).collect();
        let operator_client = Client::new(Resolver { dns: Arc::new(SystemDns), guard: None }, connect);
        Self { operator_client, default_client: guarded(rules.allow.clone()), tenants }
    }

    /// Sends the request once and returns as soon as status and headers arrived. Redirects are returned, not followed.
    pub async fn send(&self, request: OutgoingRequest) -> Result<IncomingResponse, Error> {
        let deadline = Instant::now() + request.bounds.total;
        self.send_once(&request, deadline).await
    }

    /// Sends the request and follows up to three redirects, each checked like the first URL. The bounds apply to all
    /// requests together. Returns the final URL with the response.
    pub async fn follow(&self, request: OutgoingRequest) -> Result<(Url, IncomingResponse), Error> {
        self.follow_processed(request, &mut None).await
    }

    /// The same. Stores the redirect of a request that may have an effect and was processed in `processed`, because the
    /// final response, or the error, says only what became of fetching its result.
    pub(crate) async fn follow_processed(
        &self,
        mut request: OutgoingRequest,
        processed: &mut Option<(Url, IncomingResponse)>,
    ) -> Result<(Url, IncomingResponse), Error> {
        let deadline = Instant::now() + request.bounds.total;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(&request, deadline).await?;
            let Some(next) = redirect::next(&request, &response).transpose() else {
                return Ok((request.to.into_url(), response));
            };
            if redirect::is_processed(&request.method, response.status()) {
                *processed = Some((request.to.into_url(), response));
            }
            request = next?;
        }
        Err(Error::Refused(format!("more than {MAX_REDIRECTS} redirects are not followed")))
    }

    /// Checks whether a URL may be called, without resolving its name. URLs that users configure are checked when they
    /// are written, and again at every call.
    pub fn judge(&self, to: &Destination) -> Result<(), Error> {
        match to {
            Destination::Operator(_) => Ok(()),
            Destination::Untrusted { url, tenant } => self.guarded_client(*tenant).guard.judge(url).map(|_| ()),
        }
    }

    /// The destination that this tenant names, if it may be called. The error says why not.
    pub fn tenant_destination(&self, tenant: TenantPk, url: &str) -> Result<Destination, String> {
        let url = url.parse::<Url>().map_err(|error| format!("this is no URL: {error}"))?;
        let to = Destination::Untrusted { url, tenant };
        self.judge(&to).map_err(|error| error.to_string())?;
        Ok(to)
    }

    async fn send_once(&self, request: &OutgoingRequest, deadline: Instant) -> Result<IncomingResponse, Error> {
        let client = match &request.to {
            Destination::Operator(_) => &self.operator_client,
            Destination::Untrusted { url, tenant } => {
                let guarded = self.guarded_client(*tenant);
                match guarded.guard.judge(url)? {
                    AddressCheck::None => &self.operator_client,
                    AddressCheck::ByResolver => &guarded.client,
                }
            }
        };
        client.send(request, deadline).await
    }

    fn guarded_client(&self, tenant: TenantPk) -> &GuardedClient {
        self.tenants.get(&tenant).unwrap_or(&self.default_client)
    }
}

impl Client {
    fn new(resolver: Resolver, connect: Duration) -> Self {
        Self { resolver, connect, pool: Arc::default(), tls: OnceLock::new() }
    }

    /// Uses a pooled connection if there is one, else opens a new one.
    async fn send(&self, outgoing: &OutgoingRequest, deadline: Instant) -> Result<IncomingResponse, Error> {
        let bounds = outgoing.bounds;
        let until = deadline.min(Instant::now() + bounds.headers);
        let url = outgoing.to.url();
        let origin = &url[..Position::AfterPort];
        let mut request = request::of(outgoing)?;
        loop {
            let (mut connection, is_new) = match self.pool.take(origin) {
                Some(connection) => (connection, false),
                None => (self.connect(url, until).await?, true),
            };
            tracing::trace!(method = %outgoing.method, to = connect::host_and_port(url), is_new, "a request is sent");
            let sent = timeout_at(until, connection.send(request)).await;
            match sent.map_err(|_| Error::NoHeaders(bounds.headers.min(bounds.total)))? {
                Ok(response) => {
                    tracing::trace!(status = response.status().as_u16(), "an answer begins");
                    let pooled = (self.pool.clone(), origin.into());
                    return Ok(IncomingResponse::new(response, connection, pooled, bounds, deadline));
                }
                Err(SendError::Unsent(unsent)) if !is_new => request = *unsent,
                Err(SendError::Unsent(_)) => {
                    let place = connect::host_and_port(url);
                    return Err(Error::Unreachable(format!("{place}: it closed the connection at once")));
                }
                Err(SendError::Broken(error)) => return Err(broken(&error)),
            }
        }
    }

    /// Ends well before `until`: a caller whose own time ended first could not know that nothing was sent.
    async fn connect(&self, url: &Url, until: Instant) -> Result<Connection, Error> {
        let tls = if url.scheme() == "https" { Some(self.tls()?) } else { None };
        let limit = self.connect.min(until.saturating_duration_since(Instant::now()) * 4 / 5);
        let transport = timeout(limit, connect::connect(url, &self.resolver, tls)).await;
        let too_late = |_| {
            Error::Unreachable(format!(
                "{}: no connection within {} ms",
                connect::host_and_port(url),
                limit.as_millis()
            ))
        };
        Connection::new(transport.map_err(too_late)??).await.map_err(|error| broken(&error))
    }

    fn tls(&self) -> Result<&TlsConnector, Error> {
        match self.tls.get() {
            Some(tls) => Ok(tls),
            None => {
                let tls = connect::tls()?;
                Ok(self.tls.get_or_init(|| tls))
            }
        }
    }
}

/// Includes the error's causes: the outer text alone does not say what went wrong.
pub(super) fn broken(error: &hyper::Error) -> Error {
    let mut text = String::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&message);
        }
        cause = error.source();
    }
    Error::Cut(text)
}
