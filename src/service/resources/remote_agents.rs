//! Agents to which tasks can be delegated: those of the configuration, which every tenant has, and a tenant's own.

use serde_json::{Map, Value};
use url::Url;

use super::{Collection, Draft, Resource, Versioned, merged_spec, wrong};
use crate::a2a::directory::bearer;
use crate::domain::agent::{AgentSpec, KnownAgent};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::domain::run::CallerStatus;
use crate::domain::task::Task;
use crate::engine::event::{Event, PeerEvent};
use crate::engine::step::RowKind;
use crate::runtime::CommitExtras;
use crate::runtime::rows::read;
use crate::service::pages::Entries;
use crate::service::{Result, Service};
use crate::store::documents::{Document, DocumentKind, Illegible};
use crate::store::{PageAsk, RunsByStatusAsk};
use crate::tool::Toolset;

/// Runs read at once.
const CHUNK: u32 = 200;

/// The longest timeout of a task, in milliseconds: a year.
const MAX_TIMEOUT_MS: i64 = 366 * 24 * 3_600_000;

/// Agents, by id. The contents of an agent's card are shown once the card was read.
pub struct RemoteAgents;

impl Resource for RemoteAgents {
    const KIND: DocumentKind = DocumentKind::Agent;
    const NAME: &'static str = "agent";
    type Spec = AgentSpec;
    type View = KnownAgent;

    async fn get(service: &Service, caller: &Caller, id: &str) -> Result<Versioned<KnownAgent>> {
        let known = service.agents.agent_view(caller.tenant, id);
        let (value, version) = known.ok_or_else(|| Fault::not_found(Self::NAME))?;
        Ok(Versioned { value, version })
    }

    fn replaced_body(
        service: &Service,
        caller: &Caller,
        _: &Toolset,
        known: &Document,
        spec: AgentSpec,
    ) -> Result<Value> {
        replacement(service, caller, known, &spec, known.kept_secrets())
    }

    fn as_spec(known: &Document) -> Result<Value> {
        let spec = crate::a2a::directory::written_spec(known).map_err(unreadable)?;
        serde_json::to_value(spec).map_err(|error| Fault::new(Code::Internal, error.to_string()))
    }

    /// `null` removes the token.
    fn patched_body(
        service: &Service,
        caller: &Caller,
        _: &Toolset,
        known: &Document,
        patch: Map<String, Value>,
    ) -> Result<Value> {
        let loses_token = patch.get("token").is_some_and(Value::is_null);
        let kept = known.kept_secrets().filter(|_| !loses_token);
        replacement(service, caller, known, &merged_spec::<Self>(known, patch)?, kept)
    }

    fn view_of(service: &Service, _: &Caller, document: &Document) -> Result<KnownAgent> {
        service.agents.view_without_card(document).map_err(unreadable)
    }

    /// Reads the agent's card at once if possible. An agent that does not respond yet is stored all the same.
    async fn follow_up(service: &Service, caller: &Caller, id: &str) {
        if let Some(peer) = service.agents.one(caller.tenant, id) {
            // After an error the card is read later.
            service.agents.card(&peer).await.ok();
        }
    }
}

impl Collection for RemoteAgents {
    fn id(view: &KnownAgent) -> &str {
        &view.id
    }

    fn list(service: &Service, caller: &Caller) -> Result<Vec<KnownAgent>> {
        Ok(service.agents.listed(caller.tenant))
    }

    fn draft(service: &Service, caller: &Caller, _: &Toolset, spec: AgentSpec) -> Result<Draft<KnownAgent>> {
        check(service, caller, &spec)?;
        if service.agents.one(caller.tenant, &spec.id).is_some() {
            return Err(Self::id_taken());
        }
        let body = service.agents.stored(caller.tenant, &spec, None)?;
        let AgentSpec { id, card, token: _, dedupes, timeout_ms } = spec;
        let view = KnownAgent {
            id: id.clone(),
            card,
            is_fixed: false,
            dedupes,
            timeout_ms,
            name: None,
            description: None,
            skills: Vec::new(),
            secret_error: None,
            stored_error: None,
        };
        Ok(Draft { id, body, view })
    }

