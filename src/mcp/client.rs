//! One connection to one server. Types of the protocol library are used only in this folder.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorCode, MetaObject, ProgressToken, RequestMetaObject,
    SubscriptionFilter,
};
use rmcp::service::{Peer, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientServiceExt, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::{Notify, SemaphorePermit};
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::beginning::{Beginning, RunningClient, lifecycle, with_last_output};
use super::call_errors::{failed, lost, not_started, start_cause};
use super::call_permits::{CallPermits, MAX_CALLS};
use super::credentials::{Credentials, Refusal};
use super::definition::Definition;
use super::handler::Handler;
use super::http::{CALL_REFUSED, HttpTransport};
use super::incoming::Reader;
use super::listing::{self, ListingError};
use super::process::Process;
use super::questions::{self, Questions};
use super::reply;
use super::server::{BACKOFF_RESET_AFTER, MAX_BACKOFF, MIN_BACKOFF, Profile};
use super::session::{Reopening, SessionEnd};
use crate::domain::tool::{CallCode, ToolError};
use crate::egress::{Destination, Egress};
use crate::tool::{ToolContext, ToolOutput};

/// The member of `_meta` that holds a call's idempotency key.
const IDEMPOTENCY_KEY: &str = "pes/idempotencyKey";

/// How many requests the protocol library sends concurrently. A call that waits in its queue could not be distinguished
/// from one that was sent, so there is room for all calls and for other requests on the connection.
const MAX_CONCURRENT_REQUESTS: usize = MAX_CALLS + 24;

/// The pause before the tools of a server that does not announce changes, or that did not list them, are listed again.
pub(super) const RELIST_PAUSE: Duration = Duration::from_secs(60);

/// How often a server may reply to a call with questions instead of a result.
const MAX_QUESTION_ROUNDS: usize = 20;

/// An open connection, until [`ended`](Self::ended) returns. Dropping it closes it and kills the server's program with
/// all its children.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    ended: CancellationToken,
    /// The reason, once the connection has ended.
    why: Arc<OnceLock<String>>,
    questions: Arc<Questions>,
    session: SessionEnd,
    reader: Reader,
    /// Notified when the tools may have changed.
    changed: Arc<Notify>,
    closing: CancellationToken,
    _end: DropGuard,
}

impl Connection {
    /// Starts or connects to the server and negotiates a protocol version. The error text is safe to log.
    pub(super) async fn open(
        profile: &Profile,
        beginning: &Beginning,
        egress: &Arc<Egress>,
        changed: Arc<Notify>,
        refusal: Refusal,
    ) -> Result<Self, String> {
        let call_timeout = Duration::from_millis(profile.settings.timeout_ms.into());
        let questions = Arc::new(Questions::new(call_timeout));
        let handler = || Handler {
            server: profile.name.clone(),
            label: profile.label(),
            changed: changed.clone(),
            questions: questions.clone(),
        };
        let (session, reader) = (SessionEnd::default(), Reader::new(profile.name.clone()));
        let (running, process) = match &profile.settings.url {
            None => {
                let (running, process) = beginning.start_program(profile, handler, &reader).await?;
                (running, Some(process))
            }
            Some(url) => {
                let transport = http_transport(profile, egress, url, session.clone(), reader.clone(), refusal)?;
                let running = handler().serve_with_lifecycle(transport, lifecycle(&profile.settings)).await;
                (running.map_err(|error| start_cause(&error))?, None)
            }
        };
        Ok(Self::of(running, process, questions, session, reader, changed))
    }

    /// Supervises what is running in the background.
    fn of(
        running: RunningClient,
        process: Option<Process>,
        questions: Arc<Questions>,
        session: SessionEnd,
        reader: Reader,
        changed: Arc<Notify>,
    ) -> Self {
        let (closing, end, ended) = (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let why: Arc<OnceLock<String>> = Arc::default();
        let peer = running.peer().clone();
        let asked = Asked { closing: closing.clone(), end: end.clone() };
        tokio::spawn(supervise(running, process, reader.clone(), asked, ended.clone(), why.clone()));
        Self { peer, ended, why, questions, session, reader, changed, closing, _end: end.drop_guard() }
    }

    /// Waits for the end of the connection and returns the reason.
    pub(super) async fn ended(&self) -> String {
        self.ended.cancelled().await;
        self.why.get().cloned().unwrap_or_default()
    }

    /// Closes it, and gives the server's program a moment to end by itself: some say only then what was wrong.
    pub(super) async fn close(self) {
        self.closing.cancel();
        self.ended.cancelled().await;
    }

    /// Waits for the end of the session and returns the reason. No new requests can be sent then, but requests in flight
    /// may still be answered.
    pub(super) async fn session_ended(&self) -> &'static str {
        self.session.ended().await
    }

