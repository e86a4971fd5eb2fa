//! The limits of a tenant, and how much of them is used.

use serde::Serialize;
use serde_json::{Value, json};

use super::spending::{self, Payer};
use super::{Result, Service};
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::domain::run_limits::{RUN_LIMITS_ID, TenantRunLimits};
use crate::domain::spend::{CAPS_ID, Capped, Spender, SpentOfCap, TenantCaps, Unit};
use crate::domain::usage::Price;
use crate::provider::Catalog;
use crate::runtime::RunLimits;
use crate::store::documents::{Change, DocumentKind, Expected};

/// What a tenant and the caller's key may spend, and what they did; for operators the whole server, too.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Limits {
    /// One for each cap that there is. Those of keys are of the caller's own.
    pub spend: Vec<SpentOfCap>,
    /// What `PUT /limits` set for the tenant, and replaces; absent: nothing was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<TenantCaps>,
    pub runs: RunsOfTenant,
}

/// How many runs the tenant has of those that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunsOfTenant {
    /// Under way in the process that answers.
    pub running: usize,
    /// In each process; absent: as many as the tenant likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_most: Option<usize>,
    /// Threads whose next run waits for that.
    pub queued: u32,
    pub queued_most: u32,
}

/// The limits of a tenant. `tenant` is a name, or absent for the caller's own.
pub async fn get(service: &Service, caller: &Caller, tenant: Option<&str>) -> Result<Limits> {
    let tenant = tenant_of(service, caller, tenant).await?;
    let (caps, now) = (service.runtime.spend_caps(tenant), service.now());
    let spent = spending::spent(service, Payer { tenant, key: &caller.name }, &caps, now).await?;
    // The usage of the whole server is shown to operators only. The caller has a key of one tenant.
    let is_shown = |capped: Capped| match capped.spender() {
        Spender::Server => caller.may(Scope::Operator),
        Spender::Tenant => true,
        Spender::Key => tenant == caller.tenant,
    };
    let shown = spent.iter().filter(|(_, capped, _)| is_shown(*capped));
    let spend = shown.map(|(spent, capped, cap)| spent.shown(*capped, *cap, now)).collect();
    let set = service.documents.get(tenant, DocumentKind::SpendCaps, CAPS_ID);
    let set = set.and_then(|document| serde_json::from_value(document.body.clone()?).ok());
    Ok(Limits { spend, set, runs: runs(service, tenant).await? })
}

async fn runs(service: &Service, tenant: TenantPk) -> Result<RunsOfTenant> {
    let RunLimits { running: running_most, queued: queued_most } = service.runtime.run_limits(tenant);
    let running = service.runtime.running_runs(tenant);
    let queued = service.store.count_to_begin(tenant, queued_most).await?;
    Ok(RunsOfTenant { running, running_most, queued, queued_most })
}

/// Sets the spend caps of a tenant. Other replicas apply them within two seconds. Returns the caps that hold now.
pub async fn put_caps(
    service: &Service,
    caller: &Caller,
    tenant: Option<&str>,
    caps: TenantCaps,
) -> Result<TenantCaps> {
    check_sound(caps.unsound())?;
    check_prices(service, &caps)?;
    let tenant = put(service, caller, tenant, (DocumentKind::SpendCaps, CAPS_ID, json!(caps))).await?;
    Ok(service.runtime.spend_caps(tenant).into())
}

/// Refuses a cap in dollars while a configured model has no price: the tenant's runs would all be refused.
fn check_prices(service: &Service, caps: &TenantCaps) -> Result<()> {
    let is_in_money = |capped: &Capped| capped.unit() == Unit::Usd && caps.of(*capped).is_some();
    let Some(capped) = Capped::ALL.into_iter().find(is_in_money) else { return Ok(()) };
    let unpriced = unpriced(&*service.models, |provider, model| service.runtime.price(provider, model));
    if unpriced.is_empty() {
        return Ok(());
    }
    let (name, member) = (capped.as_str(), json!(capped));
    let pointer = format!("/{}Usd", member.as_str().unwrap_or(name));
    let why = format!(
        "`prices` of the server's configuration does not say what {} costs; add it there (as provider:model or provider:*), \
         or cap tokens",
        unpriced.join(", ")
    );
    Err(Fault::new(Code::Invalid, format!("A cap in US dollars needs the price of each model: {why}."))
        .at(pointer, why))
}

/// The configured models without a price, as provider:model.
pub(crate) fn unpriced(models: &dyn Catalog, price: impl Fn(&str, &str) -> Option<Price>) -> Vec<String> {
    let unpriced = models.list().into_iter().filter(|of| price(&of.provider, &of.model).is_none());
    unpriced.map(|of| format!("{}:{}", of.provider, of.model)).collect()
}

/// Sets how many runs a tenant may have; other replicas apply that within two seconds. Queued runs begin at once if the new
/// limits allow it.
pub async fn put_runs(
    service: &Service,
    caller: &Caller,
    tenant: Option<&str>,
    limits: TenantRunLimits,
) -> Result<TenantRunLimits> {
    check_sound(limits.unsound())?;
    let tenant = put(service, caller, tenant, (DocumentKind::RunLimits, RUN_LIMITS_ID, json!(limits))).await?;
    service.runtime.recheck_waiting_runs();
    let RunLimits { running, queued } = service.runtime.run_limits(tenant);
    let running_runs = running.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
    Ok(TenantRunLimits { running_runs, queued_runs: Some(queued) })
}

fn check_sound(unsound: Option<(&str, impl Into<String>)>) -> Result<()> {
    let Some((member, why)) = unsound else { return Ok(()) };
    let why = why.into();
    Err(Fault::new(Code::Invalid, format!("`{member}` {why}.")).at(format!("/{member}"), why))
}

/// Writes the document with a tenant's limits. `tenant` is a name, or absent for the caller's own. Returns its key.
async fn put(
    service: &Service,
    caller: &Caller,
    tenant: Option<&str>,
    (kind, id, body): (DocumentKind, &str, Value),
) -> Result<TenantPk> {
    service.runtime.accepting()?;
    let tenant = tenant_of(service, caller, tenant).await?;
    let (id, by) = (id.to_owned(), caller.name.clone());
    // An operator's name may be another person's in that tenant.
    let by_tenant = (tenant != caller.tenant).then(|| caller.tenant_name.clone());
    let change =
        Change { tenant, kind, id, body: Some(body), former: None, by, by_tenant, why: None, now: service.now() };
    service.documents.write(change, Expected::Any).await?;
    Ok(tenant)
}

/// The key of the tenant of this name; without a name of the caller's own.
async fn tenant_of(service: &Service, caller: &Caller, name: Option<&str>) -> Result<TenantPk> {
    let Some(name) = name else { return Ok(caller.tenant) };
    let known = service.store.tenants().await?.into_iter().find(|(_, known)| known == name);
    Ok(known.ok_or_else(|| Fault::not_found("tenant"))?.0)
}
