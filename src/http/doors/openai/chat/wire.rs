//! A chat completion as JSON: as one object, or as chunks.

use serde_json::{Map, Value, json};

use super::events::{ClientCall, CompletionPart, Finish};
use crate::domain::Millis;
use crate::domain::ids::RunId;
use crate::domain::model::Usage;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::sources::Citation;

/// What all chunks of a completion have in common.
#[derive(Clone, Debug)]
pub(super) struct Completion {
    id: String,
    created: Millis,
    model: String,
}

impl Completion {
    pub(super) fn new(run: &RunId, now: Millis, model: String) -> Self {
        Self { id: format!("chatcmpl-{run}"), created: now / 1000, model }
    }

    /// The first chunk.
    pub(super) fn first_chunk(&self) -> Value {
        self.chunk(json!({ "role": "assistant", "content": "" }), None)
    }

    /// `calls` counts the client's calls that were sent before.
    pub(super) fn part(&self, part: &CompletionPart, calls: &mut usize) -> Value {
        match part {
            CompletionPart::Reasoning(text) => self.chunk(json!({ "reasoning_content": text }), None),
            CompletionPart::Content(text) => self.chunk(json!({ "content": text }), None),
            CompletionPart::Call(call) => {
                let mut shown = tool_call(call);
                shown["index"] = json!(*calls);
                *calls += 1;
                self.chunk(json!({ "tool_calls": [shown] }), None)
            }
            CompletionPart::Sources(sources) => self.chunk(json!({ "annotations": annotations(sources) }), None),
            CompletionPart::Finished(finish) => self.chunk(json!({}), Some(*finish)),
            CompletionPart::Failed { code, message } => OpenAiError::failed(code, message).body(),
        }
    }

    /// The last chunk, for clients that request the usage.
    pub(super) fn usage_chunk(&self, used: &Usage) -> Value {
        let mut chunk = self.object("chat.completion.chunk", json!([]));
        chunk["usage"] = usage(used);
        chunk
    }

    fn chunk(&self, delta: Value, finish: Option<Finish>) -> Value {
        let choice =
            json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish.map(Finish::as_str) });
        self.object("chat.completion.chunk", json!([choice]))
    }

    fn object(&self, object: &str, choices: Value) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices,
        })
    }

    /// All parts as one object. An error if there is no answer.
    pub(super) fn whole(&self, parts: &[CompletionPart], used: &Usage) -> Result<Value, OpenAiError> {
        let (mut reasoning, mut content) = (String::new(), String::new());
        let (mut calls, mut cited, mut finish) = (Vec::new(), Vec::new(), Finish::Stop);
        for part in parts {
            match part {
                CompletionPart::Reasoning(text) => reasoning.push_str(text),
                CompletionPart::Content(text) => content.push_str(text),
                CompletionPart::Call(call) => calls.push(tool_call(call)),
                CompletionPart::Sources(sources) => cited = annotations(sources),
                CompletionPart::Finished(why) => finish = *why,
                CompletionPart::Failed { code, message } => return Err(OpenAiError::failed(code, message)),
            }
        }
        let mut message = Map::from_iter([
            ("role".to_owned(), json!("assistant")),
            ("content".to_owned(), json!((!content.is_empty() || calls.is_empty()).then_some(content))),
            ("refusal".to_owned(), Value::Null),
        ]);
        if !reasoning.is_empty() {
            message.insert("reasoning_content".to_owned(), json!(reasoning));
        }
        if !cited.is_empty() {
            message.insert("annotations".to_owned(), json!(cited));
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), json!(calls));
        }
        let choice = json!({ "index": 0, "message": message, "finish_reason": finish.as_str(), "logprobs": null });
        let mut completion = self.object("chat.completion", json!([choice]));
        completion["usage"] = usage(used);
        Ok(completion)
    }
}

impl Finish {
    fn as_str(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Calls => "tool_calls",
        }
    }
}

fn annotations(sources: &[Citation]) -> Vec<Value> {
    sources.iter().map(Citation::nested).collect()
}

fn tool_call(call: &ClientCall) -> Value {
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } })
}

fn usage(used: &Usage) -> Value {
    json!({
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": { "cached_tokens": used.cached_input_tokens },
        "completion_tokens_details": { "reasoning_tokens": used.thinking_tokens },
    })
}
