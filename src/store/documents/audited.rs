//! What the audit says of a change to a document. What has no secrets stands in it whole, because only the audit keeps earlier
//! versions; of everything else the digest, and the members that say where it calls and what it may do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use url::Url;

use super::{Change, DocumentKind};
use crate::domain::digest;
use crate::store::AuditRow;

/// The largest policy that stands in a line whole, in bytes of JSON.
const MAX_POLICY_BYTES: usize = 16 << 10;
/// How many rules of a larger one are named.
const MAX_NAMED: usize = 100;

impl Change {
    pub(super) fn audit(&self) -> AuditRow {
        let action = match (self.kind == DocumentKind::Removal, self.body.is_some()) {
            (true, true) => "remove tenant",
            (true, false) => "reopen tenant",
            (false, true) => "put document",
            (false, false) => "delete document",
        };
        let mut detail = json!({ "kind": self.kind.as_str(), "id": self.id });
        if let Some(why) = &self.why {
            detail["why"] = json!(why);
        }
        if let Some(tenant) = &self.by_tenant {
            detail["actorTenant"] = json!(tenant);
        }
        if let Some(body) = &self.body {
            self.describe(body, &mut detail);
        }
        AuditRow::of_tenant(self.tenant, self.now, &self.by, action, detail)
    }

    fn describe(&self, body: &Value, detail: &mut Value) {
        match self.kind {
            // The line itself says who removed the tenant, and when.
            DocumentKind::Removal => {}
            DocumentKind::SpendCaps | DocumentKind::RunLimits => detail["body"] = body.clone(),
            DocumentKind::Policy if body.to_string().len() <= MAX_POLICY_BYTES => detail["body"] = body.clone(),
            DocumentKind::Policy => {
                detail["digest"] = digest::of(body).into();
                detail["rules"] = changed_rules(self.former.as_ref().unwrap_or(&Value::Null), body);
            }
            DocumentKind::McpServer
            | DocumentKind::McpTools
            | DocumentKind::HttpTool
            | DocumentKind::Webhook
            | DocumentKind::Agent
            | DocumentKind::Schedule => {
                // Secrets are sealed in it, and the sealed text stays while a secret does.
                detail["digest"] = digest::of(body).into();
                // The rest of a URL may be a secret.
                let url =
                    ["url", "card"].into_iter().find_map(|member| body.get(member)?.as_str()?.parse::<Url>().ok());
                if let Some(url) = url {
                    detail["url"] = url.origin().ascii_serialization().into();
                }
                if let Some(class) = body.get("class").filter(|class| !class.is_null()) {
                    detail["class"] = class.clone();
                }
            }
        }
    }
}

/// The names of the rules that only one of the two policies has, or that differ. Several rules may have one name.
fn changed_rules(before: &Value, after: &Value) -> Value {
    let (before, after) = (by_name(before), by_name(after));
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let named = |is_meant: &dyn Fn(&str) -> bool| -> Vec<&str> {
        names.iter().copied().filter(|name| is_meant(name)).take(MAX_NAMED).collect()
    };
    let is_in_both = |name: &str| before.contains_key(name) && after.contains_key(name);
    json!({
        "added": named(&|name| !before.contains_key(name)),
        "changed": named(&|name| is_in_both(name) && before[name] != after[name]),
        "removed": named(&|name| !after.contains_key(name)),
    })
}

/// The rules of a policy by their ids, or else by their tools, as decisions name them.
fn by_name(policy: &Value) -> BTreeMap<&str, Vec<&Value>> {
    let mut named: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for rule in policy["rules"].as_array().into_iter().flatten() {
        let name = rule["id"].as_str().or(rule["tool"].as_str()).unwrap_or_default();
        named.entry(name).or_default().push(rule);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_policies_the_rules_are_named_that_differ() {
        let rule = |id: &str, action: &str| json!({ "id": id, "tool": "x", "action": action });
        let unnamed = json!({ "tool": "mail__*", "action": "ask" });
        let (same, two) = (rule("same", "ask"), rule("two", "ask"));
        let before = json!({ "rules": [same, rule("looser", "deny"), rule("gone", "ask"), two] });
        let after = json!({ "rules": [two, rule("two", "deny"), rule("looser", "auto"), same, unnamed] });
        let expected = json!({ "added": ["mail__*"], "changed": ["looser", "two"], "removed": ["gone"] });
        assert_eq!(changed_rules(&before, &after), expected);
        assert_eq!(changed_rules(&Value::Null, &json!({ "rules": [unnamed] }))["added"], json!(["mail__*"]));
    }
}
