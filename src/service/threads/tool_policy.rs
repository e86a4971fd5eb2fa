//! Who may write what into a thread's `toolPolicy`: anybody who may run makes it stricter; loosening it is approving.

use crate::config::Environment;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::settings::PolicyAction;
use crate::domain::thread::ThreadProfile;
use crate::service::Result;
use crate::tool::policy::{matches, strictness};

/// What was written by this caller over `before`, with the writer's name beside each entry that is new.
pub(in crate::service) fn signed(
    before: &ThreadProfile,
    mut after: ThreadProfile,
    by: &Caller,
    environment: Environment,
) -> Result<ThreadProfile> {
    if !by.may(Scope::Approve)
        && let Some(entry) = loosened(before, &after, by, environment)
    {
        let detail = format!(
            "The entry `{entry}` of toolPolicy would let more run without a person; that needs a key with the scope \
             \"approve\", and `{}` has none. Leave it out, make it stricter, or have somebody with that scope write it.",
            by.name
        );
        let fault = Fault::new(Code::Forbidden, detail).with("scope", serde_json::json!(Scope::Approve));
        let member = entry.replace('~', "~0").replace('/', "~1");
        return Err(fault.at(format!("/config/toolPolicy/{member}"), "would let more run without a person"));
    }
    let (old, names) = (&before.config.tool_policy, &before.tool_policy_by);
    let writer = |entry: &String, action: &PolicyAction| match names.get(entry) {
        Some(name) if old.get(entry) == Some(action) => name.clone(),
        Some(_) | None => by.name.clone(),
    };
    after.tool_policy_by =
        after.config.tool_policy.iter().map(|(entry, action)| (entry.clone(), writer(entry, action))).collect();
    Ok(after)
}

/// An entry that is new and looser than what was there, or the loss of one that somebody else wrote.
fn loosened<'a>(
    before: &'a ThreadProfile,
    after: &'a ThreadProfile,
    by: &Caller,
    environment: Environment,
) -> Option<&'a String> {
    let (old, new) = (&before.config.tool_policy, &after.config.tool_policy);
    let anothers = |entry: &String| before.tool_policy_by.get(entry).is_some_and(|name| *name != by.name);
    let is_looser = |(entry, action): &(&String, &PolicyAction)| {
        let stands_above = |(known, was): (&String, &PolicyAction)| {
            strictness(*was) > strictness(**action) && anothers(known) && overlap(known, entry)
        };
        old.get(*entry) != Some(*action) && (beats_a_default(**action, environment) || old.iter().any(stands_above))
    };
    let written = new.iter().find(is_looser).map(|(entry, _)| entry);
    written.or_else(|| {
        let is_gone = |(entry, action): &(&String, &PolicyAction)| {
            **action != PolicyAction::Auto && !new.contains_key(*entry) && anothers(entry)
        };
        old.iter().find(is_gone).map(|(entry, _)| entry)
    })
}

/// Whether it is looser than the default of some class of tools.
fn beats_a_default(action: PolicyAction, environment: Environment) -> bool {
    match (action, environment) {
        (PolicyAction::Auto, _) | (PolicyAction::Ask, Environment::Production) => true,
        (PolicyAction::Ask, Environment::Development) | (PolicyAction::Deny, _) => false,
    }
}

/// Whether some tool may be meant by both; of two globs that is taken for granted.
fn overlap(a: &str, b: &str) -> bool {
    matches(a, b) || matches(b, a) || (a.contains('*') && b.contains('*'))
}
