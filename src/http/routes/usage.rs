//! `GET /usage`: tokens and cost of model calls.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::domain::Millis;
use crate::domain::caller::Scope;
use crate::domain::ids::ThreadId;
use crate::domain::model::Usage;
use crate::domain::usage::{UsageGroup, UsageSum, usd};
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, permit};
use crate::http::page::Listed;
use crate::http::params::{Params, wrong};
use crate::http::problem::HttpResult;
use crate::service::usage;

/// The calls of one group, summed; `groupBy` determines which members name the group.
#[derive(Default, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = UsageRow)]
pub(crate) struct Summed {
    /// `deleted`: the calls of deleted threads. `check`: those of `GET /models?check=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// Absent: planning and synthesis.
    #[serde(skip_serializing_if = "Option::is_none")]
    item_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// In UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    calls: u64,
    #[serde(flatten)]
    usage: Usage,
    /// The cost of the calls with a known price.
    cost_usd: f64,
    /// The calls without a known price.
    unpriced_calls: u64,
}

/// Tokens and cost of the tenant's model calls, summed by run, run and model, item, model, day, or (with the scope
/// `admin`) tenant. With the scope `operator`, sums by tenant include all tenants.
///
/// Each item is the whole sum of its group. A page has no total, so add up all pages, or group by what has few groups.
#[utoipa::path(get, path = "/usage", operation_id = "getUsage", tag = "server",
    params(("groupBy" = Option<String>, Query, description = "run (default), run,model, item, model, tenant or day"),
        ("threadId" = Option<String>, Query, description = "only calls of this thread"),
        ("from" = Option<String>, Query, description = "Unix milliseconds, or a day as 2026-11-21: from its beginning"),
        ("to" = Option<String>, Query, description = "Unix milliseconds, or a day: before its beginning"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<Summed>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<Summed>>> {
    let group = params.one_of("groupBy", &UsageGroup::ALL, UsageGroup::as_str)?.unwrap_or(UsageGroup::Run);
    let thread = params.text("threadId").map(ThreadId::from);
    let from = time(&mut params, "from")?.unwrap_or(Millis::MIN);
    let to = time(&mut params, "to")?.unwrap_or(Millis::MAX);
    let (page, list) = params.page()?;
    params.finish()?;
    let is_of_all = group == UsageGroup::Tenant && thread.is_none() && caller.may(Scope::Operator);
    if group == UsageGroup::Tenant && !is_of_all {
        permit(&caller, Scope::Admin)?;
    }
    let page = if is_of_all {
        usage::of_all_tenants(&app.service, (from, to), page).await?
    } else {
        usage::sums(&app.service, &caller, group, thread.as_ref(), (from, to), page).await?
    };
    Ok(Json(list.page(page.map(|sum| summed(group, sum)))))
}

fn time(params: &mut Params, name: &str) -> HttpResult<Option<Millis>> {
    let Some(text) = params.text(name) else { return Ok(None) };
    let day = || {
        let day = text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        Some(day.timestamp().as_millisecond())
    };
    let at = text.parse().ok().or_else(day);
    at.map(Some).ok_or_else(|| wrong(name, "must be Unix milliseconds or a day as 2026-11-21").into())
}

fn summed(group: UsageGroup, sum: UsageSum) -> Summed {
    let UsageSum { key, sub, calls, usage, cost_nanos, unpriced } = sum;
    let figures = Summed { calls, usage, cost_usd: usd(cost_nanos), unpriced_calls: unpriced, ..Summed::default() };
    let (key, sub) = (Some(key), (!sub.is_empty()).then_some(sub));
    match group {
        UsageGroup::Run => Summed { run_id: key, ..figures },
        UsageGroup::RunModel => {
            let named = sub.as_deref().and_then(|sub| sub.split_once(':'));
            let (provider, model) = named.map(|(of, name)| (of.to_owned(), name.to_owned())).unzip();
            Summed { run_id: key, provider, model, ..figures }
        }
        UsageGroup::Item => Summed { run_id: key, item_id: sub, ..figures },
        UsageGroup::Model => Summed { provider: key, model: sub, ..figures },
        UsageGroup::Tenant => Summed { tenant: key, ..figures },
        UsageGroup::Day => Summed { day: key, ..figures },
    }
}
