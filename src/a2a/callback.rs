//! The secret under which another agent may report on one task. It is not stored: it is a MAC of the task's id under this
//! server's sealing key, so that a message that is sent again carries the same one, any replica can check it without
//! looking anything up, and whoever reads the database learns none.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::domain::fault::Fault;
use crate::domain::ids::{TaskId, TenantPk};
use crate::store::documents::Sealer;

/// Sets these MACs apart from others under the same key.
const PURPOSE: &str = "a2a callback";

/// 256 bits, after the tenant that the task belongs to.
pub fn token(sealer: &Sealer, tenant: TenantPk, task: &TaskId) -> Result<String, Fault> {
    let mac = sealer.mac(PURPOSE, &said(tenant, task))?;
    let bytes = [tenant.0.to_be_bytes().as_slice(), &mac].concat();
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Whose task this token speaks for; `None`: it is not the token of this task. Compared in constant time.
pub fn check(sealer: &Sealer, task: &TaskId, token: &str) -> Option<TenantPk> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let (tenant, mac) = bytes.split_first_chunk::<8>()?;
    let tenant = TenantPk(i64::from_be_bytes(*tenant));
    sealer.has_mac(PURPOSE, &said(tenant, task), mac).then_some(tenant)
}

fn said(tenant: TenantPk, task: &TaskId) -> String {
    format!("{}:{task}", tenant.0)
}

#[cfg(test)]
mod tests;
