//! The tenants of the server, for its operator: listing them, removing one, and letting a removed one in again.
//!
//! A removal is a document of the tenant. As soon as it is stored the tenant's callers are refused; what the tenant has is
//! deleted in the background (`removal`). Its audit and its usage are kept as long as those of deleted threads. The name
//! stays taken: only the operator lets callers of that name in again.

mod removal;

use serde_json::json;

use super::{Result, Service, retention};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::domain::tenant::{REMOVAL_ID, Tenant, TenantInUse, TenantRemoval};
use crate::store::documents::{Change, DocumentKind, Expected};
use crate::store::{PageAsk, ThreadFilter};

pub(super) use removal::run;
#[cfg(feature = "internals")]
pub use removal::{Progress, sweep};

/// All tenants, by name, also removed ones.
pub async fn list(service: &Service) -> Result<Vec<Tenant>> {
    let tenants = service.store.tenants().await?.into_iter();
    Ok(tenants.map(|(tenant, name)| Tenant { name, removed: removal_of(service, tenant) }).collect())
}

/// The tenant of this name.
pub async fn get(service: &Service, name: &str) -> Result<TenantInUse> {
    shown(service, named(service, name).await?, name).await
}

/// Removes a tenant: from now on its callers are refused, and all that it has is deleted in the background. A removed tenant
/// stays removed. Audited for the tenant.
pub async fn remove(service: &Service, caller: &Caller, name: &str) -> Result<TenantInUse> {
    service.runtime.accepting()?;
    let tenant = named(service, name).await?;
    if tenant == caller.tenant {
        let detail = format!("`{name}` is the tenant of your key; an operator of another tenant may remove it.");
        return Err(Fault::new(Code::Forbidden, detail));
    }
    retention::check_holds(service, tenant, name).await?;
    let body = json!(TenantRemoval { by: caller.name.clone(), at: service.now() });
    write(service, caller, tenant, Some(body), Expected::Absent).await?;
    shown(service, tenant, name).await
}

/// Ends a removal: callers of this tenant are let in again. What was deleted does not come back, nor do its keys. Audited for
/// the tenant.
pub async fn reopen(service: &Service, caller: &Caller, name: &str) -> Result<TenantInUse> {
    service.runtime.accepting()?;
    let tenant = named(service, name).await?;
    write(service, caller, tenant, None, Expected::Any).await?;
    shown(service, tenant, name).await
}

/// Writes or deletes the document that says that the tenant is removed. If it is there, or not, already, nothing is written.
async fn write(
    service: &Service,
    caller: &Caller,
    tenant: TenantPk,
    body: Option<serde_json::Value>,
    expected: Expected,
) -> Result<()> {
    let (kind, id, by) = (DocumentKind::Removal, REMOVAL_ID.to_owned(), caller.name.clone());
    let by_tenant = Some(caller.tenant_name.clone());
    let change = Change { tenant, kind, id, body, former: None, by, by_tenant, why: None, now: service.now() };
    service.documents.write(change, expected).await?;
    Ok(())
}

async fn named(service: &Service, name: &str) -> Result<TenantPk> {
    let known = service.store.tenants().await?.into_iter().find(|(_, known)| known == name);
    Ok(known.ok_or_else(|| Fault::not_found("tenant"))?.0)
}

fn removal_of(service: &Service, tenant: TenantPk) -> Option<TenantRemoval> {
    service.documents.get(tenant, DocumentKind::Removal, REMOVAL_ID)?.legible().ok()
}

async fn shown(service: &Service, tenant: TenantPk, name: &str) -> Result<TenantInUse> {
    let newest = PageAsk { limit: 1, ..PageAsk::default() };
    let newest = service.reads.threads(tenant, &ThreadFilter::default(), &newest).await?.items.pop();
    let removed = removal_of(service, tenant);
    let tenant = Tenant { name: name.to_owned(), removed };
    Ok(TenantInUse { tenant, last_used_at: newest.map(|thread| thread.updated_at) })
}
