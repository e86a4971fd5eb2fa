//! How each wire expresses the same reply, so that one table of faults applies to all wires.

use std::sync::Arc;

use pes::config;
use pes::provider::{Catalog, ChatModel, Models};
use serde_json::{Value, json};

use super::KEY;
use crate::support::wire::{Step, Wire};

pub struct Speech {
    pub provider: &'static str,
    /// The folder and the extension of its cassettes.
    pub extension: &'static str,
    content_type: &'static str,
    pub path: &'static str,
    /// The header that carries the key.
    pub key: (&'static str, &'static str),
    frame: fn(&Value) -> String,
    pub text: fn(&str) -> Value,
    /// Writes the stop reason; the end may follow.
    pub stop: fn() -> Value,
    /// The end marker, if the wire has one.
    pub end: Option<fn() -> String>,
    /// A keep-alive without content.
    pub idle: &'static str,
    pub overloaded: fn() -> Value,
    /// Tokens in and out so far.
    pub usage: fn(u64, u64) -> Value,
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn line(data: &Value) -> String {
    format!("{data}\n")
}

pub static WIRES: [Speech; 4] = [
    Speech {
        provider: "openai",
        extension: "sse",
        content_type: "text/event-stream",
        path: "/v1/chat/completions",
        key: ("authorization", "Bearer sk-secret"),
        frame: event,
        text: |text| json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
        stop: || json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        end: Some(|| "data: [DONE]\n\n".to_owned()),
        idle: ": still there\n\n",
        overloaded: || json!({"error": {"message": "m", "code": 503}}),
        usage: |i, o| json!({"choices": [], "usage": {"prompt_tokens": i, "completion_tokens": o}}),
    },
    Speech {
        provider: "anthropic",
        extension: "sse",
        content_type: "text/event-stream; charset=utf-8",
        path: "/v1/messages",
        key: ("x-api-key", "sk-secret"),
        frame: event,
        text: |text| json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}}),
        stop: || json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        end: Some(|| event(&json!({"type": "message_stop"}))),
        idle: "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        overloaded: || json!({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}),
        usage: |i, o| {
            let usage = json!({"input_tokens": i, "output_tokens": o});
            json!({"type": "message_delta", "delta": {}, "usage": usage})
        },
    },
    Speech {
        provider: "gemini",
        extension: "sse",
        content_type: "text/event-stream",
        path: "/v1beta/models/some-model:streamGenerateContent?alt=sse",
        key: ("x-goog-api-key", "sk-secret"),
        frame: event,
        text: |text| json!({"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]}),
        stop: || json!({"candidates": [{"content": {}, "finishReason": "STOP"}]}),
        end: None,
        idle: ": still there\n\n",
        overloaded: || json!({"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}),
        usage: |i, o| json!({"usageMetadata": {"promptTokenCount": i, "candidatesTokenCount": o}}),
    },
    Speech {
        provider: "ollama",
        extension: "ndjson",
        content_type: "application/x-ndjson",
        path: "/api/chat",
        key: ("authorization", "Bearer sk-secret"),
        frame: line,
        text: |text| json!({"message": {"role": "assistant", "content": text}, "done": false}),
        stop: || json!({"message": {"content": ""}, "done": true, "done_reason": "stop"}),
        // `done` is both.
        end: None,
        idle: "\n",
        overloaded: || json!({"error": "the runner stopped"}),
        usage: |i, o| json!({"message": {"content": ""}, "prompt_eval_count": i, "eval_count": o, "done": false}),
    },
];

impl Speech {
    pub fn of(provider: &str) -> &'static Self {
        WIRES.iter().find(|speech| speech.provider == provider).unwrap()
    }

    /// A client of this wire at that address. A test in which a time-out passes pauses the clock.
    pub fn model(&self, address: &str) -> Arc<dyn ChatModel> {
        let mut models = config::Models { reply_bytes: 20_000, ..config::Models::default() };
        let key = Some(KEY.to_owned().into());
        match self.provider {
            "openai" => (models.openai.base_url, models.openai.api_key) = (Some(format!("{address}/v1")), key),
            "anthropic" => (models.anthropic.base_url, models.anthropic.api_key) = (Some(address.to_owned()), key),
            "gemini" => (models.gemini.base_url, models.gemini.api_key) = (Some(format!("{address}/v1beta")), key),
            _ => (models.ollama.host, models.ollama.api_key) = (Some(address.to_owned()), key),
        }
        Models::new(&models).unwrap().model(self.provider).unwrap()
    }

    pub fn at(&self, wire: &Wire) -> Arc<dyn ChatModel> {
        self.model(&format!("http://{}", wire.address))
    }

    /// Status and headers of a streamed answer.
    pub fn head(&self) -> Step {
        let kind = self.content_type;
        Step::Raw(format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n").into())
    }

    pub fn chunk(&self, data: &Value) -> Step {
        Step::Chunk((self.frame)(data).into_bytes())
    }

    pub fn raw_frame(&self, text: &str) -> Step {
        match self.extension {
            "sse" => Step::Chunk(format!("data: {text}\n\n").into_bytes()),
            _ => Step::Chunk(format!("{text}\n").into_bytes()),
        }
    }

    /// A text and everything else that makes a reply complete.
    pub fn whole(&self, text: &str) -> Vec<Step> {
        let end = self.end.map(|end| Step::Chunk(end().into_bytes()));
        [self.chunk(&(self.text)(text)), self.chunk(&(self.stop)())].into_iter().chain(end).collect()
    }
}
