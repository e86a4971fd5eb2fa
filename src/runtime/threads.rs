//! Threads as people manage them: create, list, look at, change, erase.

use serde_json::{Value, json};

use super::command::{Command, CommitExtras};
use super::idempotent::Admission;
use super::tool_policy::signed;
use super::{Answered, Idempotent, NewThreadAsk, Result, Runtime};
use crate::config::Environment;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::thread::{Thread, ThreadProfile, ThreadStatus};
use crate::domain::typed::typed;
use crate::engine::event::{Event, SystemEvent};
use crate::store::{Committed, IdempotencyRow, NewThread, Page, PageAsk, ThreadFilter, ThreadRow};

impl Runtime {
    /// Creates a thread. The same id with the same content again is the same thread (`false`); with another, a fault.
    pub async fn create_thread(
        &self,
        caller: &Caller,
        ask: NewThreadAsk,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<(Thread, bool)>> {
        self.0.accepting()?;
        let _flight = match self.0.admit(caller, idempotent.as_ref()).await? {
            Admission::First(flight) => flight,
            Admission::Stored(row) => return Ok(row.into()),
        };
        let id = ask.thread_id.unwrap_or_else(|| self.0.mint().thread());
        self.check_id(&id)?;
        let sheet =
            ThreadProfile { title: ask.title, config: ask.config, metadata: ask.metadata, ..ThreadProfile::default() };
        let sheet = signed(&ThreadProfile::default(), sheet, caller, self.0.config.env)?;
        let core = sheet.config.agent_core.clone().unwrap_or_else(|| self.0.config.agent.core.clone());
        self.0.core(&core)?;
        self.0.sound(caller, &core, &sheet.config)?;
        let created_by = caller.name.clone();
        let new =
            NewThread { tenant: caller.tenant, thread_id: id.clone(), core, created_at: self.0.now(), created_by };
        let fresh = fresh(&new, &sheet);
        let kept = idempotent.clone().map(|key| stored_thread(caller, key, &fresh));
        match self.0.store.create_thread(self.0.new_pk(), new, sheet.clone(), kept).await? {
            Committed::Done => Ok(Answered::Fresh((fresh, true))),
            Committed::Duplicate => Ok(self.0.stored(caller, idempotent.as_ref()).await?.into()),
            Committed::Exists | Committed::Stale => {
                let row = self.row(caller, &id).await?;
                // A title that was not asked for is the agent's, and who wrote the policy is no part of it.
                let same = ThreadProfile {
                    title: sheet.title.or_else(|| row.sheet.title.clone()),
                    tool_policy_by: row.sheet.tool_policy_by.clone(),
                    ..sheet
                };
                if row.sheet == same {
                    return Ok(Answered::Fresh((shown(row), false)));
                }
                Err(Fault::new(
                    Code::ThreadExists,
                    format!("`{id}` exists with other content; use PATCH to change it."),
                ))
            }
        }
    }

    pub async fn threads(&self, caller: &Caller, filter: ThreadFilter, page: PageAsk) -> Result<Page<Thread>> {
        let page = self.0.reads.threads(caller.tenant, &filter, &page).await?;
        Ok(Page { items: page.items.into_iter().map(shown).collect(), next_cursor: page.next_cursor })
    }

    pub async fn thread(&self, caller: &Caller, id: &ThreadId) -> Result<Thread> {
        self.row(caller, id).await.map(shown)
    }

    /// A merge patch of `title`, `config` and `metadata`; what runs already keeps the settings it was accepted with.
    pub async fn patch_thread(&self, caller: &Caller, id: &ThreadId, merge_patch: Value) -> Result<Thread> {
        self.0.accepting()?;
        let row = self.row(caller, id).await?;
        let sheet = patched(&row, &merge_patch, caller, self.0.config.env)?;
        if merge_patch.get("config").is_some() {
            self.0.sound(caller, &row.core, &sheet.config)?;
        }
        let by = caller.clone();
        self.0.ask(row.pk, |reply| Command::Patch { patch: merge_patch, by, reply }).await?;
        self.thread(caller, id).await
    }

    /// Lets a quarantined thread go on: it is told of no crash any more. Another thread stays as it is.
    pub async fn release_thread(&self, caller: &Caller, id: &ThreadId) -> Result<Thread> {
        self.0.accepting()?;
        let row = self.row(caller, id).await?;
        if row.status == ThreadStatus::Quarantined {
            self.0.store.forget_crashes(&[row.pk], false).await?;
            let extras =
                CommitExtras { audit: Some((caller.name.clone(), "release", Value::Null)), ..CommitExtras::default() };
            self.decide(row.pk, Event::System(SystemEvent::Released), extras).await?;
        }
        self.thread(caller, id).await
    }

    /// Stops what runs and erases everything of the thread but its audit. Whoever did not create it must be an
    /// administrator.
    pub async fn delete_thread(&self, caller: &Caller, id: &ThreadId) -> Result<()> {
        self.0.accepting()?;
        let row = self.row(caller, id).await?;
        if row.created_by != caller.name && !caller.may(Scope::Admin) {
            let detail = format!(
                "`{id}` was created by `{}`; a key that may `run` erases its own threads, one that may `admin` any.",
                row.created_by
            );
            return Err(Fault::new(Code::Forbidden, detail).with("scope", json!(Scope::Admin)));
        }
        let by = caller.name.clone();
        Ok(self.0.ask(row.pk, |reply| Command::Delete { by, reply }).await?)
    }

    /// The thread of this tenant, or the fault that says that there is none.
    pub(super) async fn row(&self, caller: &Caller, id: &ThreadId) -> Result<ThreadRow> {
        self.0.store.thread(caller.tenant, id).await?.ok_or_else(|| Fault::not_found("thread"))
    }

    pub(super) fn check_id(&self, id: &ThreadId) -> Result<()> {
        let (text, most) = (id.as_str(), self.0.config.limits.id_length);
        let is_valid = (1..=most).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte))
            && text.bytes().any(|byte| byte.is_ascii_alphanumeric());
        if is_valid {
            return Ok(());
        }
        let detail = format!("A thread id has 1 to {most} characters of A-Z a-z 0-9 . _ : - and one letter or digit.");
        Err(Fault::new(Code::Invalid, detail.clone()).at("/threadId", detail))
    }
}

