//! Imports an export as a new thread, in one transaction.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::archive::{self, Archive};
use super::lines::Invalid;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::facts::{Fact, RunFinishedBody};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::model::Usage;
use crate::domain::observation::{ObservationType, Record};
use crate::domain::run::RunStatus;
use crate::domain::settings::ThreadConfig;
use crate::domain::thread::{ForkedFrom, ThreadProfile};
use crate::engine::event::{Event, PersonEvent};
use crate::engine::history::ShownPlan;
use crate::engine::history::later_calls::digests_of_forgotten_calls;
use crate::engine::step::Step;
use crate::service::audit::AuditLine;
use crate::service::once::KeyGuard;
use crate::service::{Result, Service, retention, settings, threads};
use crate::store::{AuditRow, Commit, Committed, NewEntry, NewImport};
use crate::tool::Toolset;

/// One file is imported at a time, because parsed values take many times the memory of their text.
static IMPORT_PERMITS: Semaphore = Semaphore::const_new(1);

/// How long an import waits for its turn, and when a refused client should retry.
const MAX_WAIT: Duration = Duration::from_secs(60);
const RETRY_AFTER_MS: Millis = 30_000;

/// The right to import a file, acquired before its first byte is read.
pub struct ImportTurn {
    _permit: SemaphorePermit<'static>,
    _of_tenant: KeyGuard,
}

