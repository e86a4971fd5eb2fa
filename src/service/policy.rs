//! A tenant's policy: read it, replace it, and try rules on past calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::pages::Entries;
use super::resources::{Resource, Versioned};
use super::{Result, Service};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{CallId, RunId, ThreadId};
use crate::domain::policy::{PolicyRule, PolicyRules, Ruling};
use crate::domain::run::Run;
use crate::domain::settings::{PolicyAction, RunSettings};
use crate::domain::tool::{CallRecord, Proposal, ToolClass};
use crate::engine::step::{Row, RowKind};
use crate::runtime::rows::read;
use crate::store::documents::{Document, DocumentKind};
use crate::store::{Order, PageAsk, ThreadFilter, ThreadRow};
use crate::tool::Toolset;
use crate::tool::policy::{check, server_rules};

pub use crate::tool::policy::POLICY_ID;

/// How many calls a dry run examines by default, and at most.
const DEFAULT_CALLS: u32 = 500;
const MAX_CALLS: u32 = 5_000;
/// Rows read at once.
const CHUNK: u32 = 200;

/// Rules to be tried on the tool calls of past runs.
#[derive(Clone, Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DryRun {
    /// Instead of the tenant's own; the server's stay.
    pub rules: Vec<PolicyRule>,
    /// Only calls made at this time or later.
    pub since: Option<Millis>,
    /// How many calls, newest threads first; 500 by default, 5000 at most.
    pub limit: Option<u32>,
}

/// What the rules would have changed.
#[derive(Clone, Debug, Default, Serialize, utoipa::ToSchema)]
pub struct DryRunReport {
    pub calls: Vec<TriedCall>,
    /// How many calls went which way: `{"auto": {"ask": 3}}`.
    pub counts: BTreeMap<PolicyAction, BTreeMap<PolicyAction, u32>>,
    /// How many were decided otherwise.
    pub changed: u32,
    /// Whether there were no more calls than these.
    pub complete: bool,
}

/// A past call, as it was decided and as it would be.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriedCall {
    pub thread_id: ThreadId,
    pub call_id: CallId,
    pub tool_name: String,
    pub created_at: Millis,
    pub old: Ruling,
    pub new: Ruling,
}

/// A tenant's rules. There is one set of them, under [`POLICY_ID`]; where none was ever written it is empty.
pub struct Policy;

impl Resource for Policy {
    const KIND: DocumentKind = DocumentKind::Policy;
    const NAME: &'static str = "policy";
    const CONFLICT: &'static str = "Somebody else has written the policy; read it again.";
    const NEEDS_MATCH: Option<&'static str> =
        Some("Send the version that you read in If-Match, so that nobody's rules are lost.");
    type Spec = PolicyRules;
    type View = PolicyRules;

    async fn get(service: &Service, caller: &Caller, id: &str) -> Result<Versioned<PolicyRules>> {
        match service.store.document(caller.tenant, Self::KIND, id).await? {
            Some(stored) => Ok(Versioned { value: rules(&stored)?, version: stored.version }),
            None => Ok(Versioned { value: PolicyRules::default(), version: 0 }),
        }
    }

    fn default_body(_: &Service, _: &str) -> Option<Value> {
        Some(json!(PolicyRules::default()))
    }

    /// The rules apply to calls that are judged from now on; on other replicas within two seconds.
    fn replaced_body(_: &Service, _: &Caller, _: &Toolset, _: &Document, spec: PolicyRules) -> Result<Value> {
        check(&spec.rules)?;
        Ok(json!(spec))
    }

    fn view_of(_: &Service, _: &Caller, document: &Document) -> Result<PolicyRules> {
        rules(document)
    }
}

fn rules(document: &Document) -> Result<PolicyRules> {
    let unreadable = |_| Fault::new(Code::Internal, "The stored policy cannot be read; write it again.");
    document.legible().map_err(unreadable)
}

/// All that decides about the calls of a tenant's agents, beside what their threads say.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct EffectivePolicy {
    /// The tenant's own rules.
    pub rules: Vec<PolicyRule>,
    /// The server's, which this interface does not change.
    pub server: Vec<PolicyRule>,
    /// What applies where no rule does, by what a tool may do.
    pub defaults: Vec<ClassDefault>,
}

/// What becomes of the calls of a class of tools about which no rule says anything. The server's own tools always run.
#[derive(Clone, Copy, Debug, Serialize, utoipa::ToSchema)]
pub struct ClassDefault {
    pub class: ToolClass,
    pub action: PolicyAction,
}

