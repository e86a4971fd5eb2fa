//! Who may write what into a thread's `toolPolicy`: any key with `run` may make it stricter; loosening it needs `approve`.

use crate::config::Environment;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::pointer;
use crate::domain::settings::PolicyAction;
use crate::domain::thread::ThreadProfile;
use crate::service::Result;
use crate::tool::policy::matches;

/// Checks that this caller may replace `before` by `after`, and records the caller's name beside each new entry.
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
        let member = pointer::token(entry);
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

/// Finds an entry that is new and looser than the old ones, or the removal of one that somebody else wrote.
fn loosened<'a>(
    before: &'a ThreadProfile,
    after: &'a ThreadProfile,
    by: &Caller,
    environment: Environment,
) -> Option<&'a String> {
    let (old, new) = (&before.config.tool_policy, &after.config.tool_policy);
    let anothers = |entry: &String| before.tool_policy_by.get(entry).is_some_and(|name| *name != by.name);
    let is_looser = |(entry, action): &(&String, &PolicyAction)| {
        let is_stricter =
            |(known, was): (&String, &PolicyAction)| *was > **action && anothers(known) && overlap(known, entry);
        old.get(*entry) != Some(*action)
            && (is_looser_than_a_default(**action, environment) || old.iter().any(is_stricter))
    };
    let written = new.iter().find(is_looser).map(|(entry, _)| entry);
    written.or_else(|| {
        let is_gone = |(entry, action): &(&String, &PolicyAction)| {
            **action != PolicyAction::Auto && !new.contains_key(*entry) && anothers(entry)
        };
        old.iter().find(is_gone).map(|(entry, _)| entry)
    })
}

/// Whether the action is looser than the default of some class of tools.
fn is_looser_than_a_default(action: PolicyAction, environment: Environment) -> bool {
    match (action, environment) {
        (PolicyAction::Auto, _) | (PolicyAction::Ask, Environment::Production) => true,
        (PolicyAction::Ask, Environment::Development) | (PolicyAction::Deny, _) => false,
    }
}

/// Whether both patterns may match the same tool. Two globs are assumed to overlap.
fn overlap(a: &str, b: &str) -> bool {
    matches(a, b) || matches(b, a) || (a.contains('*') && b.contains('*'))
}
