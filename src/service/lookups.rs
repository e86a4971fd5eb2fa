//! Finding runs by a digest of what a client sent, for clients that name neither run nor thread. The keys are written in the
//! transaction that accepts the run ([`ProcessAsk::lookups`](super::runs::ProcessAsk)), so a run is found if and only if it
//! was accepted; they are kept for 30 days, or as long as their thread.

use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::ids::RunId;
use crate::domain::lookup::{FoundRun, LookupKey};

/// The runs of the caller's tenant under this key, the newest first, at most so many.
pub async fn find(service: &Service, caller: &Caller, key: &LookupKey, limit: u32) -> Result<Vec<FoundRun>> {
    Ok(service.store.lookups(caller.tenant, key, limit).await?)
}

/// Records that a client listens to the run until `duration` from now. Every process checks this before it cancels a run
/// without listeners. Returns `false` if the run is not found under this key.
pub async fn listen(
    service: &Service,
    caller: &Caller,
    key: &LookupKey,
    run: &RunId,
    duration: Millis,
) -> Result<bool> {
    Ok(service.store.listen_until(caller.tenant, key, run, service.now() + duration).await?)
}