    /// Whether requests can still be sent. A connection that has just broken is replaced soon.
    pub(super) fn is_live(&self) -> bool {
        !self.peer.is_transport_closed() && !self.session.has_ended()
    }

    pub(super) fn protocol(&self) -> Option<String> {
        self.peer.peer_info().map(|info| info.protocol_version.to_string())
    }

    /// The tools that the server lists, within bounds, and whether there are more.
    pub(super) async fn definitions(&self, profile: &Profile) -> Result<(Vec<Definition>, bool), ListingError> {
        listing::definitions(&self.peer, &self.reader, profile).await
    }

    /// Since that protocol version, servers send `list_changed` only to clients that subscribed. A subscription that ends, or
    /// cannot be made now, is made again. Each begins with a listing of the tools, which may have changed before it. The
    /// tools of a server that takes no subscriptions, or none now, are listed again and again.
    pub(super) async fn listen(&self) {
        if self.peer.peer_info().is_none_or(|info| info.protocol_version.has_initialize()) {
            return std::future::pending().await;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let (mut backoff, mut listed) = (MIN_BACKOFF, Instant::now());
        loop {
            let began = Instant::now();
            match self.peer.listen(filter.clone()).await {
                Ok(mut subscription) => {
                    // No announcement has removed a former listing from there.
                    self.peer.clear_response_cache().await;
                    self.changed.notify_one();
                    while let Ok(Some(_)) = subscription.next().await {
                        self.changed.notify_one();
                    }
                }
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    tracing::debug!(%error, "this MCP server does not announce changes");
                    loop {
                        sleep(RELIST_PAUSE).await;
                        // The library answers this itself for as long as the server said that its list may be kept.
                        self.changed.notify_one();
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "this MCP server takes no subscription now");
                    if listed.elapsed() >= RELIST_PAUSE {
                        listed = Instant::now();
                        self.changed.notify_one();
                    }
                }
            }
            if began.elapsed() > BACKOFF_RESET_AFTER {
                backoff = MIN_BACKOFF;
            }
            sleep(backoff).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Makes one call, including the questions that the server asks meanwhile. Dropping the future sends a cancellation
    /// to the server. While a person answers what the server replied with, nothing is in flight, so the call holds none
    /// of `permits` then. If it does not get another one afterwards, it is lost: the server may have begun its work before
    /// it asked.
    pub(super) async fn call<'p>(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        context: &ToolContext,
        permits: &'p CallPermits,
        mut permit: SemaphorePermit<'p>,
    ) -> Result<ToolOutput, ToolError> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        params.meta = Some(meta(context));
        for round in 0..MAX_QUESTION_ROUNDS {
            let running = self.questions.begin(context);
            match self.peer.call_tool_once(params.clone()).await {
                Ok(CallToolResponse::Complete(result)) => {
                    running.ended();
                    return reply::output(result);
                }
                Ok(CallToolResponse::InputRequired(wanted)) => {
                    running.ended();
                    drop(permit);
                    let wants = wanted.input_requests.unwrap_or_default();
                    params.input_responses = Some(questions::answer_all(&*context.people, wants).await?);
                    params.request_state = wanted.request_state;
                    permit = permits.acquire(Instant::now() + permits.max_wait).await.ok_or_else(|| {
                        let why = "has not answered other calls, so the reply was not sent";
                        ToolError::lost(format!("The server asked a person in the middle of the call, and {why}."))
                    })?;
                }
                Ok(_) => {
                    let why = "The server made a task of the call, which may still be going on.";
                    // Asked again, the server would make another task.
                    return Err(ToolError { retry_after_ms: None, ..ToolError::lost(why.to_owned()) });
                }
                Err(ServiceError::McpError(error)) => {
                    running.ended();
                    if error.code == ErrorCode::INVALID_PARAMS {
                        // It may not have this tool any more, or describe it otherwise.
                        self.peer.clear_response_cache().await;
                        self.changed.notify_one();
                    }
                    let message = reply::with_data(error.message.into_owned(), error.data.as_ref());
                    // It may have begun its work before it asked.
                    let is_lost = round > 0 && error.code == CALL_REFUSED;
                    return Err(if is_lost { ToolError::lost(message) } else { failed(message) });
                }
                Err(ServiceError::UnexpectedResponse) => {
                    running.ended();
                    let why =
                        "The server has answered the call, but not with a result of a call, so what it did is unknown.";
                    return Err(ToolError::new(CallCode::InvalidOutput, why));
                }
                Err(error) => {
                    let not_started = (round == 0).then(|| not_started(&error)).flatten();
                    if not_started.is_some() {
                        running.ended();
                    }
                    return Err(not_started.unwrap_or_else(|| lost(&error, self.reader.why_broken())));
                }
            }
        }
        Err(failed("the server asks and asks"))
    }
}

