//! Sealed text that a client stores for this server between two requests. Nobody else can read it or make one.

use super::Service;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::store::documents::Owner;

/// Seals `text` for this caller and this purpose. Fails on a server without a sealing key.
pub fn seal(service: &Service, caller: &Caller, used_for: &'static str, text: &str) -> Result<String, Fault> {
    service.sealer.seal(text, owner(caller, used_for))
}

/// Returns `None` for a text that was not sealed here, or was sealed for another caller or purpose.
pub fn open(service: &Service, caller: &Caller, used_for: &'static str, sealed: &str) -> Option<String> {
    service.sealer.open(sealed, owner(caller, used_for)).ok()
}

fn owner<'a>(caller: &'a Caller, used_for: &'static str) -> Owner<'a> {
    Owner { tenant: caller.tenant, kind: "carried", member: used_for, id: &caller.name }
}
