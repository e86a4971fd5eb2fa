//! One connection to one server. The protocol library is spoken to here, and its types go no further than this room.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, MetaObject, ProgressToken, ProtocolVersion, RequestMetaObject,
    SubscriptionFilter,
};
use rmcp::service::{ClientInitializeError, Peer, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    HttpStatusError, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::definition::Definition;
use super::handler::Handler;
use super::http::{Failure, Wire};
use super::lines::{Lines, Pipes, Returned};
use super::listing;
use super::process::Process;
use super::questions::{self, Questions};
use super::reply;
use super::server::Profile;
use super::tasks::TaskTools;
use crate::config::env::Variables;
use crate::domain::tool::ToolError;
use crate::egress::{self, Destination, Egress};
use crate::tool::{ToolContext, ToolOutput};

/// Where a call's idempotency key stands in `_meta`.
const KEY: &str = "pes/idempotencyKey";

/// How many calls of all tenants may wait for a server's answers.
pub(super) const MOST_CALLS: usize = 1_000;
/// What the protocol library sends at once. A call that it held back could not be told from one that was carried out, so
/// there is room for all calls, and for what else is said on the connection.
const SENT_AT_ONCE: usize = MOST_CALLS + 24;

/// How often a server may answer a call with what it wants to know first.
const MOST_ROUNDS: usize = 20;

type Running = rmcp::service::RunningService<RoleClient, Handler>;

/// A connection that stands until [`ended`](Self::ended). Dropping it ends it, and its program with all that it started.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    ended: CancellationToken,
    /// Why, once it has ended.
    why: Arc<OnceLock<String>>,
    questions: Arc<Questions>,
    forgotten: CancellationToken,
    tasks: TaskTools,
    _end: DropGuard,
}

impl Connection {
    /// Starts or reaches the server and agrees on a protocol version. The message says why that failed.
    pub(super) async fn open(profile: &Profile, egress: &Arc<Egress>, changed: Arc<Notify>) -> Result<Self, String> {
        let questions = Arc::new(Questions::new(Duration::from_millis(profile.settings.timeout_ms.into())));
        let handler = || Handler {
            server: profile.name.clone(),
            label: profile.label(),
            changed: changed.clone(),
            questions: questions.clone(),
        };
        let (forgotten, tasks) = (CancellationToken::new(), TaskTools::default());
        let (running, process) = match &profile.settings.url {
            None => {
                let (process, pipes) = Process::start(&profile.name, &profile.settings)?;
                match agree(pipes, handler, profile.message_bytes, &tasks).await {
                    Ok(running) => (running, Some(process)),
                    Err(error) => return Err(with_last_output(&error.to_string(), &process.kill().await)),
                }
            }
            Some(url) => {
                let transport = wire(profile, egress, url, forgotten.clone(), tasks.clone())?;
                let running = handler().serve_with_lifecycle(transport, lifecycle()).await;
                (running.map_err(|error| chain(&error))?, None)
            }
        };
        let (ended, end) = (CancellationToken::new(), CancellationToken::new());
        let why: Arc<OnceLock<String>> = Arc::default();
        let peer = running.peer().clone();
        tokio::spawn(look_after(running, process, end.clone(), ended.clone(), why.clone()));
        Ok(Self { peer, ended, why, questions, forgotten, tasks, _end: end.drop_guard() })
    }

    /// Returns when the connection has ended: why.
    pub(super) async fn ended(&self) -> String {
        self.ended.cancelled().await;
        self.why.get().cloned().unwrap_or_default()
    }

    /// Returns when the server no longer knows the session: nothing new can be sent, and what it has taken may still be
    /// answered.
    pub(super) async fn forgotten(&self) {
        self.forgotten.cancelled().await;
    }

    /// Whether something can still be sent. One that has just broken is replaced soon.
    pub(super) fn is_live(&self) -> bool {
        !self.peer.is_transport_closed() && !self.forgotten.is_cancelled()
    }

