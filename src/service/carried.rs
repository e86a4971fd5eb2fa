//! What a client carries for this server from one request to the next: a text that nobody else can read or make.

use super::Service;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::store::documents::Owner;

/// Sealed for this caller and this use. Fails on a server that holds no sealing key.
pub fn seal(service: &Service, caller: &Caller, used_for: &'static str, text: &str) -> Result<String, Fault> {
    service.sealer.seal(text, owner(caller, used_for))
}

/// `None`: it was not sealed here, or for another caller or use.
pub fn open(service: &Service, caller: &Caller, used_for: &'static str, sealed: &str) -> Option<String> {
    service.sealer.open(sealed, owner(caller, used_for)).ok()
}

fn owner<'a>(caller: &'a Caller, used_for: &'static str) -> Owner<'a> {
    Owner { tenant: caller.tenant, kind: "carried", member: used_for, id: &caller.name }
}
