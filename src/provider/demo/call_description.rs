//! A model call as a script sees it, and the conditions under which a scripted reply applies.

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::domain::model::{ModelRequest, Phase};
use crate::domain::prompt::PromptMessage;

/// The phase as the first line of the system prompt names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ScriptPhase {
    Planning,
    Refinement,
    Execution,
    Synthesis,
    Repair,
    Summary,
}

pub(super) struct CallDescription<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) phase: ScriptPhase,
    pub(super) item: Option<&'a str>,
}

impl<'a> CallDescription<'a> {
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let (name, rest) = phase_line(request).unwrap_or_default();
        let phase = match (name, request.phase) {
            ("planning", _) => ScriptPhase::Planning,
            ("refinement", _) => ScriptPhase::Refinement,
            ("execution", _) => ScriptPhase::Execution,
            ("synthesis", _) => ScriptPhase::Synthesis,
            ("repair", _) => ScriptPhase::Repair,
            ("summary", _) => ScriptPhase::Summary,
            (_, Phase::Planning) => ScriptPhase::Planning,
            (_, Phase::Execution) => ScriptPhase::Execution,
            (_, Phase::Synthesis) => ScriptPhase::Synthesis,
        };
        let item = request.context.item_id.as_deref().or((!rest.is_empty()).then_some(rest));
        Self { request, phase, item }
    }

    /// The results of the last reply's calls, concatenated, without the lines that mark them as data.
    pub(super) fn tool_results(&self) -> String {
        let messages = &self.request.messages;
        let since = messages.iter().rposition(|message| matches!(message, PromptMessage::Assistant { .. }));
        let results = messages[since.unwrap_or(0)..].iter().filter_map(|message| match message {
            PromptMessage::Tool { content, .. } => Some(content.as_str()),
            PromptMessage::System { .. } | PromptMessage::User { .. } | PromptMessage::Assistant { .. } => None,
        });
        let is_mark = |line: &&str| line.starts_with("--- BEGIN ") || line.starts_with("--- END ");
        results.flat_map(str::lines).filter(|line| !is_mark(line)).collect::<Vec<_>>().join("\n")
    }

    /// The prompt's size in bytes.
    pub(super) fn prompt_length(&self) -> usize {
        contents(self.request).map(str::len).sum()
    }

    /// `text` with `{{query}}`, `{{item}}`, `{{iteration}}`, `{{attempt}}`, `{{tool_result}}` and
    /// `{{tool_result/pointer}}` replaced.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            match after.split_once("}}").and_then(|(name, after)| Some((self.value(name.trim())?, after))) {
                Some((value, after)) => {
                    filled.push_str(&value);
                    rest = after;
                }
                None => {
                    filled.push_str("{{");
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    /// `value` with the placeholders in all its strings replaced.
    pub(super) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(values) => values.iter().map(|value| self.fill_value(value)).collect(),
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), self.fill_value(value))).collect(),
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => scalar.clone(),
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        let context = &self.request.context;
        Some(match name.split_once('/') {
            None => match name {
                "query" => context.query.clone(),
                "item" => self.item.unwrap_or_default().to_owned(),
                "iteration" => context.iteration.to_string(),
                "attempt" => context.attempt.to_string(),
                "tool_result" => self.tool_results(),
                _ => return None,
            },
            Some(("tool_result", pointer)) => self.pointed(&format!("/{pointer}")),
            Some(_) => return None,
        })
    }

    /// The value at a JSON Pointer in the last result that is JSON; empty if there is none.
    fn pointed(&self, pointer: &str) -> String {
        let results = self.tool_results();
        let last = results.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        match last.as_ref().and_then(|value| value.pointer(pointer)) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }
}

/// The name after `Phase:` and the rest of the line.
fn phase_line(request: &ModelRequest) -> Option<(&str, &str)> {
    let PromptMessage::System { content } = request.messages.first()? else { return None };
    let line = content.lines().next()?.strip_prefix("Phase:")?.trim();
    Some(line.split_once(' ').unwrap_or((line, "")))
}

/// The conditions of a reply; all that are given must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct When {
    phase: Option<ScriptPhase>,
    model: Option<String>,
    query: Option<Pattern>,
    item: Option<Pattern>,
    iteration: Option<Numbers>,
    attempt: Option<Numbers>,
    message: Option<String>,
    /// The id that an A2A client gave its message.
    a2a_message: Option<Pattern>,
    thread: Option<String>,
    /// Matches anywhere in the prompt.
    prompt: Option<Pattern>,
    /// Matches a result of the last reply's calls.
    tool_result: Option<Pattern>,
}

impl When {
    /// Whether none of its numbers is 0, which no call has.
    pub(super) fn counts_from_one(&self) -> bool {
        [&self.iteration, &self.attempt].into_iter().flatten().all(|numbers| !numbers.contains(0))
    }

    pub(super) fn holds(&self, call: &CallDescription<'_>) -> bool {
        let context = &call.request.context;
        self.phase.is_none_or(|phase| phase == call.phase)
            && is(&self.model, &call.request.model)
            && is(&self.message, &context.message_id)
            && is(&self.thread, &context.thread_id)
            && self.iteration.as_ref().is_none_or(|numbers| numbers.contains(context.iteration))
            && self.attempt.as_ref().is_none_or(|numbers| numbers.contains(context.attempt))
            && fits(&self.a2a_message, || context.a2a_message_id.clone().unwrap_or_default())
            && fits(&self.query, || context.query.clone())
            && fits(&self.item, || call.item.unwrap_or_default().to_owned())
            && fits(&self.tool_result, || call.tool_results())
            && fits(&self.prompt, || contents(call.request).collect::<Vec<_>>().join("\n"))
    }
}

fn is(wanted: &Option<String>, given: &str) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted == given)
}

fn fits(wanted: &Option<Pattern>, given: impl Fn() -> String) -> bool {
    wanted.as_ref().is_none_or(|pattern| pattern.fits(&given()))
}

fn contents(request: &ModelRequest) -> impl Iterator<Item = &str> {
    request.messages.iter().map(|message| match message {
        PromptMessage::System { content }
        | PromptMessage::User { content }
        | PromptMessage::Assistant { content, .. }
        | PromptMessage::Tool { content, .. } => content.as_str(),
    })
}

/// A text that must match completely, ignoring case and surrounding whitespace, or `/a regular expression/` that
/// matches anywhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Pattern {
    Whole(String),
    Somewhere(Regex),
}

impl Pattern {
    fn fits(&self, text: &str) -> bool {
        match self {
            Pattern::Whole(whole) => whole.to_lowercase() == text.trim().to_lowercase(),
            Pattern::Somewhere(regex) => regex.is_match(text),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(text: String) -> Result<Self, regex::Error> {
        match text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            Some(expression) => Regex::new(expression).map(Pattern::Somewhere),
            None => Ok(Pattern::Whole(text.trim().to_owned())),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(u32),
    Any(Vec<u32>),
}

impl Numbers {
    fn contains(&self, number: u32) -> bool {
        match self {
            Numbers::One(one) => *one == number,
            Numbers::Any(any) => any.contains(&number),
        }
    }
}