impl ImportTurn {
    /// Waits for the imports before, up to a bound. Only one file of a tenant at a time waits in the queue of all tenants,
    /// so that a tenant that sends many files slowly does not block the others.
    pub async fn wait(service: &Service, caller: &Caller) -> Result<Self> {
        let waited = async {
            let of_tenant = service.key_locks.lock(caller.tenant, "import", "", MAX_WAIT).await.ok()?;
            let permit = timeout(MAX_WAIT, IMPORT_PERMITS.acquire()).await.ok()?;
            Some(Self { _permit: permit.expect("it is never closed"), _of_tenant: of_tenant })
        };
        waited.await.ok_or_else(|| {
            let detail = "Other files are imported; send this one again in a while.";
            Fault::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER_MS)
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportAsk {
    /// Absent: the id that the file says.
    pub thread_id: Option<ThreadId>,
    /// Everything is checked, and nothing stored.
    pub dry_run: bool,
}

/// The thread that was made, or that would be.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    #[schema(value_type = String)]
    pub thread_id: ThreadId,
    /// Where its log begins: what was before was deleted because of its age before the export.
    pub min_seq: i64,
    pub last_seq: i64,
    pub messages: usize,
    /// The run that was not over, and is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub cancelled: Option<RunId>,
    /// Nothing was stored.
    pub dry_run: bool,
}

/// Creates a new, idle thread from an export.
pub async fn import(
    service: &Service,
    caller: &Caller,
    turn: ImportTurn,
    text: Bytes,
    ask: ImportAsk,
) -> Result<Imported> {
    service.runtime.accepting()?;
    if let Some(id) = &ask.thread_id {
        threads::check_id(service, id)?;
    }
    let (state_bytes, id) = (service.config.limits.state_bytes, ask.thread_id);
    // The turn is moved along with the file, because reading continues even if the client disconnects.
    let read = spawn_blocking(move || (archive::read(&text, state_bytes, id), turn)).await;
    let broken = |error| Fault::new(Code::Internal, format!("The file was not read: {error}."));
    let (archive, _turn) = read.map_err(broken)?;
    let archive = archive.map_err(refused)?;
    threads::check_id(service, &archive.id)?;
    if service.store.thread(caller.tenant, &archive.id).await?.is_some() {
        return Err(exists(&archive.id));
    }
    let tools = service.tools.toolset(caller.tenant).await;
    let (import, mut imported) = new_import(service, caller, &tools, archive)?;
    imported.dry_run = ask.dry_run;
    if ask.dry_run {
        return Ok(imported);
    }
    let pk = import.commit.pk;
    match service.store.import_thread(import).await? {
        Committed::Done => {
            service.hub.publish_change(caller.tenant, pk, &imported.thread_id);
            Ok(imported)
        }
        Committed::Exists => Err(exists(&imported.thread_id)),
        Committed::Stale | Committed::Duplicate | Committed::NotDue | Committed::Capped => {
            Err(Fault::new(Code::Internal, "The thread was not stored."))
        }
    }
}

fn refused(Invalid { line, why }: Invalid) -> Fault {
    let detail = format!("Line {line}: {}. Nothing was stored.", why.trim_end_matches('.'));
    Fault::new(Code::ImportInvalid, detail).with("line", line)
}

fn exists(id: &ThreadId) -> Fault {
    let detail = format!("There is a thread `{id}`; import it under another id, or delete that one first.");
    Fault::new(Code::ThreadExists, detail)
}

/// Converts a file to what is stored.
fn new_import(service: &Service, caller: &Caller, tools: &Toolset, archive: Archive) -> Result<(NewImport, Imported)> {
    let (header, pk, id) = (&archive.header, service.runtime.new_pk(), archive.id.clone());
    let profile =
        profile(service, caller, &archive).map_err(|fault| refused(Invalid { line: 1, why: fault.detail }))?;
    let new = threads::new_thread(service, caller, id.clone(), header.core.clone());
    let audit = audit(service, caller, &archive, pk);
    let (min_seq, last_seq, messages) = (header.min_seq, header.last_seq, archive.messages.len());
    let view = archive.fold.view();
    let cancelled: Option<RunId> = view["runId"].as_str().map(RunId::from);
    let unreadable = |error| refused(Invalid { line: 1, why: format!("what its log tells cannot be read: {error}") });
    let mut plan = ShownPlan::of(&view).map_err(unreadable)?;
    // The file does not tell who edited which item, and whoever imports it may have written it.
    plan.edited = plan.todo_list.iter().map(|item| (item.id.clone(), i64::MAX)).collect();
    let later = header.later.iter().cloned().chain(digests_of_forgotten_calls(&plan)).collect();
    let event = Event::Person(PersonEvent::Forked {
        from: ForkedFrom { thread_id: header.thread_id.clone(), seq: last_seq },
        state: Box::new(plan),
        messages: archive.messages,
        superseded: archive.superseded,
        agent_state: archive.agent_state.unwrap_or_default(),
        summary: archive.fold.summary().cloned().map(Box::new),
        shapers: vec![caller.name.clone()],
        later,
    });
    let mut step = service.runtime.decide_for_new_thread(&new, last_seq, event, tools)?;
    let mut log = archive.log;
    let ends = cancelled.as_ref().map_or_else(Vec::new, |run| end_records(service, run, archive.begun, &mut step));
    let end = last_seq + ends.len() as i64;
    log.extend(NewEntry::of(ends, last_seq));
    let mut rows = step.rows;
    rows.extend(archive.rows);
    rows.push(retention::imported_terms_row());
    rows.extend(threads::new_writer(&ThreadConfig::default(), &profile.config, &caller.name, new.created_at));
    let commit = Commit { head: step.head, rows, audit, ..Commit::creating(pk, new, profile, None) };
    let imported = Imported { thread_id: id, min_seq, last_seq: end, messages, cancelled, dry_run: false };
    Ok((NewImport { commit, log, min_seq, last_seq: end, base: archive.base }, imported))
}

/// Checks the profile as if this caller wrote it. It may exceed the bound of profiles, because it may be older than that
/// bound.
fn profile(service: &Service, caller: &Caller, archive: &Archive) -> Result<ThreadProfile> {
    let (core, written) = (&archive.header.core, archive.header.profile.clone());
    if written.config.agent_core.as_ref().is_some_and(|named| named != core) {
        return Err(Fault::new(Code::Invalid, "the thread has one agent core, and its config names another"));
    }
    service.runtime.core(core)?;
    settings::check(service, caller, core, &written.config)?;
    threads::check_size(&written, service.config.limits.body_bytes)?;
    threads::signed(&ThreadProfile::default(), written, caller, service.config.env)
}

/// The records that end an unfinished run: its cancellation, and the plan without it.
fn end_records(service: &Service, run: &RunId, begun: Option<i64>, step: &mut Step) -> Vec<Record> {
    let (now, status) = (service.now(), RunStatus::Cancelled);
    let body = RunFinishedBody {
        status,
        total_duration_ms: now.saturating_sub(begun.unwrap_or(now)),
        llm_calls: 0,
        tool_calls: 0,
        usage: Usage::default(),
        cost_usd: None,
        result_status: None,
    };
    let end = Record {
        id: service.mint().observation(),
        run_id: run.clone(),
        parent_id: None,
        trace_id: String::new(),
        timestamp: now,
        title: format!("Run {}", status.as_str()),
        fact: Fact::from(body),
        metadata: None,
    };
    let plan = std::mem::take(&mut step.records).into_iter().filter(|record| record.kind() == ObservationType::Plan);
    std::iter::once(end).chain(plan).collect()
}

/// The audit of the new thread: the imported lines, under this caller's name, and a line about the import.
fn audit(service: &Service, caller: &Caller, archive: &Archive, pk: ThreadPk) -> Vec<AuditRow> {
    let line = |action: &str, detail| AuditRow {
        tenant: caller.tenant,
        thread: pk,
        thread_id: Some(archive.id.clone()),
        at: service.now(),
        actor: caller.name.clone(),
        action: action.to_owned(),
        detail,
    };
    let mut lines: Vec<AuditRow> = archive.audit.iter().map(|read| line(IMPORTED, json!(original(read)))).collect();
    let header = &archive.header;
    let detail = json!({ "from": header.thread_id, "exportedAt": header.exported_at, "sha256": archive.sha256 });
    lines.push(line("import", detail));
    lines
}

/// The line that an imported line was at first: of a thread that was imported before, the detail is that line. Anything
/// else in a detail stays inside, because the members of a row's own detail say what this server recorded.
fn original(line: &AuditLine) -> AuditLine {
    let before = (line.action == IMPORTED).then(|| serde_json::from_value(line.detail.clone()).ok()).flatten();
    before.unwrap_or_else(|| line.clone())
}

/// The action of an imported audit line. Its detail is the original line.
const IMPORTED: &str = "imported";
