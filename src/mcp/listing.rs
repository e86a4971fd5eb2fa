//! Reads the list of a server's tools page by page, up to the limit.

use rmcp::RoleClient;
use rmcp::model::PaginatedRequestParams;
use rmcp::service::{Peer, ServiceError};
use serde_json::Value;

use super::call_errors::{is_unreachable, request_cause};
use super::definition::{Definition, Hints, check_schemas};
use super::incoming::Reader;
use super::server::Profile;

/// How many pages are read.
const MAX_PAGES: usize = 500;
/// Maximum size of a server's definitions that the settings allow, and of the others.
const MAX_LISTED_BYTES: usize = 4 << 20;

/// Why the tools were not listed.
pub(super) struct ListingError {
    pub(super) why: String,
    pub(super) is_unreachable: bool,
    /// The connection has ended, and says why itself.
    pub(super) has_ended: bool,
}

impl ListingError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_unreachable: false, has_ended: false }
    }
}

impl From<ServiceError> for ListingError {
    fn from(error: ServiceError) -> Self {
        let has_ended = matches!(error, ServiceError::TransportClosed);
        Self { why: request_cause(&error), is_unreachable: is_unreachable(&error), has_ended }
    }
}

/// At most `most_tools` tools that the settings allow, and as many others, in the server's order and each bounded in total
/// size, and whether there are more that are allowed.
pub(super) async fn definitions(
    peer: &Peer<RoleClient>,
    reader: &Reader,
    profile: &Profile,
) -> Result<(Vec<Definition>, bool), ListingError> {
    let (found, has_more) = listed(peer, reader, profile).await?;
    // Compiling schemas may take long, so it runs on a blocking thread.
    let found = tokio::task::spawn_blocking(|| check_schemas(found)).await;
    let unchecked = |error| ListingError::new(format!("its tools could not be looked at: {error}"));
    Ok((found.map_err(unchecked)?, has_more))
}

async fn listed(
    peer: &Peer<RoleClient>,
    reader: &Reader,
    profile: &Profile,
) -> Result<(Vec<Definition>, bool), ServiceError> {
    let (mut found, mut cursor) = (Vec::new(), None);
    // How many there are, and their size.
    let (mut allowed, mut denied) = ((0, 0), (0, 0));
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await?;
        for tool in page.tools {
            let definition = definition(tool, reader);
            let is_allowed = definition.is_allowed(&profile.settings);
            let (count, bytes) = if is_allowed { &mut allowed } else { &mut denied };
            let with_it = *bytes + definition.bytes();
            if *count < profile.most_tools && with_it <= MAX_LISTED_BYTES {
                *count += 1;
                *bytes = with_it;
                found.push(definition);
            } else if is_allowed {
                return Ok((found, true));
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((found, false));
        }
    }
    Ok((found, true))
}

fn definition(tool: rmcp::model::Tool, reader: &Reader) -> Definition {
    let unreadable = reader.why_unreadable(&tool).map(str::to_owned);
    let is_task_only = reader.tasks.contains(&tool.name);
    let hints = tool.annotations.unwrap_or_default();
    let refused = unreadable.or_else(|| is_task_only.then(|| "its server runs it as a task only".to_owned()));
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
