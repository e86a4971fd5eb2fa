//! What a tenant's administrators do with the agents that work can be given to.

use crate::a2a::directory::bearer;
use crate::domain::agent::{AgentSpec, KnownAgent};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::domain::run::CallerStatus;
use crate::domain::task::Task;
use crate::egress::Destination;
use crate::engine::event::{Event, PeerEvent};
use crate::engine::step::RowKind;
use crate::runtime::CommitExtras;
use crate::service::once::{Answered, Idempotent};
use crate::service::pages::Entries;
use crate::service::rows::read;
use crate::service::{Result, Service, resources};
use crate::store::document::{Change, DocumentKind};
use crate::store::{PageAsk, StandingAsk};

/// Runs read at once.
const CHUNK: u32 = 200;

/// How long a task may take at most, in milliseconds: a year.
const LONGEST: i64 = 366 * 24 * 3_600_000;

/// The configuration's first.
pub fn list(service: &Service, caller: &Caller) -> Vec<KnownAgent> {
    service.agents.known(caller.tenant)
}

pub fn get(service: &Service, caller: &Caller, id: &str) -> Result<KnownAgent> {
    let peer = service.agents.one(caller.tenant, id).ok_or_else(|| Fault::not_found("agent"))?;
    Ok(service.agents.shown(&peer))
}

/// Its card is read at once if it can be; an agent that does not answer yet is known all the same.
pub async fn create(
    service: &Service,
    caller: &Caller,
    spec: AgentSpec,
    key: Option<Idempotent>,
) -> Result<Answered<KnownAgent>> {
    let id = spec.id.clone();
    let made = resources::create(service, caller, key, taken(), || new_agent(service, caller, spec)).await?;
    if let Some(peer) = service.agents.one(caller.tenant, &id) {
        // What it says of itself comes later if it does not come now.
        service.agents.card(&peer).await.ok();
    }
    Ok(made)
}

fn new_agent(service: &Service, caller: &Caller, spec: AgentSpec) -> Result<(Change, KnownAgent)> {
    let wrong = |member: &str, why: String| {
        Fault::new(Code::Invalid, format!("`{member}`: {why}.")).at(format!("/{member}"), why)
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !(1..=64).contains(&spec.id.len()) || !spec.id.chars().all(is_plain) {
        return Err(wrong("id", "has 1 to 64 characters of a-z, A-Z, 0-9, `.`, `_` and `-`".to_owned()));
    }
    let url = spec.card.parse().map_err(|error| wrong("card", format!("this is no URL: {error}")))?;
    let to = Destination::Untrusted { url, tenant: caller.tenant };
    service.outbox.egress.judge(&to).map_err(|error| wrong("card", error.to_string()))?;
    if spec.timeout_ms.is_some_and(|ms| !(1..=LONGEST).contains(&ms)) {
        return Err(wrong("timeoutMs", format!("is 1 to {LONGEST}")));
    }
    if spec.token.as_deref().is_some_and(|token| token.is_empty() || bearer(token).is_none()) {
        return Err(wrong("token", "no header can hold it".to_owned()));
    }
    if service.agents.one(caller.tenant, &spec.id).is_some() {
        return Err(taken());
    }
    let body = service.agents.sealed(caller.tenant, &spec)?;
    let change = resources::change(service, caller, DocumentKind::Agent, &spec.id, Some(body));
    let AgentSpec { id, card, token: _, dedupes, timeout_ms } = spec;
    let made = KnownAgent {
        id,
        card,
        is_fixed: false,
        dedupes,
        timeout_ms,
        name: None,
        description: None,
        skills: Vec::new(),
        secret_error: None,
    };
    Ok((change, made))
}

/// Tasks that it has end. It is not told: from now on nothing speaks to it.
pub async fn delete(service: &Service, caller: &Caller, id: &str) -> Result<()> {
    service.runtime.accepting()?;
    resources::remove(service, resources::change(service, caller, DocumentKind::Agent, id, None), "agent").await?;
    if let Err(fault) = ask_about(service, caller.tenant, id).await {
        tracing::warn!(agentId = id, why = fault.detail, "tasks of a removed agent end when they are asked about next");
    }
    Ok(())
}

/// How the tasks of an agent stand is asked at once, and not only when it would be their turn.
async fn ask_about(service: &Service, tenant: TenantPk, agent: &str) -> Result<()> {
    let standings =
        vec![CallerStatus::Running, CallerStatus::Waiting, CallerStatus::Suspended, CallerStatus::NeedsAuth];
    let ask =
        StandingAsk { tenant, thread: None, standings, since: None, page: PageAsk { cursor: None, limit: CHUNK } };
    let mut runs = Entries::from(ask.page.clone(), |page| {
        let ask = StandingAsk { page, ..ask.clone() };
        async move { Ok(service.reads.runs_by_standing(&ask).await?.0) }
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

fn taken() -> Fault {
    Fault::new(Code::Invalid, "An agent of this id exists.").at("/id", "is taken")
}
