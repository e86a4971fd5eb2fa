//! Converts a prompt into alternating turns, for vendors that require them: the system text apart, user first, results
//! right after their calls.

use serde_json::Value;

use crate::domain::prompt::{PromptCall, PromptMessage};

/// The first user turn of a conversation that starts with the model.
const MISSING_FIRST_TURN: &str = "(The conversation began earlier.)";

#[derive(Debug, PartialEq)]
pub(crate) struct Conversation<'m> {
    /// All system messages in order, separated by blank lines.
    pub(crate) system: String,
    /// Not empty; starts with the user, then alternates.
    pub(crate) turns: Vec<Turn<'m>>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Turn<'m> {
    pub(crate) speaker: Speaker,
    /// Not empty. In a user's turn, results come before other parts.
    pub(crate) parts: Vec<Part<'m>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Model,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Part<'m> {
    Text(&'m str),
    /// The replayed blocks of the reply whose parts follow.
    Replay(&'m Value),
    /// `index`: the index of the call in its reply.
    Call {
        call: &'m PromptCall,
        index: usize,
    },
    Result {
        id: &'m str,
        name: &'m str,
        content: &'m str,
    },
}

impl<'m> Conversation<'m> {
    pub(crate) fn of(messages: &'m [PromptMessage]) -> Self {
        let mut system: Vec<&str> = Vec::new();
        let mut turns: Vec<Turn<'m>> = Vec::new();
        for message in messages {
            match message {
                PromptMessage::System { content } => system.push(content),
                PromptMessage::User { content } => append(&mut turns, Speaker::User, text(content).collect()),
                PromptMessage::Assistant { content, tool_calls, replay } => {
                    let calls = tool_calls.iter().enumerate().map(|(index, call)| Part::Call { call, index });
                    let parts: Vec<Part<'m>> = text(content).chain(calls).collect();
                    if !parts.is_empty() {
                        append(&mut turns, Speaker::Model, replay.iter().map(Part::Replay).chain(parts).collect());
                    }
                }
                PromptMessage::Tool { tool_call_id, name, content } => {
                    append(&mut turns, Speaker::User, vec![Part::Result { id: tool_call_id, name, content }]);
                }
            }
        }
        if turns.first().is_none_or(|turn| turn.speaker == Speaker::Model) {
            turns.insert(0, Turn { speaker: Speaker::User, parts: vec![Part::Text(MISSING_FIRST_TURN)] });
        }
        for turn in turns.iter_mut().filter(|turn| turn.speaker == Speaker::User) {
            turn.parts.sort_by_key(|part| !matches!(part, Part::Result { .. }));
        }
        Self { system: system.join("\n\n"), turns }
    }
}

/// Vendors reject empty texts.
fn text(content: &str) -> impl Iterator<Item = Part<'_>> {
    (!content.trim().is_empty()).then_some(Part::Text(content)).into_iter()
}

fn append<'m>(turns: &mut Vec<Turn<'m>>, speaker: Speaker, parts: Vec<Part<'m>>) {
    match turns.last_mut() {
        _ if parts.is_empty() => {}
        Some(last) if last.speaker == speaker => last.parts.extend(parts),
        Some(_) | None => turns.push(Turn { speaker, parts }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn turns_alternate_and_results_come_first() {
        let call = PromptCall { id: "c".into(), name: "f".into(), arguments: json!({}) };
        let user = |text: &str| PromptMessage::User { content: text.into() };
        let said = |text: &str| PromptMessage::Assistant { content: text.into(), tool_calls: vec![], replay: None };
        let result = PromptMessage::Tool { tool_call_id: "c".into(), name: "f".into(), content: "1".into() };
        let messages = [
            PromptMessage::System { content: "a".into() },
            said("hello"),
            PromptMessage::Assistant { content: " ".into(), tool_calls: vec![call], replay: Some(json!(1)) },
            user("and"),
            result,
            user(""),
            said(""),
            PromptMessage::System { content: "b".into() },
        ];
        let conversation = Conversation::of(&messages);
        assert_eq!(conversation.system, "a\n\nb");
        let [first, model, last] = conversation.turns.as_slice() else { panic!("{:?}", conversation.turns) };
        assert_eq!(first.parts, [Part::Text(MISSING_FIRST_TURN)]);
        assert_eq!((model.speaker, model.parts.len()), (Speaker::Model, 3));
        assert!(matches!(last.parts[..], [Part::Result { id: "c", .. }, Part::Text("and")]), "{:?}", last.parts);
        assert_eq!(Conversation::of(&[]).turns.len(), 1);
    }
}
