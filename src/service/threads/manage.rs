//! Managing threads: create, list, read, change, delete.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::prompt_writers::{new_writer, row_of_unrecorded};
use super::tool_policy::signed;
use super::{NewThreadAsk, profile, run_costs};
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{ThreadId, ThreadPk};
use crate::domain::settings::ThreadConfig;
use crate::domain::thread::{ItemCounts, Thread, ThreadProfile, ThreadStatus};
use crate::domain::usage::{Nanos, usd};
use crate::engine::event::{Event, SystemEvent};
use crate::runtime::{CommandError, CommitExtras};
use crate::service::once::{self, Answered, Idempotent, StoredResponse};
use crate::service::{Result, Service, settings};
use crate::store::{Committed, NewThread, Outline, Page, PageAsk, ThreadFilter, ThreadRow};

/// Creates a thread. If a thread with this id and content exists, it is returned, with `false`; with other content it is a
/// fault.
pub async fn create(
    service: &Service,
    caller: &Caller,
    ask: NewThreadAsk,
    key: Option<Idempotent>,
) -> Result<Answered<(Thread, bool)>> {
    service.runtime.accepting()?;
    once::perform(service, caller, key.as_ref(), make(service, caller, ask, key.as_ref())).await
}

async fn make(
    service: &Service,
    caller: &Caller,
    ask: NewThreadAsk,
    key: Option<&Idempotent>,
) -> Result<(Thread, bool), CommandError> {
    let id = ask.thread_id.unwrap_or_else(|| new_id(service));
    check_id(service, &id)?;
    let profile =
        ThreadProfile { title: ask.title, config: ask.config, metadata: ask.metadata, ..ThreadProfile::default() };
    profile::check_size(&profile, profile::MAX_PROFILE_BYTES)?;
    let profile = signed(&ThreadProfile::default(), profile, caller, service.config.env)?;
    let core = profile.config.agent_core.clone().unwrap_or_else(|| service.config.agent.core.clone());
    let unknown = |fault: Fault| fault.at("/config/agentCore", "must be an agent core of this server");
    service.runtime.core(&core).map_err(unknown)?;
    settings::check(service, caller, &core, &profile.config)?;
    let new = new_thread(service, caller, id.clone(), core);
    let fresh = fresh(&new, &profile);
    let kept = key.map(|key| key.row(caller.tenant, fresh.created_at, answer(&fresh)));
    let writer = new_writer(&ThreadConfig::default(), &profile.config, &caller.name, fresh.created_at);
    let (pk, rows) = (service.runtime.new_pk(), writer.into_iter().collect());
    match service.store.create_thread(pk, new, profile.clone(), rows, kept).await? {
        Committed::Done => {
            service.hub.publish_change(caller.tenant, pk, &fresh.thread_id);
            Ok((fresh, true))
        }
        Committed::Duplicate => Err(CommandError::Duplicate),
        Committed::Exists | Committed::Stale | Committed::NotDue | Committed::Capped => {
            let row = row(service, caller, &id).await?;
            // Ignored in the comparison: a title that the agent set, who wrote the policy, and the fork's origin.
            let same = ThreadProfile {
                title: profile.title.or_else(|| row.profile.title.clone()),
                tool_policy_by: row.profile.tool_policy_by.clone(),
                forked_from: row.profile.forked_from.clone(),
                ..profile
            };
            if row.profile == same {
                return Ok((shown(service, row).await?, false));
            }
            let detail = format!("`{id}` exists with other content; use PATCH to change it.");
            Err(Fault::new(Code::ThreadExists, detail).into())
        }
    }
}

/// The response for a new thread: status 201, body and location.
pub(crate) fn answer(thread: &Thread) -> StoredResponse {
    let body = serde_json::to_string(thread).expect("a thread is plain data");
    StoredResponse { status: 201, body, location: Some(format!("/threads/{}", thread.thread_id)) }
}

pub async fn list(service: &Service, caller: &Caller, filter: ThreadFilter, page: PageAsk) -> Result<Page<Thread>> {
    let page = service.reads.threads(caller.tenant, &filter, &page).await?;
    Ok(Page::new(all_shown(service, page.items).await?, page.next_cursor))
}

