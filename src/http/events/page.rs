//! A page of the log.

use axum::http::HeaderMap;

use super::ask;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::params::Params;
use crate::service::feed::{self, After, EventsPage};

/// Reads `limit`, `cursor`, and the options of the other forms: `after`, `types`, `until`, `tokens` (which has no
/// effect, as the log has no tokens).
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
