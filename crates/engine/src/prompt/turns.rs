//! An item's loop as messages that every provider accepts: each call before its result, each with exactly one.

use std::collections::HashSet;

use super::Turn;
use super::data::Marker;
use super::results::tool_result;
use crate::domain::prompt::{PromptCall, PromptMessage};
use crate::domain::tool::ToolResult;

pub(super) fn messages(turns: &[Turn], most: usize, marker: &Marker) -> Vec<PromptMessage> {
    let mut turn_messages =
        TurnMessages { messages: Vec::new(), open: Vec::new(), stray: Vec::new(), known: HashSet::new() };
    for turn in turns {
        match turn {
            Turn::Model { content, calls, replay } => turn_messages.add_reply(content, calls, replay.clone()),
            Turn::Returned { id, result } => {
                let content = marker.block(&format!("output of {}", result.tool_name), &tool_result(result, most));
                turn_messages.add_result(id, result, content);
            }
            Turn::Engine(text) => {
                turn_messages.close();
                turn_messages.messages.push(PromptMessage::User { content: text.clone() });
            }
        }
    }
    turn_messages.close();
    turn_messages.messages
}

/// The results of the calls, as a prompt shows them.
pub(super) fn results(turns: &[Turn], most: usize) -> Vec<String> {
    let result = |turn: &Turn| match turn {
        Turn::Returned { result, .. } => Some(tool_result(result, most)),
        Turn::Model { .. } | Turn::Engine(_) => None,
    };
    turns.iter().filter_map(result).collect()
}

struct TurnMessages {
    messages: Vec<PromptMessage>,
    /// The calls of the last reply, and their results if they are known.
    open: Vec<(PromptCall, Option<String>)>,
    /// Results whose call is not in the loop: shown as text.
    stray: Vec<PromptMessage>,
    known: HashSet<String>,
}

impl TurnMessages {
    fn add_reply(&mut self, content: &str, calls: &[PromptCall], replay: Option<serde_json::Value>) {
        self.close();
        // Providers refuse a message without content.
        if !content.is_empty() || !calls.is_empty() {
            let (content, tool_calls) = (content.to_owned(), calls.to_vec());
            self.messages.push(PromptMessage::Assistant { content, tool_calls, replay });
        }
        self.known.extend(calls.iter().map(|call| call.id.clone()));
        self.open = calls.iter().map(|call| (call.clone(), None)).collect();
    }

    fn add_result(&mut self, id: &str, result: &ToolResult, content: String) {
        // Calls that share an id are answered one after the other.
        match self.open.iter_mut().find(|(call, known)| call.id == id && known.is_none()) {
            Some((_, known)) => *known = Some(content),
            None if self.known.contains(id) => {}
            None => {
                let content = format!("An earlier call of {} returned:\n{content}", result.tool_name);
                self.stray.push(PromptMessage::User { content });
            }
        }
    }

    /// Appends the results, in the order of their calls.
    fn close(&mut self) {
        for (call, content) in std::mem::take(&mut self.open) {
            let content = content.unwrap_or_else(|| "No result: the call was not carried out.".to_owned());
            self.messages.push(PromptMessage::Tool { tool_call_id: call.id, name: call.name, content });
        }
        self.messages.append(&mut self.stray);
    }
}
