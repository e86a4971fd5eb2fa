//! A thread's profile after a merge patch, and the audit line of the change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::prompt_writers::new_writer;
use super::tool_policy::signed;
use crate::config::Environment;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::pointer::Pointer;
use crate::domain::thread::ThreadProfile;
use crate::domain::typed::typed;
use crate::engine::step::Row;
use crate::runtime::audit::audit_row;
use crate::runtime::{EditedProfile, ProfileEdit};
use crate::service::Result;
use crate::store::{AuditRow, ThreadRow};

/// The maximum size of title, metadata and settings of a thread together, in bytes of JSON: every request to the thread
/// reads them, and a page of a list has up to a thousand.
pub(super) const MAX_PROFILE_BYTES: usize = 64 << 10;
/// The maximum size of a title in a profile that exceeds the bound already.
const MAX_TITLE_BYTES: usize = 1 << 10;

/// The patch as a function that the thread's actor applies to the current profile. `unrecorded`: the row of a writer of the
/// instructions before, if none is recorded.
pub(super) fn edit(patch: Value, by: Caller, environment: Environment, unrecorded: Option<Row>) -> ProfileEdit {
    Box::new(move |row, now| {
        let profile = patched(row, &patch, &by, environment)?;
        let writer = new_writer(&row.profile.config, &profile.config, &by.name, now);
        let audit = audit_line(row, &profile, now, &by.name);
        let unrecorded = writer.as_ref().and(unrecorded.clone()).filter(|row| row.id != by.name);
        Ok(EditedProfile { profile, rows: unrecorded.into_iter().chain(writer).collect(), audit })
    })
}

/// The profile after a merge patch, checked.
pub(super) fn patched(row: &ThreadRow, patch: &Value, by: &Caller, environment: Environment) -> Result<ThreadProfile> {
    let invalid = |pointer: &str, detail: String| Err(Fault::new(Code::Invalid, detail.clone()).at(pointer, detail));
    let Some(fields) = patch.as_object() else {
        return invalid("", "A merge patch of a thread is an object.".to_owned());
    };
    if let Some(field) = fields.keys().find(|field| !["title", "config", "metadata"].contains(&field.as_str())) {
        let pointer = Pointer::of([field.as_str()]).to_string();
        return invalid(&pointer, format!("`{field}` cannot be changed; title, config and metadata can."));
    }
    let mut whole = serde_json::to_value(&row.profile).expect("a thread profile is plain data");
    json_patch::merge(&mut whole, patch);
    for (field, empty) in
        [("config", Value::Object(Default::default())), ("metadata", Value::Object(Default::default()))]
    {
        if whole.get(field).is_none() {
            whole[field] = empty;
        }
    }
    let profile: ThreadProfile = typed(whole)?;
    if profile.config.agent_core.as_ref().is_some_and(|core| *core != row.core) {
        return invalid(
            "/config/agentCore",
            format!("This thread was begun with the core `{}` and keeps it.", row.core),
        );
    }
    if bytes(&row.profile) <= MAX_PROFILE_BYTES || grows(&row.profile, &profile) {
        check_size(&profile, MAX_PROFILE_BYTES)?;
    }
    signed(&row.profile, profile, by, environment)
}

/// Refuses a profile that is larger than `most`.
pub(in crate::service) fn check_size(profile: &ThreadProfile, most: usize) -> Result<()> {
    let bytes = bytes(profile);
    if bytes <= most {
        return Ok(());
    }
    let detail =
        format!("The title, metadata and config of a thread may take {most} bytes as JSON; these take {bytes}.");
    Err(Fault::new(Code::Invalid, detail.clone()).at("", detail))
}

fn bytes(profile: &ThreadProfile) -> usize {
    json!(profile).to_string().len()
}

/// Whether the profile has grown. A title of usual length does not count: a profile that has exceeded the bound since before
/// there was one can be renamed, and made smaller.
fn grows(before: &ThreadProfile, after: &ThreadProfile) -> bool {
    let untitled = |profile: &ThreadProfile| bytes(&ThreadProfile { title: None, ..profile.clone() });
    after.title.as_ref().is_some_and(|title| title.len() > MAX_TITLE_BYTES) || untitled(after) > untitled(before)
}

/// The audit line of the change, with the names of the changed members. A changed `toolPolicy` is recorded in full, because
/// it says who must be asked. `None`: nothing has changed.
fn audit_line(thread: &ThreadRow, profile: &ThreadProfile, at: Millis, actor: &str) -> Option<AuditRow> {
    let old = &thread.profile;
    let mut changed = changed_members(&json!(old.config), &json!(profile.config), "/config/");
    changed.extend((old.title != profile.title).then(|| "/title".to_owned()));
    changed.extend((old.metadata != profile.metadata).then(|| "/metadata".to_owned()));
    let mut detail = json!({ "changed": changed });
    if old.config.tool_policy != profile.config.tool_policy {
        detail["toolPolicy"] = json!(profile.config.tool_policy);
    }
    (!changed.is_empty()).then(|| audit_row(thread, at, actor, "patch thread", detail))
}

/// The members in which two objects differ, ordered by name.
fn changed_members(old: &Value, new: &Value, place: &str) -> Vec<String> {
    let names = [old, new].into_iter().filter_map(Value::as_object).flat_map(|object| object.keys());
    let names: BTreeSet<&String> = names.filter(|name| old.get(name) != new.get(name)).collect();
    names.into_iter().map(|name| format!("{place}{name}")).collect()
}
