//! Handles requests and notifications from a server. None of them reaches a model or a file, and a question reaches a
//! person only during a call.

#![expect(deprecated, reason = "sampling and roots are refused for as long as servers ask for them")]

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ConstString, CreateMessageRequestParams, CreateMessageResult, CustomRequest,
    CustomResult, ElicitRequestParams, ElicitResult, ElicitationCapability, ElicitationCreateRequestMethod, ErrorCode,
    FormElicitationCapability, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::Notify;

use super::questions::Questions;

/// How much of a server's log message is logged.
const LOGGED_CHARS: usize = 500;

pub(super) struct Handler {
    pub(super) server: Arc<str>,
    /// The server's label in metrics.
    pub(super) label: String,
    /// Notified when the server reports that its tools have changed.
    pub(super) changed: Arc<Notify>,
    pub(super) questions: Arc<Questions>,
}

impl Handler {
    fn log_unasked(&self, error: &ErrorData) {
        let why: String = error.message.chars().take(LOGGED_CHARS).collect();
        tracing::warn!(server = &*self.server, why, "a question of an MCP server cannot be asked");
    }
}

/// Servers hand the words on to whoever called their tool.
fn refusal(why: impl Into<Cow<'static, str>>) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None)
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let form = FormElicitationCapability::new().with_schema_validation(true);
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        let config = ClientConfig::new(capabilities, Implementation::new("pes", env!("CARGO_PKG_VERSION")));
        // What `initialize` asks for: the newest version that has it.
        config.with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        tracing::warn!(server = &*self.server, "an MCP server asked for a model call; it is refused");
        Err(refusal("This client makes no model calls for servers."))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(refusal("This client has no roots to list."))
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.questions.ask(asked, &context.ct).await.inspect_err(|error| self.log_unasked(error))
    }

    /// The library hands on what it does not know, such as a question with a form that it cannot read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != ElicitationCreateRequestMethod::VALUE {
            return Err(refusal(format!("This client does not know the method `{}`.", request.method)));
        }
        let asked = request.params.unwrap_or_default();
        let answer = self.questions.ask_in_other_form(&asked, &context.ct).await;
        let answer = answer.inspect_err(|error| self.log_unasked(error))?;
        let answer =
            serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(CustomResult::new(answer))
    }

    async fn on_progress(&self, notification: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        metrics::counter!("pes_mcp_progress_total", "server" => self.label.clone()).increment(1);
        tracing::debug!(
            server = &*self.server,
            progress = notification.progress,
            total = notification.total,
            "progress"
        );
    }

    async fn on_logging_message(
        &self,
        notification: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text: String = notification.data.to_string().chars().take(LOGGED_CHARS).collect();
        tracing::debug!(server = &*self.server, "{text}");
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
