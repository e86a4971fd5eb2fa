//! A page of the log.

use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::observation::ObservationType;
use crate::http::front::Front;
use crate::http::params::Params;
use crate::runtime::EventsPage;

/// `after` or its twin `cursor`, `limit`, `types`.
pub(super) async fn read(
    front: &Front,
    caller: &Caller,
    id: &ThreadId,
    mut params: Params,
) -> Result<EventsPage, Fault> {
    let cursor = params.seq("cursor")?;
    let after = cursor.or(params.seq("after")?).unwrap_or(0);
    let limit = params.limit()?;
    let types = params.list("types", ObservationType::parse)?;
    params.finish()?;
    front.runtime.events_page(caller, id, after, limit, types).await
}