    pub(super) fn protocol(&self) -> Option<String> {
        self.peer.peer_info().map(|info| info.protocol_version.to_string())
    }

    /// At most `most` tools, in the server's order, of a bounded length together; and whether there are more.
    pub(super) async fn definitions(&self, most: usize) -> Result<(Vec<Definition>, bool), String> {
        listing::definitions(&self.peer, &self.tasks, most).await
    }

    /// Since that protocol version, servers send `list_changed` only to clients that subscribed.
    pub(super) async fn listen(&self, changed: &Notify) {
        if self.peer.peer_info().is_none_or(|info| info.protocol_version.has_initialize()) {
            return std::future::pending().await;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match self.peer.listen(filter).await {
            Ok(mut subscription) => {
                while let Ok(Some(_)) = subscription.next().await {
                    changed.notify_one();
                }
            }
            Err(error) => tracing::debug!(%error, "this MCP server does not tell of changes"),
        }
        std::future::pending().await
    }

    /// One call, with all that the server wants to know on the way. Dropping the future tells it that it is cancelled.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        params.meta = Some(meta(context));
        for round in 0..MOST_ROUNDS {
            let running = self.questions.begin(context);
            match self.peer.call_tool_once(params.clone()).await {
                Ok(CallToolResponse::Complete(result)) => {
                    running.ended();
                    return reply::output(result);
                }
                Ok(CallToolResponse::InputRequired(wanted)) => {
                    running.ended();
                    let wants = wanted.input_requests.unwrap_or_default();
                    params.input_responses = Some(questions::answers(&*context.people, wants).await?);
                    params.request_state = wanted.request_state;
                }
                Ok(_) => return Err(failed("the server makes a task of the call")),
                Err(ServiceError::McpError(error)) => {
                    running.ended();
                    return Err(failed(error.message));
                }
                Err(ServiceError::UnexpectedResponse) => return Err(failed("the server's answer is none to a call")),
                Err(error) => {
                    let not_taken = (round == 0).then(|| not_taken(&error)).flatten();
                    if not_taken.is_some() {
                        running.ended();
                    }
                    let message = format!("The connection to the server broke during the call: {error}");
                    return Err(not_taken.unwrap_or_else(|| ToolError::lost(message)));
                }
            }
        }
        Err(failed("the server asks and asks"))
    }
}

/// Agrees on a protocol with a program, however long it needs before it answers.
async fn agree(
    pipes: Pipes,
    handler: impl Fn() -> Handler,
    message_bytes: usize,
    tasks: &TaskTools,
) -> Result<Running, ClientInitializeError> {
    let returned = Returned::default();
    let lines = Lines::new(pipes, message_bytes, tasks.clone(), returned.clone());
    let error = match handler().serve_with_lifecycle(lines, lifecycle()).await {
        Ok(running) => return Ok(running),
        Err(error) => error,
    };
    let Some(pipes) = returned.to_ask_again() else { return Err(error) };
    let lines = Lines::new(pipes, message_bytes, tasks.clone(), returned);
    let again = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] };
    handler().serve_with_lifecycle(lines, again).await
}

/// Waits for the end of a connection, by itself or as asked, and leaves nothing of its program.
async fn look_after(
    running: Running,
    process: Option<Process>,
    asked: CancellationToken,
    ended: CancellationToken,
    why: Arc<OnceLock<String>>,
) {
    let cancel = running.cancellation_token();
    let waiting = running.waiting();
    tokio::select! {
        _ = waiting => {}
        () = asked.cancelled() => cancel.cancel(),
    }
    let words = match process {
        Some(process) => process.kill().await,
        None => String::new(),
    };
    let _: Result<(), String> = why.set(with_last_output("the connection ended", &words));
    ended.cancel();
}

fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::LATEST], legacy_version: None }
}

