//! A thread's profile after a merge patch, and what the audit says of the change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::tool_policy::signed;
use crate::config::Environment;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::ThreadProfile;
use crate::domain::typed::typed;
use crate::runtime::ProfileEdit;
use crate::runtime::audit::audit_row;
use crate::service::Result;
use crate::store::{AuditRow, ThreadRow};

/// What the title, the metadata and the settings of a thread may take together, in bytes of JSON: every request to the
/// thread reads them, and a page of a list has up to a thousand.
pub(super) const PROFILE_BYTES: usize = 64 << 10;
/// What of it a thread that is larger already may take for its title.
const TITLE_BYTES: usize = 1 << 10;

/// The patch as the thread's task applies it, to the thread as it is then.
pub(super) fn edit(patch: Value, by: Caller, environment: Environment) -> ProfileEdit {
    Box::new(move |row, now| {
        let profile = patched(row, &patch, &by, environment)?;
        let audit = audited(row, &profile, now, &by.name);
        Ok((profile, audit))
    })
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
    if bytes(&row.profile) <= PROFILE_BYTES || grows(&row.profile, &profile) {
        check_size(&profile, PROFILE_BYTES)?;
    }
    signed(&row.profile, profile, by, environment)
}

/// Refuses a profile that is too large, whatever it has grown by.
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

/// Whether it is larger than before, where a title of a usual length is no growth: one that is too large from before there was
/// a bound can be renamed, and made smaller.
fn grows(before: &ThreadProfile, after: &ThreadProfile) -> bool {
    let untitled = |profile: &ThreadProfile| bytes(&ThreadProfile { title: None, ..profile.clone() });
    after.title.as_ref().is_some_and(|title| title.len() > TITLE_BYTES) || untitled(after) > untitled(before)
}

/// That somebody changed the thread, and what of it; its `toolPolicy` in full, as it says who must be asked. `None`: all is
/// as it was.
fn audited(thread: &ThreadRow, profile: &ThreadProfile, at: Millis, actor: &str) -> Option<AuditRow> {
    let old = &thread.profile;
    let mut changed = differing(&json!(old.config), &json!(profile.config), "/config/");
    changed.extend((old.title != profile.title).then(|| "/title".to_owned()));
    changed.extend((old.metadata != profile.metadata).then(|| "/metadata".to_owned()));
    let mut detail = json!({ "changed": changed });
    if old.config.tool_policy != profile.config.tool_policy {
        detail["toolPolicy"] = json!(profile.config.tool_policy);
    }
    (!changed.is_empty()).then(|| audit_row(thread, at, actor, "patch thread", detail))
}

/// The members that two objects do not have alike, in the order of their names.
fn differing(old: &Value, new: &Value, place: &str) -> Vec<String> {
    let names = [old, new].into_iter().filter_map(Value::as_object).flat_map(|object| object.keys());
    let names: BTreeSet<&String> = names.filter(|name| old.get(name) != new.get(name)).collect();
    names.into_iter().map(|name| format!("{place}{name}")).collect()
}
