//! Texts: replies of models are parsed, and prompts are rendered.

mod parse_any;
mod parse_json;
mod parse_plan;
mod parse_step;
mod parse_synthesis;
mod prompts;

use pes_engine::domain::model::{ModelReply, RawToolCall, StopReason, Usage};
use pes_engine::parse::{self, ParseFault, PlanDraft};

fn reply(text: &str) -> ModelReply {
    ModelReply {
        text: text.to_owned(),
        thinking: String::new(),
        tool_calls: Vec::new(),
        replay: None,
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        provider: "demo".into(),
        model: "demo-scripted".into(),
        time_to_first_token_ms: None,
        queued_ms: None,
        total_ms: 0,
        fit: None,
        prompt_digest: None,
    }
}

/// A reply cut off at its maximum length.
fn cut(text: &str) -> ModelReply {
    ModelReply { stop: StopReason::MaxTokens, ..reply(text) }
}

fn plan(text: &str, calls: &[RawToolCall]) -> Result<PlanDraft, ParseFault> {
    parse::plan(&ModelReply { tool_calls: calls.to_vec(), ..reply(text) })
}

fn native(name: &str, arguments: &str) -> RawToolCall {
    RawToolCall { id: Some("toolu_1".into()), name: name.into(), arguments: arguments.into() }
}
