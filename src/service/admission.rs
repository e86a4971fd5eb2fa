//! Admission of runs. A run is refused if its budget cannot be enforced, if a cap on spending leaves nothing for it, or if
//! no model has capacity for it.

use metrics::counter;

use super::spending::{self, Payer};
use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::settings::{Budget, RunSettings};
use crate::domain::spend::{Amount, Capped, SpendCaps, Unit};
use crate::domain::usage::Price;
use crate::engine::pes::{least_cost, least_tokens};
use crate::provider::gate::QueuePlace;

const RETRY_AFTER_MS: i64 = 1_000;

/// Refuses a run whose budget cannot be enforced, a run for which a cap on spending leaves nothing, and any run while none
/// of the models that it could call has capacity. The returned place reserves that capacity; the caller holds it until the
/// run is committed. `is_scheduled`: a refusal only postpones the run, and is not counted as a refused run.
pub(super) async fn check(
    service: &Service,
    payer: Payer<'_>,
    settings: &RunSettings,
    query: &str,
    is_scheduled: bool,
) -> Result<QueuePlace> {
    if let Some(budget) = &settings.budget {
        check_budget(service, budget, settings)?;
    }
    if let Some(refusal) = cap_without_room(service, payer, settings, query).await? {
        counter!("pes_spend_refused_total", "cap" => refusal.capped.as_str()).increment(u64::from(!is_scheduled));
        return Err(refusal.fault(service, "No run is accepted"));
    }
    service.runtime.admit_to_model(payer.tenant, settings).ok_or_else(|| {
        let detail = "Too many calls wait for the model already; ask again soon.";
        Fault::new(Code::ProviderSaturated, detail).retry_after(RETRY_AFTER_MS)
    })
}

fn check_budget(service: &Service, budget: &Budget, settings: &RunSettings) -> Result<()> {
    const POINTER: &str = "/options/budget";
    budget.check(POINTER)?;
    match (budget.max_cost_usd, unpriced(service, settings)) {
        (Some(_), Some(why)) => Err(Fault::new(Code::Invalid, why.clone()).at(format!("{POINTER}/maxCostUsd"), why)),
        (Some(_) | None, _) => Ok(()),
    }
}

/// The first model without a price among those that the run may call, as the reason of a refusal.
fn unpriced(service: &Service, settings: &RunSettings) -> Option<String> {
    let mut choices = (0..).map_while(|n| settings.choice(n));
    let (provider, model) = choices.find(|(provider, model)| service.runtime.price(provider, model).is_none())?;
    Some(format!("`prices` of the server's configuration does not say what {provider}:{model} costs."))
}

/// A cap that leaves nothing.
struct CapRefusal {
    capped: Capped,
    words: String,
    /// When its period ends; `None`: that would not help.
    ends_at: Option<Millis>,
}

impl CapRefusal {
    fn fault(self, service: &Service, what: &str) -> Fault {
        let now = service.now();
        // Also where waiting does not help: without a time, clients repeat the request at once.
        let ends_at = self.ends_at.unwrap_or_else(|| self.capped.ends_at(now));
        Fault::new(Code::SpendCapReached, format!("{what}: {}.", self.words)).retry_after(ends_at - now)
    }
}

/// A cap that leaves nothing for the run. Fails if a cap in US dollars applies to a model without a price. Amounts
/// that running calls have reserved are not counted: most calls use less, and an accepted run waits for them.
async fn cap_without_room(
    service: &Service,
    payer: Payer<'_>,
    settings: &RunSettings,
    query: &str,
) -> Result<Option<CapRefusal>> {
    let caps = service.runtime.spend_caps(payer.tenant);
    if caps.is_none() {
        return Ok(None);
    }
    let is_in_money = |capped: &Capped| capped.unit() == Unit::Usd && caps.of(*capped).is_some();
    let in_money = Capped::ALL.into_iter().find(is_in_money);
    if let Some((capped, why)) = in_money.zip(unpriced(service, settings)) {
        let place = match (capped.as_str(), service.config.limits.spend.of(capped) == caps.of(capped)) {
            (name, true) => format!("`limits.spend.{name}_usd` of the server's settings"),
            (name, false) => format!("`{name}`, which `PUT /limits` gave the tenant"),
        };
        return Err(Fault::new(Code::Invalid, format!("There is a cap in US dollars ({place}), and {why}")));
    }
    let (provider, model) = settings.choice(0).unwrap_or_default();
    let tools = service.tools.toolset(payer.tenant).await;
    let cost = |price: Price| least_cost(&price, settings, query, &*tools);
    let cost = service.runtime.price(provider, model).map_or(0, cost);
    let tokens = least_tokens(settings, query, &*tools);
    let least = |unit: Unit| match unit {
        Unit::Usd => cost,
        Unit::Tokens => tokens,
    };
    reached_cap(service, payer, &caps, least).await
}

/// Refuses to ask models outside of a run when a cap is reached.
pub(super) async fn check_reached_caps(service: &Service, payer: Payer<'_>) -> Result<()> {
    let caps = service.runtime.spend_caps(payer.tenant);
    match reached_cap(service, payer, &caps, |_| 1).await? {
        Some(refusal) => Err(refusal.fault(service, "No model is asked")),
        None => Ok(()),
    }
}

/// Of the caps that leave less than `least` the one whose period ends last: until then nothing is accepted. One that is less
/// than `least` leaves too little in any period. Webhooks are notified of each.
async fn reached_cap(
    service: &Service,
    payer: Payer<'_>,
    caps: &SpendCaps,
    least: impl Fn(Unit) -> Amount,
) -> Result<Option<CapRefusal>> {
    let now = service.now();
    let mut last: Option<CapRefusal> = None;
    let end = |refusal: &CapRefusal| refusal.ends_at.unwrap_or(Millis::MAX);
    for (spent, capped, cap) in spending::spent(service, payer, caps, now).await? {
        let least = least(capped.unit());
        if spent.used + least <= cap {
            continue;
        }
        service.runtime.notify_cap_reached(&spent, capped, cap).await;
        let refusal = if least > cap {
            CapRefusal { capped, words: capped.words_of_too_little(cap, least), ends_at: None }
        } else {
            CapRefusal { capped, words: capped.words(cap, now), ends_at: Some(capped.ends_at(now)) }
        };
        if last.as_ref().is_none_or(|other| end(other) < end(&refusal)) {
            last = Some(refusal);
        }
    }
    Ok(last)
}
