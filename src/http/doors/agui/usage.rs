//! The token usage of the models that were called during a stream.

use serde_json::{Map, Value, json};

use crate::domain::facts::LlmStreamMetadataBody;

/// One entry for each model.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelUsage(Vec<Value>);

impl ModelUsage {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn add(&mut self, body: &LlmStreamMetadataBody) {
        let known = |entry: &&mut Value| entry["provider"] == body.provider && entry["model"] == body.model;
        let counts = [
            ("inputTokens", body.input_tokens),
            ("outputTokens", body.output_tokens),
            ("totalTokens", body.input_tokens + body.output_tokens),
            ("reasoningTokens", body.thinking_tokens),
            ("cachedInputTokens", body.cached_input_tokens),
        ];
        match self.0.iter_mut().find(known) {
            Some(entry) => {
                for (name, count) in counts {
                    entry[name] = json!(entry[name].as_u64().unwrap_or(0) + count);
                }
            }
            None => {
                let mut entry = Map::new();
                entry.insert("provider".to_owned(), json!(body.provider));
                entry.insert("model".to_owned(), json!(body.model));
                entry.extend(counts.map(|(name, count)| (name.to_owned(), json!(count))));
                self.0.push(Value::Object(entry));
            }
        }
    }

    /// `None` if no model was called.
    pub(super) fn json(&self) -> Option<Value> {
        (!self.0.is_empty()).then(|| json!(self.0))
    }
}
