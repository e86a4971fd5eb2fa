//! What a tenant and its keys spent under the caps, and what is left.

use serde::Serialize;
use serde_json::json;

use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::spend::{CAPS_ID, Capped, MOST_USD, SpendCaps, SpentOfCap, TenantCaps};
use crate::domain::usage::{Nanos, usd};
use crate::store::documents::{Change, DocumentKind, Expected};
use crate::store::{SpendKey, Spent};

/// What the caller's tenant and key may spend, and what they did.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Limits {
    /// One for each cap that there is.
    pub spend: Vec<SpentOfCap>,
}

pub async fn limits(service: &Service, caller: &Caller) -> Result<Limits> {
    let (caps, now) = (service.runtime.spend_caps(caller.tenant), service.now());
    let spent = spent(service, caller, &caps, now).await?;
    Ok(Limits { spend: spent.iter().map(|(spent, capped, cap)| spent.shown(*capped, *cap, now)).collect() })
}

/// Says what a tenant may spend; on other replicas that holds within two seconds. Returns the caps that hold now.
pub async fn put_caps(
    service: &Service,
    caller: &Caller,
    tenant: Option<&str>,
    caps: TenantCaps,
) -> Result<TenantCaps> {
    service.runtime.accepting()?;
    for (member, cap) in [
        ("tenantDayUsd", caps.tenant_day_usd),
        ("tenantMonthUsd", caps.tenant_month_usd),
        ("keyDayUsd", caps.key_day_usd),
    ] {
        if cap.is_some_and(|cap| cap <= 0.0 || cap > MOST_USD) {
            let why = format!("must be more than 0, and {MOST_USD} at most");
            return Err(Fault::new(Code::Invalid, format!("`{member}` {why}.")).at(format!("/{member}"), why));
        }
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
    let now = service.runtime.spend_caps(tenant);
    let [tenant_day_usd, tenant_month_usd, key_day_usd] = Capped::ALL.map(|capped| now.of(capped).map(usd));
    Ok(TenantCaps { tenant_day_usd, tenant_month_usd, key_day_usd })
}

/// What was spent of each cap that the caller has, in the periods of this time.
pub(super) async fn spent(
    service: &Service,
    caller: &Caller,
    caps: &SpendCaps,
    now: Millis,
) -> Result<Vec<(Spent, Capped, Nanos)>> {
    let caps: Vec<_> = Capped::ALL.into_iter().filter_map(|capped| Some((capped, caps.of(capped)?))).collect();
    let key = |capped: Capped| match capped {
        Capped::TenantDay | Capped::TenantMonth => String::new(),
        Capped::KeyDay => caller.name.clone(),
    };
    let row = |capped: Capped| SpendKey { tenant: caller.tenant, key: key(capped), period: capped.period(now) };
    let rows: Vec<SpendKey> = caps.iter().map(|(capped, _)| row(*capped)).collect();
    let spent = service.store.spent(&rows).await?;
    Ok(spent.into_iter().zip(caps).map(|(spent, (capped, cap))| (spent, capped, cap)).collect())
}
