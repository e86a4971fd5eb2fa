//! What a tenant's administrators do with MCP servers.

use crate::domain::caller::Caller;
use crate::mcp::{self, Endpoint, ServerView};
use crate::service::once::{Answered, Idempotent};
use crate::service::{Result, Service, resources};

/// Adds an MCP endpoint of the caller's tenant; it is reached in the background.
pub async fn create(
    service: &Service,
    caller: &Caller,
    new: Endpoint,
    key: Option<Idempotent>,
) -> Result<Answered<ServerView>> {
    let made = resources::create(service, caller, key, mcp::exists(), || service.mcp.admit(caller, &new)).await?;
    service.mcp.bring_in_line();
    Ok(made)
}
