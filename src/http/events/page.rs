//! A page of the log.

use axum::http::HeaderMap;

use super::ask;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::params::Params;
use crate::service::feed::{self, After, EventsPage};

/// `limit`, `cursor`, and what the other shapes know: `after`, `types`, `until`, `tokens` (of which a log has none).
pub(super) async fn read(
    app: &AppState,
    caller: &Caller,
    id: &ThreadId,
    mut params: Params,
    headers: &HeaderMap,
) -> Result<EventsPage, Fault> {
    let (limit, cursor) = (params.limit()?, params.seq("cursor")?);
    let mut ask = ask::of_query(&mut params, headers)?;
    params.finish()?;
    if let Some(cursor) = cursor {
        ask.after = After::Seq(cursor);
    }
    feed::page(&app.service, caller, id, ask, limit).await
}
