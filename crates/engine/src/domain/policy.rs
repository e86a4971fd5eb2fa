//! Policy: rules that people write, and what was decided by them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Millis;
use super::hitl::ExpiryPolicy;
use super::settings::PolicyAction;

/// A tenant's policy: the body of `PUT /policy`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyRules {
    /// In any order: the most specific one that applies decides, not the first.
    pub rules: Vec<PolicyRule>,
}

/// A rule: the calls to which it applies, and what happens to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyRule {
    /// The name of the rule in decisions; absent = that of its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name or glob (`*` = any characters); absent = every thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Name or glob.
    #[serde(default = "any")]
    pub tool: String,
    /// All must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// What happens to calls to which it applies.
    pub action: PolicyAction,
    /// Who may answer: names of keys, people of an issuer by `iss#sub`, their groups by `group:NAME`; empty = everybody with
    /// the scope `approve`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// Whoever shaped the call (asked for the run, steered it, edited its plan or the arguments, or wrote the instructions of
    /// its thread) may not approve it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
    /// How long the question stays open; absent = as in the run's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_ms: Option<Millis>,
    /// What happens when nobody answers in time; absent: as in the run's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<ExpiryPolicy>,
    /// The reason for the model when a call is denied, and for the person who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn any() -> String {
    "*".to_owned()
}

/// A condition on a call's arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// JSON Pointer into the arguments.
    pub pointer: String,
    /// How the argument is compared.
    pub op: Op,
    /// What it is compared with; `exists` needs none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
}

/// An argument that is missing or cannot be compared (a text with a number) counts against the call: the condition
/// holds in rules that ask or deny, and does not hold in rules that allow. Only `exists` tests whether an argument is
/// there. Rules that ask or deny also compare texts as people read them: without case, in NFKC, without blanks at the
/// ends and without invisible characters; in rules that allow, texts must match exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Equals it, as JSON.
    Eq,
    /// Does not equal it.
    Ne,
    /// Is less: two numbers, or two texts.
    Lt,
    /// Is less or equal.
    Le,
    /// Is greater.
    Gt,
    /// Is greater or equal.
    Ge,
    /// Is one of a list.
    In,
    /// A text contains this text, or a list this entry.
    Contains,
    /// A text begins with this text.
    StartsWith,
    /// A glob. `*` matches no line break, and in a pattern with an `@` only characters of one address.
    Matches,
    /// `true` (the default): there is a value; `false`: there is none.
    Exists,
    /// A mail address, addresses with commas between them or a list of addresses: of one of these domains
    /// (`example.com`, `*.example.com` for all below it).
    EmailDomain,
    /// A URL or host, or a list of them: one of these hosts (`example.com`, `*.example.com`, `192.0.2.1`, `[2001:db8::1]`).
    Host,
    /// A number, or a text that is a number, within the bounds of an object: `eq`, `ne`, `min`, `max`, `above`,
    /// `below`.
    Number,
}

/// What was decided about a call, and by which rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ruling {
    /// What happens to the call.
    pub action: PolicyAction,
    /// The rule's id, or a description of it.
    pub rule: String,
    /// Whose rule it is.
    pub scope: RuleScope,
    /// The version of the tenant's policy, if the rule is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// The rule's own reason; absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The conditions of the rule that the arguments met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// On which terms a person is asked, if one is.
    #[serde(flatten)]
    pub terms: Terms,
}

/// Whose rule it is, from the widest to the narrowest; `default`: no rule applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RuleScope {
    /// No rule applied: the class of the tool decided.
    Default,
    /// The configuration of the server.
    Server,
    /// The policy of the tenant.
    Tenant,
    /// The `toolPolicy` of the thread.
    Thread,
}

/// The terms on which a person is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Terms {
    /// Who may answer; empty = everybody with the scope `approve`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// Whoever shaped the call may not approve it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub four_eyes: bool,
    /// How long the question stays open; absent: as in the run's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_after_ms: Option<Millis>,
    /// What happens when nobody answers in time; absent: as in the run's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<ExpiryPolicy>,
}

/// The prefix of an approver in a rule that is a group.
pub const GROUP_PREFIX: &str = "group:";

/// The person who answers a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answerer {
    /// The name of the key, or the person's as `iss#sub`.
    pub name: String,
    /// The groups that the person's issuer reports.
    pub groups: Vec<String>,
}

impl Answerer {
    /// Whether this approver of a rule is this person.
    fn is(&self, approver: &str) -> bool {
        let is_in = |group: &str| self.groups.iter().any(|known| known == group);
        approver == self.name || approver.strip_prefix(GROUP_PREFIX).is_some_and(is_in)
    }
}

/// The holder of a key: keys are in no groups.
impl From<&str> for Answerer {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), groups: Vec::new() }
    }
}

/// Why a person may not answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// Its rule names other approvers.
    NotNamed,
    /// They asked for the run, steered it, edited its plan or wrote the instructions of its thread.
    Asked,
    /// They edited the arguments.
    Edited,
}

impl Terms {
    /// Why this person may not answer; `None`: they may. `lets_run`: the answer lets the call run; refusing one's own
    /// call is always allowed. `asked_by` shaped the run, `edited_by` the arguments.
    pub fn bar(&self, by: &Answerer, lets_run: bool, asked_by: &[String], edited_by: &[String]) -> Option<Barred> {
        let is_among = |names: &[String]| names.contains(&by.name);
        if !self.approvers.is_empty() && !self.approvers.iter().any(|approver| by.is(approver)) {
            Some(Barred::NotNamed)
        } else if self.four_eyes && lets_run && is_among(asked_by) {
            Some(Barred::Asked)
        } else if self.four_eyes && lets_run && is_among(edited_by) {
            Some(Barred::Edited)
        } else {
            None
        }
    }
}

impl Ruling {
    /// A decision without terms.
    pub fn new(action: PolicyAction, rule: impl Into<String>, scope: RuleScope) -> Self {
        Self {
            action,
            rule: rule.into(),
            scope,
            version: None,
            reason: None,
            when: Vec::new(),
            terms: Terms::default(),
        }
    }
}

impl PolicyRule {
    /// A rule for a tool, whatever its arguments.
    pub fn of_tool(tool: impl Into<String>, action: PolicyAction) -> Self {
        Self {
            id: None,
            thread: None,
            tool: tool.into(),
            when: Vec::new(),
            action,
            approvers: Vec::new(),
            four_eyes: false,
            expires_after_ms: None,
            on_expiry: None,
            reason: None,
        }
    }
}