pub(super) fn shown(row: ThreadRow) -> Thread {
    Thread {
        thread_id: row.thread_id,
        status: row.status,
        title: row.sheet.title.unwrap_or_default(),
        config: row.sheet.config,
        metadata: row.sheet.metadata,
        tool_policy_by: row.sheet.tool_policy_by,
        created_at: row.created_at,
        updated_at: row.updated_at,
        last_seq: row.last_seq,
    }
}

/// A thread as it is right after its creation.
pub(super) fn fresh(new: &NewThread, sheet: &ThreadProfile) -> Thread {
    Thread {
        thread_id: new.thread_id.clone(),
        status: Default::default(),
        title: sheet.title.clone().unwrap_or_default(),
        config: sheet.config.clone(),
        metadata: sheet.metadata.clone(),
        tool_policy_by: sheet.tool_policy_by.clone(),
        created_at: new.created_at,
        updated_at: new.created_at,
        last_seq: 0,
    }
}

fn stored_thread(caller: &Caller, key: Idempotent, thread: &Thread) -> IdempotencyRow {
    IdempotencyRow {
        tenant: caller.tenant,
        scope: key.scope,
        key: key.key,
        fingerprint: key.fingerprint,
        status: 201,
        body: serde_json::to_string(thread).expect("a thread is plain data"),
        location: Some(format!("/threads/{}", thread.thread_id)),
        created_at: thread.created_at,
    }
}

/// The profile after a merge patch, checked.
pub(super) fn patched(row: &ThreadRow, patch: &Value, by: &Caller, environment: Environment) -> Result<ThreadProfile> {
    let invalid = |pointer: &str, detail: String| Err(Fault::new(Code::Invalid, detail.clone()).at(pointer, detail));
    let Some(fields) = patch.as_object() else {
        return invalid("", "A merge patch of a thread is an object.".to_owned());
    };
    if let Some(field) = fields.keys().find(|field| !["title", "config", "metadata"].contains(&field.as_str())) {
        return invalid(&format!("/{field}"), format!("`{field}` cannot be changed; title, config and metadata can."));
    }
    let mut whole = serde_json::to_value(&row.sheet).expect("a sheet is plain data");
    json_patch::merge(&mut whole, patch);
    for (field, empty) in
        [("config", Value::Object(Default::default())), ("metadata", Value::Object(Default::default()))]
    {
        if whole.get(field).is_none() {
            whole[field] = empty;
        }
    }
    let sheet: ThreadProfile = typed(whole)?;
    if sheet.config.agent_core.as_ref().is_some_and(|core| *core != row.core) {
        return invalid(
            "/config/agentCore",
            format!("This thread was begun with the core `{}` and keeps it.", row.core),
        );
    }
    signed(&row.sheet, sheet, by, environment)
}

impl<T> From<IdempotencyRow> for Answered<T> {
    fn from(row: IdempotencyRow) -> Self {
        Answered::Replayed { status: row.status, body: row.body, location: row.location }
    }
}
