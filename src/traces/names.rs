//! The names of spans' attributes: those of OpenTelemetry's conventions for HTTP, and for generative AI, which are in development
//! and change; and our own, which begin with `pes.`, where they have none.

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const AGENT: &str = "gen_ai.agent.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const FIRST_TOKEN: &str = "gen_ai.response.time_to_first_chunk";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const CACHED_INPUT_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(super) const TOOL: &str = "gen_ai.tool.name";
pub(super) const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub(super) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(super) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(super) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(super) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(super) const ERROR: &str = "error.type";
pub(super) const HTTP_STATUS: &str = "http.response.status_code";
pub(super) const HTTP_METHOD: &str = "http.request.method";
pub(super) const HTTP_ROUTE: &str = "http.route";
pub(super) const URL_PATH: &str = "url.path";
pub(super) const URL_SCHEME: &str = "url.scheme";

pub(super) const RUN: &str = "pes.run.id";
pub(super) const RUN_STATUS: &str = "pes.run.status";
pub(super) const ACTIVATION: &str = "pes.run.activation";
pub(super) const COST: &str = "pes.cost_usd";
pub(super) const PLAN_VERSION: &str = "pes.plan.version";
pub(super) const ITEM: &str = "pes.item.id";
pub(super) const ITEM_ATTEMPT: &str = "pes.item.attempt";
pub(super) const ITEM_STATUS: &str = "pes.item.status";
pub(super) const ATTEMPT: &str = "pes.attempt";
pub(super) const QUEUED: &str = "pes.queued_ms";
pub(super) const POLICY_ACTION: &str = "pes.policy.action";
pub(super) const POLICY_RULE: &str = "pes.policy.rule";
pub(super) const DECISION: &str = "pes.approval.decision";
pub(super) const WAITED: &str = "pes.approval.wait_s";
pub(super) const SUSPENSION_KIND: &str = "pes.suspension.kind";
pub(super) const PEER: &str = "pes.peer.id";
pub(super) const TASK: &str = "pes.task.id";
pub(super) const TASK_STATUS: &str = "pes.task.status";

/// The name of a provider in the conventions. A provider that they do not list keeps its own.
pub(super) fn provider(name: &str) -> &str {
    match name {
        "gemini" => "gcp.gemini",
        "xai" => "x_ai",
        "mistral" => "mistral_ai",
        other => other,
    }
}
