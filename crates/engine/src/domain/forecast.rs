//! What a plan may do, before it runs: the tools of each item, and what the policy will decide about them. The
//! arguments of a call are not known yet, so the conditions of a rule are shown, never guessed.

use serde::{Deserialize, Serialize};

use super::hitl::RiskLevel;
use super::ids::ItemId;
use super::plan::{ItemStatus, StepType, ToolValidationMode};
use super::policy::{Condition, Ruling};
use super::settings::PolicyAction;
use super::tool::ToolClass;

/// A plan with what it may do: the answer of `GET /threads/{id}/plan/forecast`, and the `plan` of a plan review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlanForecast {
    /// The version of the plan that it is about.
    pub plan_version: i64,
    /// An open item may call a tool about which policy asks, or one that is external or irreversible.
    pub risky: bool,
    /// All items, in their order.
    pub items: Vec<ItemForecast>,
    /// The tools that open items may call, by name.
    pub tools: Vec<ToolForecast>,
}

/// An item, and the tools that it may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemForecast {
    /// The item's id in the plan.
    pub id: ItemId,
    /// The task, in the planner's words.
    pub description: String,
    /// Items that have ended may call nothing any more.
    pub status: ItemStatus,
    /// The items that must end before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<ItemId>,
    /// Absent: the planner did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_type: Option<StepType>,
    /// The tools that it must have called to be complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_tools: Vec<String>,
    /// What its result should be, in the planner's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_outcome: Option<String>,
    /// What happens if a required tool was not called; absent: `strict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_validation_mode: Option<ToolValidationMode>,
    /// It was completed before and is redone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redone: bool,
    /// The tools that it names; empty for an item that has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_call: Vec<MayCall>,
    /// It names no tool, so it may call any of `tools`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_call_any: bool,
}

/// A tool that an item names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MayCall {
    /// The name as the plan writes it, also of a tool that does not exist.
    pub tool_name: String,
    /// What the policy will decide about its calls in this item if no condition of a rule holds; absent if there is no
    /// such tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<PolicyAction>,
    /// The effect that the tool declares; absent if there is no such tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ToolClass>,
    /// A rule with conditions may decide otherwise: see `tools`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conditional: bool,
}

/// What the policy will decide about a tool's calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolForecast {
    /// A tool that is enabled for the run.
    pub tool_name: String,
    /// The effect that the tool declares.
    pub class: ToolClass,
    /// Whether repeating a call has its effect only once.
    pub idempotent: bool,
    /// Absent: the tool declares none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The decision if none of `conditions` holds.
    pub policy: Ruling,
    /// Rules that decide instead, depending on the arguments; those that ask come first, then those that deny.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionalRuling>,
    /// There are more such rules than are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_conditions: bool,
}

/// What a rule decides about calls with such arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConditionalRuling {
    /// All must hold.
    pub when: Vec<Condition>,
    /// The decision if all of `when` hold.
    pub policy: Ruling,
}

impl ToolForecast {
    /// Whether policy asks about it, perhaps only with some arguments, or its effect leaves this server or cannot be
    /// undone.
    pub fn is_risky(&self) -> bool {
        let mut rulings = std::iter::once(&self.policy).chain(self.conditions.iter().map(|rule| &rule.policy));
        self.class.reaches_out() || rulings.any(|ruling| ruling.action == PolicyAction::Ask)
    }

    /// The action for calls in an item. Where an earlier attempt of the item may have had the effect already, a person is
    /// asked about calls that must not have it twice.
    pub fn action_in(&self, is_repeated: bool) -> PolicyAction {
        let asks_again = is_repeated && self.class != ToolClass::Read && !self.idempotent;
        match self.policy.action {
            PolicyAction::Auto if asks_again => PolicyAction::Ask,
            action @ (PolicyAction::Auto | PolicyAction::Ask | PolicyAction::Deny) => action,
        }
    }
}
