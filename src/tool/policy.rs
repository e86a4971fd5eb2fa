//! Which calls run by themselves, which need a person, which never run.

use std::collections::BTreeMap;

use crate::config::Environment;
use crate::domain::settings::PolicyAction;
use crate::domain::tool::ToolClass;

/// A decision and the rule that made it, for the error and the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub action: PolicyAction,
    pub rule: String,
}

/// The rule of `toolPolicy` that applies to a tool: the exact name, else the glob with the most literal characters, else
/// none. Of two equally specific ones the stricter decides.
pub fn explicit(policy: &BTreeMap<String, PolicyAction>, tool: &str) -> Option<Ruling> {
    policy
        .iter()
        .filter(|(pattern, _)| matches(pattern, tool))
        .max_by_key(|(pattern, action)| (specificity(pattern), strictness(**action)))
        .map(|(pattern, action)| Ruling { action: *action, rule: format!("toolPolicy {pattern} = {}", name(*action)) })
}

/// What applies where no rule does: outside production every class but `irreversible` runs; in production only reading
/// and the server's own tools do, everything else needs a rule.
pub fn by_class(environment: Environment, class: ToolClass, is_own: bool) -> Ruling {
    let action = match (environment, class) {
        (_, ToolClass::Read) => PolicyAction::Auto,
        (Environment::Development, ToolClass::Write | ToolClass::External) => PolicyAction::Auto,
        (Environment::Development, ToolClass::Irreversible) => PolicyAction::Ask,
        (Environment::Production, ToolClass::Write | ToolClass::External | ToolClass::Irreversible) if is_own => {
            PolicyAction::Auto
        }
        (Environment::Production, ToolClass::Write | ToolClass::External | ToolClass::Irreversible) => {
            PolicyAction::Deny
        }
    };
    let class = match class {
        ToolClass::Read => "read",
        ToolClass::Write => "write",
        ToolClass::External => "external",
        ToolClass::Irreversible => "irreversible",
    };
    Ruling { action, rule: format!("default for {class} tools = {}", name(action)) }
}

/// Whether a name or glob (`*` = any characters) covers a tool's name.
pub fn matches(pattern: &str, tool: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == tool;
    };
    let Some(mut left) = tool.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
    }
    left.ends_with(tail)
}

fn specificity(pattern: &str) -> (bool, usize) {
    (!pattern.contains('*'), pattern.chars().filter(|c| *c != '*').count())
}

fn strictness(action: PolicyAction) -> u8 {
    match action {
        PolicyAction::Auto => 0,
        PolicyAction::Ask => 1,
        PolicyAction::Deny => 2,
    }
}

fn name(action: PolicyAction) -> &'static str {
    match action {
        PolicyAction::Auto => "auto",
        PolicyAction::Ask => "ask",
        PolicyAction::Deny => "deny",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_cover_what_they_say() {
        for (pattern, tool) in [("*", "a"), ("mail__*", "mail__send"), ("*_time", "current_time"), ("a*b*c", "aXbYc")] {
            assert!(matches(pattern, tool), "{pattern} {tool}");
        }
        for (pattern, tool) in [("mail", "mail__send"), ("a*b*c", "acb"), ("ab*ba", "aba"), ("", "a")] {
            assert!(!matches(pattern, tool), "{pattern} {tool}");
        }
    }

    #[test]
    fn the_most_specific_rule_decides_and_the_stricter_of_equals() {
        let policy = BTreeMap::from(
            [("*", PolicyAction::Deny), ("mail__*", PolicyAction::Ask), ("mail__read", PolicyAction::Auto)]
                .map(|(pattern, action)| (pattern.to_owned(), action)),
        );
        let action = |tool: &str| explicit(&policy, tool).map(|ruling| ruling.action);
        assert_eq!(action("mail__read"), Some(PolicyAction::Auto));
        assert_eq!(action("mail__send"), Some(PolicyAction::Ask));
        assert_eq!(action("other"), Some(PolicyAction::Deny));
        let tied = BTreeMap::from([("a*".to_owned(), PolicyAction::Auto), ("*b".to_owned(), PolicyAction::Deny)]);
        assert_eq!(explicit(&tied, "ab").unwrap().rule, "toolPolicy *b = deny");
        assert_eq!(explicit(&tied, "c"), None);
    }
}