/// The tenant's rules, and all that decides beside them.
pub async fn effective(service: &Service, caller: &Caller) -> Result<Versioned<EffectivePolicy>> {
    let Versioned { value: own, version } = Policy::get(service, caller, POLICY_ID).await?;
    let policy = service.tools.policies().of(caller.tenant);
    let of_class = |class| ClassDefault { class, action: policy.class_default(class, false).action };
    let value = EffectivePolicy {
        rules: own.rules,
        server: server_rules(&service.config),
        defaults: ToolClass::ALL.map(of_class).to_vec(),
    };
    Ok(Versioned { value, version })
}

/// What these rules would have decided about the tool calls that the tenant's agents made.
pub async fn dry_run(service: &Service, caller: &Caller, ask: &DryRun) -> Result<DryRunReport> {
    check(&ask.rules)?;
    let limit = ask.limit.unwrap_or(DEFAULT_CALLS);
    if !(1..=MAX_CALLS).contains(&limit) {
        let how = format!("must be 1 to {MAX_CALLS}");
        return Err(Fault::new(Code::Invalid, format!("`limit` {how}.")).at("/limit", how));
    }
    let tools = &service.tools;
    let policy = Arc::new(tools.policies().with_tenant_rules(&ask.rules));
    let toolset = tools.toolset(caller.tenant).await.with_policy(policy);
    let mut trial = Trial { service, toolset, since: ask.since.unwrap_or(0), limit, report: Default::default() };
    let mut threads = Entries::from(PageAsk::first(CHUNK), |page| async move {
        service.reads.threads(caller.tenant, &ThreadFilter::default(), &page).await
    });
    while let Some(thread) = threads.next().await? {
        // The threads are ordered by `updated_at`, the latest first.
        if thread.updated_at < trial.since {
            break;
        }
        if !trial.try_thread(&thread).await? {
            return Ok(trial.report);
        }
    }
    Ok(DryRunReport { complete: true, ..trial.report })
}

struct Trial<'a> {
    service: &'a Service,
    toolset: Toolset,
    since: Millis,
    limit: u32,
    report: DryRunReport,
}

impl Trial<'_> {
    /// Tries the rules on the calls of a thread, newest first. Returns `false` once the limit of calls is reached.
    async fn try_thread(&mut self, thread: &ThreadRow) -> Result<bool> {
        let (store, pk) = (&self.service.store, thread.pk);
        let mut calls = Entries::from(PageAsk::first(CHUNK), |page| async move {
            store.rows(pk, RowKind::Call, Order::Descending, &page).await
        });
        let mut settings = HashMap::new();
        while let Some(row) = calls.next().await? {
            if !self.try_call(thread, &row, &mut settings).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn try_call(
        &mut self,
        thread: &ThreadRow,
        row: &Row,
        settings: &mut HashMap<RunId, Arc<RunSettings>>,
    ) -> Result<bool> {
        let call: CallRecord = read(row)?;
        let Some(old) = call.policy.filter(|_| call.created_at >= self.since) else { return Ok(true) };
        if self.report.calls.len() >= self.limit as usize {
            return Ok(false);
        }
        let service = self.service;
        if !settings.contains_key(&call.run_id) {
            let stored = service.store.row(thread.pk, RowKind::Run, call.run_id.as_str()).await?;
            let run: Option<Run> = stored.as_ref().map(read).transpose()?;
            settings.insert(call.run_id.clone(), run.map(|run| run.settings).unwrap_or_default());
        }
        let arguments = service.with_payloads(thread.pk, call.arguments).await?;
        let proposal = Proposal {
            thread: &thread.thread_id,
            settings: &settings[&call.run_id],
            tool: &call.tool_name,
            arguments: &arguments,
        };
        // A call of a tool that no longer exists cannot be judged.
        let Some(new) = self.toolset.ruling(&proposal) else { return Ok(true) };
        let counts = self.report.counts.entry(old.action).or_default();
        *counts.entry(new.action).or_default() += 1;
        self.report.changed += u32::from(new.action != old.action);
        self.report.calls.push(TriedCall {
            thread_id: thread.thread_id.clone(),
            call_id: call.call_id,
            tool_name: call.tool_name,
            created_at: call.created_at,
            old,
            new,
        });
        Ok(true)
    }
}