fn wire(
    profile: &Profile,
    egress: &Arc<Egress>,
    url: &str,
    forgotten: CancellationToken,
    tasks: TaskTools,
) -> Result<StreamableHttpClientTransport<Wire>, String> {
    let to = url::Url::parse(url).map_err(|error| format!("`{url}`: {error}"))?;
    let to = match profile.owner {
        None => Destination::Operator(to),
        Some(tenant) => Destination::Untrusted { url: to, tenant },
    };
    let variables = Variables::of_process();
    let mut headers = std::collections::HashMap::new();
    for (name, reference) in &profile.settings.headers {
        let name = HeaderName::try_from(name.as_str()).map_err(|_| format!("`{name}` is no name of a header"))?;
        let secret = reference.resolve(&variables)?;
        let value = HeaderValue::try_from(secret.expose_secret());
        let mut value = value.map_err(|_| format!("the value of `{name}` cannot be sent as a header"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let wire = Wire {
        egress: egress.clone(),
        to,
        patience: Duration::from_millis(profile.settings.timeout_ms.into()),
        message_bytes: profile.message_bytes,
        forgotten,
        tasks,
    };
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        .max_sse_event_size(profile.message_bytes)
        .max_concurrent_requests(SENT_AT_ONCE)
        // A request is sent once; whoever asks again is the engine.
        .reinit_on_expired_session(false);
    Ok(StreamableHttpClientTransport::with_client(wire, config))
}

fn meta(context: &ToolContext) -> RequestMetaObject {
    let mut meta = MetaObject::new();
    // The names of the headers are those of the members (SEP-414).
    for (name, value) in context.trace.headers() {
        meta.0.insert(name.to_owned(), value.into());
    }
    meta.0.insert(KEY.to_owned(), context.idempotency_key.clone().into());
    let mut meta = RequestMetaObject(meta);
    meta.set_progress_token(ProgressToken(rmcp::model::NumberOrString::String(context.call_id.as_str().into())));
    meta
}

/// What a call comes to that the server has certainly not begun; `None`: it may have.
fn not_taken(error: &ServiceError) -> Option<ToolError> {
    let ServiceError::TransportSend(sending) = error else { return None };
    let failure = sending.error.downcast_ref::<Failure>()?;
    match failure {
        StreamableHttpError::SessionExpired => Some(unavailable(failure)),
        StreamableHttpError::AuthRequired(_) => Some(refused(failure)),
        StreamableHttpError::HttpStatus(error) => refused_by_status(error, failure),
        StreamableHttpError::Client(error) => match error {
            egress::Error::Unreachable(_) => Some(unavailable(failure)),
            egress::Error::Refused(_) => Some(refused(failure)),
            egress::Error::Cut(_)
            | egress::Error::NoHeaders(_)
            | egress::Error::Stalled(_)
            | egress::Error::Overdue(_)
            | egress::Error::TooLarge(_) => None,
        },
        _ => None,
    }
}

/// A call that was refused with a 4xx has not begun; one that ran into a 408 may have.
fn refused_by_status(error: &HttpStatusError, failure: &Failure) -> Option<ToolError> {
    let wait = error.retry_after.as_ref().and_then(|millis| millis.parse().ok());
    match error.status {
        408 => None,
        425 | 429 => Some(refused(failure).retry_after(wait.unwrap_or(0))),
        400..500 => Some(refused(failure)),
        _ => None,
    }
}

/// Nothing was sent, or the server says that it has begun nothing.
fn unavailable(failure: &Failure) -> ToolError {
    ToolError::new("unavailable", format!("The server did not take the call: {failure}")).retry_after(0)
}

fn refused(failure: &Failure) -> ToolError {
    failed(format!("The call was refused: {}", chain(failure)))
}

fn failed(message: impl Into<String>) -> ToolError {
    ToolError::new("failed", message)
}

fn with_last_output(why: &str, last_words: &str) -> String {
    if last_words.is_empty() { why.to_owned() } else { format!("{why}; its last words: {last_words}") }
}

/// An error with its causes: the outer one alone says little.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}
