//! What a tenant and its keys spent under the caps, and what is left.

use serde::Serialize;
use serde_json::json;

use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::spend::{Amount, CAPS_ID, Capped, SpendCaps, Spender, SpentOfCap, TenantCaps};
use crate::store::documents::{Change, DocumentKind, Expected};
use crate::store::{SpendKey, Spent};

/// What the caller's tenant and key may spend, and what they did; for operators the whole server, too.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Limits {
    /// One for each cap that there is.
    pub spend: Vec<SpentOfCap>,
}

pub async fn limits(service: &Service, caller: &Caller) -> Result<Limits> {
    let (caps, now) = (service.runtime.spend_caps(caller.tenant), service.now());
    let spent = spent(service, caller, &caps, now).await?;
    // What all tenants together took is no tenant's business.
    let is_shown = |capped: Capped| capped.spender() != Spender::Server || caller.may(Scope::Operator);
    let shown = spent.iter().filter(|(_, capped, _)| is_shown(*capped));
    Ok(Limits { spend: shown.map(|(spent, capped, cap)| spent.shown(*capped, *cap, now)).collect() })
}

/// Says what a tenant may spend; on other replicas that holds within two seconds. Returns the caps that hold now.
pub async fn put_caps(
    service: &Service,
    caller: &Caller,
    tenant: Option<&str>,
    caps: TenantCaps,
) -> Result<TenantCaps> {
    service.runtime.accepting()?;
    if let Some((member, why)) = caps.unsound() {
        return Err(Fault::new(Code::Invalid, format!("`{member}` {why}.")).at(format!("/{member}"), why));
    }
    let tenant = match tenant {
        None => caller.tenant,
        Some(name) => {
            let known = service.store.tenants().await?.into_iter().find(|(_, known)| known == name);
            known.ok_or_else(|| Fault::not_found("tenant"))?.0
        }
    };
    let (kind, by) = (DocumentKind::SpendCaps, caller.name.clone());
    let change =
        Change { tenant, kind, id: CAPS_ID.to_owned(), body: Some(json!(caps)), by, why: None, now: service.now() };
    service.documents.write(change, Expected::Any).await?;
    Ok(service.runtime.spend_caps(tenant).into())
}

/// What was spent of each cap that the caller has, in the periods of this time.
pub(super) async fn spent(
    service: &Service,
    caller: &Caller,
    caps: &SpendCaps,
    now: Millis,
) -> Result<Vec<(Spent, Capped, Amount)>> {
    let caps: Vec<_> = Capped::ALL.into_iter().filter_map(|capped| Some((capped, caps.of(capped)?))).collect();
    let row = |capped: Capped| SpendKey::of(capped, caller.tenant, Some(&caller.name), now);
    let (rows, caps): (Vec<SpendKey>, Vec<_>) =
        caps.into_iter().filter_map(|(capped, cap)| Some((row(capped)?, (capped, cap)))).unzip();
    let spent = service.store.spent(&rows).await?;
    Ok(spent.into_iter().zip(caps).map(|(spent, (capped, cap))| (spent, capped, cap)).collect())
}
