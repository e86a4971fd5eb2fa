//! Builds a streamed reply: bounded in size, and every piece is copied once.

use std::collections::HashSet;

use serde_json::Value;
use tokio::time::Instant;

use crate::config::ModelRef;
use crate::domain::model::{Delta, ModelReply, RawToolCall, StopReason, Usage};
use crate::domain::tokens;

/// Bounds the tool calls of one reply. The engine has a lower limit and refuses the calls beyond it one by one.
const MAX_CALLS: usize = 256;

#[derive(Debug)]
pub(super) struct ReplyBuilder {
    began: Instant,
    first: Option<Instant>,
    bytes: usize,
    max_bytes: usize,
    text: String,
    thinking: String,
    /// By the provider's index, in order of appearance.
    calls: Vec<(u32, RawToolCall)>,
    replay: Option<Value>,
    usage: Usage,
    stop: Option<StopReason>,
}

/// The reply exceeds its bound.
#[derive(Debug, PartialEq)]
pub(super) struct TooLarge;

impl ReplyBuilder {
    pub(super) fn new(began: Instant, max_bytes: usize) -> Self {
        Self {
            began,
            first: None,
            bytes: 0,
            max_bytes,
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            replay: None,
            usage: Usage::default(),
            stop: None,
        }
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    pub(super) fn take(&mut self, delta: Delta) -> Result<(), TooLarge> {
        self.check_size(&delta)?;
        match delta {
            Delta::Text(piece) => self.text.push_str(&piece),
            Delta::Thinking(piece) => self.thinking.push_str(&piece),
            Delta::WasThinking => self.thinking.push_str(&std::mem::take(&mut self.text)),
            Delta::ToolCall { index, id, name, arguments } => {
                let call = self.call(index)?;
                call.id = call.id.take().or(id);
                // Some servers repeat the name in every piece.
                call.name.push_str(name.filter(|name| *name != call.name).as_deref().unwrap_or_default());
                call.arguments.push_str(&arguments);
            }
            Delta::Replay(blocks) => self.replay = Some(blocks),
            Delta::Usage(usage) => self.usage = usage,
            Delta::Stop(reason) => self.stop = Some(reason),
        }
        Ok(())
    }

    /// Estimates the usage if the provider did not report it, so that caps, budgets and costs apply. `prompt` estimates the
    /// tokens of the prompt.
    pub(super) fn estimate_missing_usage(&mut self, prompt: impl FnOnce() -> u64) {
        if self.usage == Usage::default() {
            self.usage = self.usage_so_far(prompt());
        }
    }

    /// The whole reply. The error returns the builder: the provider sent no stop reason.
    pub(super) fn finish(self, model: ModelRef) -> Result<ModelReply, Box<Self>> {
        let since = |at: Instant| i64::try_from(at.duration_since(self.began).as_millis()).unwrap_or(i64::MAX);
        let Some(stop) = self.stop.clone() else { return Err(Box::new(self)) };
        Ok(ModelReply {
            stop,
            time_to_first_token_ms: self.first.map(since),
            queued_ms: None,
            total_ms: since(Instant::now()),
            text: self.text,
            thinking: self.thinking,
            tool_calls: without_repeated_ids(self.calls.into_iter().map(|(_, call)| call).collect()),
            replay: self.replay,
            usage: self.usage,
            provider: model.provider,
            model: model.model,
            fit: None,
            prompt_digest: None,
        })
    }

    /// Whether anything of it arrived.
    pub(super) fn has_begun(&self) -> bool {
        self.first.is_some() || self.usage != Usage::default()
    }

    /// The usage of a reply that broke off: what the provider reported, but not less than what arrived. `prompt` is the estimated
    /// number of prompt tokens.
    pub(super) fn usage_so_far(&self, prompt: u64) -> Usage {
        let thinking = if self.thinking.is_empty() { 0 } else { tokens::of_text(&self.thinking) };
        let calls = self
            .calls
            .iter()
            .map(|(_, call)| tokens::of_text(&call.name) + tokens::of_text(&call.arguments))
            .sum::<u64>();
        let text = if self.text.is_empty() { 0 } else { tokens::of_text(&self.text) };
        let reported = &self.usage;
        Usage {
            input_tokens: if reported.input_tokens > 0 { reported.input_tokens } else { prompt },
            output_tokens: reported.output_tokens.max(text + thinking + calls),
            thinking_tokens: reported.thinking_tokens.max(thinking),
            cached_input_tokens: reported.cached_input_tokens,
        }
    }

    /// Checks the size. Replay blocks repeat text of the reply, so they are checked alone instead of added.
    fn check_size(&mut self, delta: &Delta) -> Result<(), TooLarge> {
        let size = delta.size();
        let size = match delta {
            Delta::Text(_) | Delta::Thinking(_) | Delta::ToolCall { .. } => {
                self.first.get_or_insert_with(Instant::now);
                self.bytes += size;
                self.bytes
            }
            Delta::WasThinking | Delta::Replay(_) | Delta::Usage(_) | Delta::Stop(_) => size,
        };
        if size > self.max_bytes { Err(TooLarge) } else { Ok(()) }
    }

    /// The call with this index, created on its first piece. Searches from the end: pieces of one call are mostly adjacent.
    fn call(&mut self, index: u32) -> Result<&mut RawToolCall, TooLarge> {
        let at = match self.calls.iter().rposition(|(known, _)| *known == index) {
            Some(at) => at,
            None if self.calls.len() == MAX_CALLS => return Err(TooLarge),
            None => {
                let call = RawToolCall { id: None, name: String::new(), arguments: String::new() };
                self.calls.push((index, call));
                self.calls.len() - 1
            }
        };
        Ok(&mut self.calls[at].1)
    }
}

/// Removes ids that an earlier call of the reply has: such a call is identified by our own id.
fn without_repeated_ids(mut calls: Vec<RawToolCall>) -> Vec<RawToolCall> {
    let mut seen = HashSet::new();
    for call in &mut calls {
        call.id = call.id.take().filter(|id| seen.insert(id.clone()));
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(index: u32, id: Option<&str>, name: Option<&str>, arguments: &str) -> Delta {
        let (id, name) = (id.map(str::to_owned), name.map(str::to_owned));
        Delta::ToolCall { index, id, name, arguments: arguments.to_owned() }
    }

    #[tokio::test]
    async fn interleaved_calls_come_together_in_order_of_appearance() {
        let mut reply = ReplyBuilder::new(Instant::now(), 1_000);
        for delta in [
            piece(1, Some("b"), Some("second"), "{\"x\""),
            piece(0, Some("a"), Some("first"), "{"),
            piece(1, Some("b"), Some("second"), ":1}"),
            piece(0, None, None, "}"),
            Delta::Stop(StopReason::ToolUse),
        ] {
            reply.take(delta).unwrap();
        }
        let calls = reply.finish("p:m".parse().unwrap()).unwrap().tool_calls;
        assert_eq!(
            calls.iter().map(|c| (&*c.name, &*c.arguments)).collect::<Vec<_>>(),
            [("second", "{\"x\":1}"), ("first", "{}")]
        );
    }

    #[tokio::test]
    async fn an_id_that_comes_twice_names_the_first_call_only() {
        let mut reply = ReplyBuilder::new(Instant::now(), 1_000);
        for index in 0..3 {
            reply.take(piece(index, Some(if index == 2 { "b" } else { "a" }), Some("f"), "{}")).unwrap();
        }
        reply.take(Delta::Stop(StopReason::ToolUse)).unwrap();
        let calls = reply.finish("p:m".parse().unwrap()).unwrap().tool_calls;
        assert_eq!(calls.iter().map(|call| call.id.as_deref()).collect::<Vec<_>>(), [Some("a"), None, Some("b")]);
    }

    #[tokio::test]
    async fn a_reply_that_breaks_off_took_what_the_provider_said_and_not_less_than_what_arrived() {
        let mut reply = ReplyBuilder::new(Instant::now(), 1_000);
        assert_eq!(
            reply.usage_so_far(40),
            Usage { input_tokens: 40, ..Usage::default() },
            "it began, and nothing arrived"
        );
        let arrived = [Delta::Thinking("a".repeat(30)), Delta::Text("b".repeat(60)), piece(0, None, Some("f"), "{}")];
        for delta in arrived {
            reply.take(delta).unwrap();
        }
        let estimated = Usage { input_tokens: 40, output_tokens: 34, thinking_tokens: 11, cached_input_tokens: 0 };
        assert_eq!(reply.usage_so_far(40), estimated);
        let said = Usage { input_tokens: 7, output_tokens: 3, thinking_tokens: 0, cached_input_tokens: 5 };
        reply.take(Delta::Usage(said)).unwrap();
        assert_eq!(reply.usage_so_far(40), Usage { input_tokens: 7, cached_input_tokens: 5, ..estimated });
        reply.take(Delta::Usage(Usage { output_tokens: 90, ..Usage::default() })).unwrap();
        assert_eq!(reply.usage_so_far(40).output_tokens, 90);
    }

    #[tokio::test]
    async fn a_reply_without_a_reason_to_stop_is_none_and_a_large_one_is_refused() {
        let mut reply = ReplyBuilder::new(Instant::now(), 4);
        assert_eq!(reply.take(Delta::Text("1234".into())), Ok(()));
        assert_eq!(reply.take(Delta::Text("5".into())), Err(TooLarge));
        assert!(reply.finish("p:m".parse().unwrap()).is_err());
    }
}