pub async fn get(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Thread> {
    let row = row(service, caller, id).await?;
    shown(service, row).await
}

/// A merge patch of `title`, `config` and `metadata`. An active run keeps the settings with which it was accepted.
pub async fn patch(service: &Service, caller: &Caller, id: &ThreadId, merge_patch: Value) -> Result<Thread> {
    service.runtime.accepting()?;
    let row = row(service, caller, id).await?;
    let profile = profile::patched(&row, &merge_patch, caller, service.config.env)?;
    if merge_patch.get("config").is_some() {
        settings::check(service, caller, &row.core, &profile.config)?;
    }
    let unrecorded = row_of_unrecorded(service, &row).await?;
    let edit = profile::edit(merge_patch, caller.clone(), service.config.env, unrecorded);
    service.runtime.edit_profile(row.pk, edit).await?;
    get(service, caller, id).await
}

/// Releases a quarantined thread, and resets its crash counts. A thread that is not quarantined is refused: the caller
/// probably means something else.
pub async fn release(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Thread> {
    service.runtime.accepting()?;
    let row = row(service, caller, id).await?;
    if row.status != ThreadStatus::Quarantined {
        let detail = format!(
            "`{id}` is not quarantined: there is nothing to release. A run that is paused goes on when its question is \
             answered: POST /threads/{id}/resume with \"approved\": true."
        );
        return Err(Fault::new(Code::NotQuarantined, detail).with("threadStatus", json!(row.status)));
    }
    service.store.forget_crashes(&[row.pk]).await?;
    let extras = CommitExtras::audited(caller.name.clone(), "release", Value::Null);
    service.runtime.decide(row.pk, Event::System(SystemEvent::Released), extras).await?;
    get(service, caller, id).await
}

/// Stops the thread's runs and deletes everything of it except its audit. The caller must have created it, or be an
/// administrator.
pub async fn delete(service: &Service, caller: &Caller, id: &ThreadId) -> Result<()> {
    service.runtime.accepting()?;
    let row = row(service, caller, id).await?;
    if row.created_by != caller.name && !caller.may(Scope::Admin) {
        let detail = format!(
            "`{id}` was created by `{}`; a key that may `run` erases its own threads, one that may `admin` any.",
            row.created_by
        );
        return Err(Fault::new(Code::Forbidden, detail).with("scope", json!(Scope::Admin)));
    }
    Ok(service.runtime.delete(row.pk, caller.name.clone()).await?)
}

/// Deletes a thread that the caller created if it never had a run, and returns whether it did. A query that is being
/// accepted at the same time prevents the deletion.
pub async fn delete_unused(service: &Service, caller: &Caller, id: &ThreadId) -> Result<bool> {
    let row = row(service, caller, id).await?;
    let is_used = service.reads.outlines(&[row.pk]).await?.iter().any(|outline| outline.last_run.is_some());
    if is_used || row.created_by != caller.name {
        return Ok(false);
    }
    Ok(service.runtime.delete_unused(row.pk, row.updated_at + 1, caller.name.clone()).await?)
}

/// Generates an id for a new thread.
pub fn new_id(service: &Service) -> ThreadId {
    service.mint().thread()
}

/// A thread that this caller creates now.
pub(crate) fn new_thread(service: &Service, caller: &Caller, thread_id: ThreadId, core: String) -> NewThread {
    let (tenant, created_by) = (caller.tenant, caller.name.clone());
    NewThread { tenant, thread_id, core, created_at: service.now(), created_by }
}

/// The row of this tenant's thread, or a not-found fault.
pub(crate) async fn row(service: &Service, caller: &Caller, id: &ThreadId) -> Result<ThreadRow> {
    service.store.thread(caller.tenant, id).await?.ok_or_else(|| Fault::not_found("thread"))
}

/// The key of this tenant's thread, if one is named.
pub(crate) async fn pk_of(service: &Service, caller: &Caller, id: Option<&ThreadId>) -> Result<Option<ThreadPk>> {
    Ok(match id {
        Some(id) => Some(row(service, caller, id).await?.pk),
        None => None,
    })
}

pub(crate) fn check_id(service: &Service, id: &ThreadId) -> Result<()> {
    let most = service.config.limits.id_length;
    if is_valid_id(id.as_str(), most) {
        return Ok(());
    }
    let detail = format!("A thread id has 1 to {most} characters of A-Z a-z 0-9 . _ : - and one letter or digit.");
    Err(Fault::new(Code::Invalid, detail.clone()).at("/threadId", detail))
}

/// Whether a client may name something so: by at most `most` characters of A-Z a-z 0-9 . _ : - and one letter or digit.
pub(in crate::service) fn is_valid_id(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte))
        && text.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

/// Threads as lists show them, in their order.
pub(crate) async fn all_shown(service: &Service, rows: Vec<ThreadRow>) -> Result<Vec<Thread>> {
    let pks: Vec<ThreadPk> = rows.iter().map(|row| row.pk).collect();
    let outlines = service.reads.outlines(&pks).await?.into_iter();
    let mut outlines: HashMap<ThreadPk, Outline> = outlines.map(|outline| (outline.pk, outline)).collect();
    let costs = run_costs::of(service, &pks).await?;
    let shown = |row: ThreadRow| outlined(outlines.remove(&row.pk), costs.get(&row.pk).copied(), row);
    Ok(rows.into_iter().map(shown).collect())
}

async fn shown(service: &Service, row: ThreadRow) -> Result<Thread> {
    let outline = service.reads.outlines(&[row.pk]).await?.pop();
    let cost = run_costs::of(service, &[row.pk]).await?.remove(&row.pk);
    Ok(outlined(outline, cost, row))
}

/// A thread that is being deleted has no outline any more.
fn outlined(outline: Option<Outline>, cost: Option<Nanos>, row: ThreadRow) -> Thread {
    let (items, open_questions, last_run) = match outline {
        Some(outline) => (outline.items, outline.open_questions, outline.last_run),
        None => Default::default(),
    };
    Thread {
        items,
        open_questions,
        last_run,
        cost_usd: cost.map(usd),
        forked_from: row.profile.forked_from,
        thread_id: row.thread_id,
        status: row.status,
        title: row.profile.title.unwrap_or_default(),
        config: row.profile.config,
        metadata: row.profile.metadata,
        tool_policy_by: row.profile.tool_policy_by,
        created_at: row.created_at,
        updated_at: row.updated_at,
        last_seq: row.last_seq,
    }
}

/// The representation of a thread right after its creation.
pub(crate) fn fresh(new: &NewThread, profile: &ThreadProfile) -> Thread {
    Thread {
        thread_id: new.thread_id.clone(),
        status: Default::default(),
        title: profile.title.clone().unwrap_or_default(),
        config: profile.config.clone(),
        metadata: profile.metadata.clone(),
        tool_policy_by: profile.tool_policy_by.clone(),
        created_at: new.created_at,
        updated_at: new.created_at,
        last_seq: 0,
        forked_from: profile.forked_from.clone(),
        items: ItemCounts::default(),
        open_questions: 0,
        last_run: None,
        cost_usd: None,
    }
}