/// How a connection may be asked to end.
struct Asked {
    /// The server's program may end by itself first.
    closing: CancellationToken,
    end: CancellationToken,
}

/// Waits until the connection ends or is asked to end, then kills the server's program with all its children.
async fn supervise(
    running: RunningClient,
    process: Option<Process>,
    reader: Reader,
    asked: Asked,
    ended: CancellationToken,
    why: Arc<OnceLock<String>>,
) {
    let cancel = running.cancellation_token();
    let waiting = running.waiting();
    tokio::select! {
        _ = waiting => {}
        () = asked.end.cancelled() => cancel.cancel(),
        () = asked.closing.cancelled() => {
            cancel.cancel();
            if let Some(process) = &process {
                let _: Option<()> = asked.end.run_until_cancelled(process.end()).await;
            }
        }
    }
    let last_lines = match process {
        Some(process) => process.kill().await,
        None => String::new(),
    };
    let cause = reader.why_broken().unwrap_or("the connection ended");
    let _: Result<(), String> = why.set(with_last_output(cause, &last_lines));
    ended.cancel();
}

fn http_transport(
    profile: &Profile,
    egress: &Arc<Egress>,
    url: &str,
    session: SessionEnd,
    reader: Reader,
    refusal: Refusal,
) -> Result<StreamableHttpClientTransport<HttpTransport>, String> {
    let to = url::Url::parse(url).map_err(|error| format!("its address is no URL: {error}"))?;
    let to = match profile.owner {
        None => Destination::Operator(to),
        Some(tenant) => Destination::Untrusted { url: to, tenant },
    };
    let credentials = Credentials::read(&profile.settings.headers)?;
    let headers = credentials.headers();
    let transport = HttpTransport {
        egress: egress.clone(),
        to,
        request_timeout: Duration::from_millis(profile.settings.timeout_ms.into()),
        message_bytes: profile.message_bytes,
        credentials: Arc::new(credentials),
        refusal,
        session: session.clone(),
        reader,
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        .max_sse_event_size(profile.message_bytes)
        .max_concurrent_requests(MAX_CONCURRENT_REQUESTS)
        // Requests are sent only once; the engine decides about retries.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(Reopening { session });
    Ok(StreamableHttpClientTransport::with_client(transport, config))
}

fn meta(context: &ToolContext) -> RequestMetaObject {
    let mut meta = MetaObject::new();
    // The members of `_meta` are named like the trace headers (SEP-414).
    for (name, value) in context.trace.headers() {
        meta.0.insert(name.to_owned(), value.into());
    }
    meta.0.insert(IDEMPOTENCY_KEY.to_owned(), context.idempotency_key.clone().into());
    let mut meta = RequestMetaObject(meta);
    meta.set_progress_token(ProgressToken(rmcp::model::NumberOrString::String(context.call_id.as_str().into())));
    meta
}

#[cfg(test)]
mod tests;
