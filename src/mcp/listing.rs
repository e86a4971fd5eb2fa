//! Reads the list of a server's tools page by page, up to the limit.

use rmcp::RoleClient;
use rmcp::model::PaginatedRequestParams;
use rmcp::service::Peer;
use serde_json::Value;

use super::call_errors::request_cause;
use super::definition::{Definition, Hints, check_schemas};
use super::tasks::TaskTools;

/// How many pages are read.
const MAX_PAGES: usize = 500;
/// Maximum size of all definitions of a server.
const MAX_LISTED_BYTES: usize = 4 << 20;

/// At most `most` tools, in the server's order and bounded in total size, and whether there are more.
pub(super) async fn definitions(
    peer: &Peer<RoleClient>,
    tasks: &TaskTools,
    most: usize,
) -> Result<(Vec<Definition>, bool), String> {
    let (found, has_more) = listed(peer, tasks, most).await?;
    // Compiling schemas may take long, so it runs on a blocking thread.
    let found = tokio::task::spawn_blocking(|| check_schemas(found)).await;
    Ok((found.map_err(|error| format!("its tools could not be looked at: {error}"))?, has_more))
}

async fn listed(peer: &Peer<RoleClient>, tasks: &TaskTools, most: usize) -> Result<(Vec<Definition>, bool), String> {
    let (mut found, mut bytes, mut cursor) = (Vec::new(), 0, None);
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await.map_err(|error| request_cause(&error))?;
        for tool in page.tools {
            if found.len() == most {
                return Ok((found, true));
            }
            let definition = definition(tool, tasks);
            bytes += definition.bytes();
            if bytes > MAX_LISTED_BYTES {
                return Ok((found, true));
            }
            found.push(definition);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((found, false));
        }
    }
    Ok((found, true))
}

fn definition(tool: rmcp::model::Tool, tasks: &TaskTools) -> Definition {
    let hints = tool.annotations.unwrap_or_default();
    let refused = tasks.contains(&tool.name).then(|| "its server runs it as a task only".to_owned());
    Definition {
        description: tool.description.or(tool.title.map(Into::into)).unwrap_or_default().into_owned(),
        name: tool.name.into_owned(),
        input_schema: Value::Object((*tool.input_schema).clone()),
        output_schema: tool.output_schema.map(|schema| Value::Object((*schema).clone())),
        hints: Hints {
            read_only: hints.read_only_hint,
            destructive: hints.destructive_hint,
            idempotent: hints.idempotent_hint,
            open_world: hints.open_world_hint,
        },
        refused,
        ..Definition::default()
    }
}