    fn id_taken() -> Fault {
        Fault::new(Code::Invalid, "An agent of this id exists.").at("/id", "is taken")
    }

    /// Ends the agent's tasks. The agent gets no cancel request: it is not called any more.
    async fn after_removal(service: &Service, caller: &Caller, id: &str) -> Result<()> {
        if let Err(fault) = check_tasks_now(service, caller.tenant, id).await {
            tracing::warn!(
                agentId = id,
                why = fault.detail,
                "tasks of a removed agent end when they are asked about next"
            );
        }
        Ok(())
    }
}

/// The body that replaces a known agent's. Without a token of its own it keeps the sealed one in `kept`.
fn replacement(
    service: &Service,
    caller: &Caller,
    known: &Document,
    spec: &AgentSpec,
    kept: Option<&Value>,
) -> Result<Value> {
    if spec.id != known.id {
        return Err(Fault::new(Code::Invalid, "An agent keeps its id.").at("/id", "is not the one in the path"));
    }
    check(service, caller, spec)?;
    let keeps_token = spec.token.is_none() && kept.is_some_and(|kept| !kept.is_null());
    if keeps_token && !is_same_host(known, spec) {
        return Err(wrong("token", "another host needs its own; send it, or null in a patch".to_owned()));
    }
    service.agents.stored(caller.tenant, spec, kept)
}

/// Whether a token that was given for the known agent may go to this one. Nobody can read a token back, so nobody may send
/// it to a host of their own either.
fn is_same_host(known: &Document, spec: &AgentSpec) -> bool {
    let origin = |card: &str| card.parse::<Url>().ok().map(|url| url.origin());
    let before = known.body.as_ref().and_then(|body| origin(body["card"].as_str()?));
    before.is_some() && before == origin(&spec.card)
}

fn check(service: &Service, caller: &Caller, spec: &AgentSpec) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !(1..=64).contains(&spec.id.len()) || !spec.id.chars().all(is_plain) {
        return Err(wrong("id", "has 1 to 64 characters of a-z, A-Z, 0-9, `.`, `_` and `-`".to_owned()));
    }
    service.outbox.egress.tenant_destination(caller.tenant, &spec.card).map_err(|why| wrong("card", why))?;
    if spec.timeout_ms.is_some_and(|ms| !(1..=MAX_TIMEOUT_MS).contains(&ms)) {
        return Err(wrong("timeoutMs", format!("is 1 to {MAX_TIMEOUT_MS}")));
    }
    if spec.token.as_deref().is_some_and(|token| token.is_empty() || bearer(token).is_none()) {
        return Err(wrong("token", "no header can hold it".to_owned()));
    }
    Ok(())
}

fn unreadable(why: Illegible) -> Fault {
    Fault::new(Code::Internal, format!("Of this agent, {why}."))
}

/// Checks the tasks of an agent now instead of at their next poll.
async fn check_tasks_now(service: &Service, tenant: TenantPk, agent: &str) -> Result<()> {
    let statuses = vec![CallerStatus::Running, CallerStatus::Waiting, CallerStatus::Suspended, CallerStatus::NeedsAuth];
    let mut runs = Entries::from(PageAsk::first(CHUNK), |page| {
        let ask = RunsByStatusAsk { tenant, thread: None, statuses: statuses.clone(), since: None, page };
        async move { service.reads.runs_by_caller_status(&ask).await }
    });
    while let Some(run) = runs.next().await? {
        let Some((_, rows)) = service.reads.load(run.pk).await? else { continue };
        for row in rows.iter().filter(|row| row.kind == RowKind::Task) {
            let task: Task = read(row)?;
            if task.agent_id == agent && !task.status.is_terminal() {
                let event = Event::Peer(PeerEvent::CalledBack { task: task.task_id, remote_task_id: None });
                service.runtime.decide(run.pk, event, CommitExtras::default()).await?;
            }
        }
    }
    Ok(())
}
