//! What a server may ask of us, and tell us: nothing of it reaches a model, a file or a person by this way.

#![expect(deprecated, reason = "sampling and roots are refused for as long as servers ask for them")]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestMethod, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ListRootsRequestMethod, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::Notify;

/// How much of a server's own words is logged.
const LOGGED_CHARS: usize = 500;

pub(super) struct Handler {
    pub(super) server: Arc<str>,
    /// Told when the server says that its tools have changed.
    pub(super) changed: Arc<Notify>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("pes", env!("CARGO_PKG_VERSION")))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        tracing::warn!(server = &*self.server, "an MCP server asked for a model call; it is refused");
        Err(ErrorData::method_not_found::<CreateMessageRequestMethod>())
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tracing::info!(server = &*self.server, "an MCP server asked a person in the middle of a call; it is declined");
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        metrics::counter!("pes_mcp_progress_total", "server" => self.server.to_string()).increment(1);
        tracing::debug!(server = &*self.server, progress = told.progress, total = told.total, "progress");
    }

    async fn on_logging_message(&self, told: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let text: String = told.data.to_string().chars().take(LOGGED_CHARS).collect();
        tracing::debug!(server = &*self.server, "{text}");
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
