//! A tool of an MCP server as a [`Tool`](crate::tool::Tool).

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::definition::Definition;
use super::server::Server;
use crate::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use crate::tool::{Tool, ToolContext, ToolOutput};

pub(super) struct ProxyTool {
    server: Arc<Server>,
    definition: Arc<Definition>,
    spec: Arc<ToolSpec>,
}

impl ProxyTool {
    pub(super) fn new(server: Arc<Server>, definition: Arc<Definition>) -> Self {
        let profile = &server.profile;
        let spec = Arc::new(definition.spec(&profile.name, &profile.settings, profile.owner.is_none()));
        Self { server, definition, spec }
    }

    pub(super) fn is_of(&self, server: &Arc<Server>, definition: &Arc<Definition>) -> bool {
        let is_same = Arc::ptr_eq(&self.definition, definition) || self.definition == *definition;
        is_same && Arc::ptr_eq(&self.server, server)
    }
}

#[async_trait]
impl Tool for ProxyTool {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let Value::Object(arguments) = arguments else {
            return Err(ToolError::new(CallCode::InvalidArguments, "The arguments of this tool are an object."));
        };
        let (connection, permit) = self.server.connection().await?;
        let permits = &self.server.call_permits;
        let ended = tokio::select! {
            ended = connection.call(&self.definition.name, arguments, &context, permits, permit) => {
                if !ended.as_ref().is_err_and(|error| error.is_lost() || error.has(CallCode::Unavailable)) {
                    self.server.record_answer();
                }
                ended
            }
            why = connection.ended() => {
                Err(ToolError::lost(format!("The server ended during the call: {}", self.server.public_reason(why))))
            }
        };
        match ended {
            // Nothing is in doubt about a call that only reads: it has no effect.
            Err(error) if error.is_lost() && self.spec.class == ToolClass::Read => {
                let retry_after_ms = error.retry_after_ms;
                Err(ToolError { retry_after_ms, ..ToolError::new(CallCode::Failed, error.message) })
            }
            ended => ended,
        }
    }
}
