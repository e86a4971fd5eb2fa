//! The secret with which another agent may report on one task. It is not stored: it is a MAC of the task's id with this
//! server's sealing key. So a message that is sent again has the same secret, every replica can check it without a
//! lookup, and read access to the database does not reveal it.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::domain::fault::Fault;
use crate::domain::ids::{TaskId, TenantPk};
use crate::store::documents::Sealer;

/// Separates these MACs from others with the same key.
const PURPOSE: &str = "a2a callback";

/// The tenant of the task, then 256 bits.
pub fn token(sealer: &Sealer, tenant: TenantPk, task: &TaskId) -> Result<String, Fault> {
    let mac = sealer.mac(PURPOSE, &mac_message(tenant, task))?;
    let bytes = [tenant.0.to_be_bytes().as_slice(), &mac].concat();
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// The tenant whose task this token belongs to; `None`: it is not the token of this task. Compared in constant time.
pub fn check(sealer: &Sealer, task: &TaskId, token: &str) -> Option<TenantPk> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let (tenant, mac) = bytes.split_first_chunk::<8>()?;
    let tenant = TenantPk(i64::from_be_bytes(*tenant));
    sealer.has_mac(PURPOSE, &mac_message(tenant, task), mac).then_some(tenant)
}

fn mac_message(tenant: TenantPk, task: &TaskId) -> String {
    format!("{}:{task}", tenant.0)
}

#[cfg(test)]
mod tests;
