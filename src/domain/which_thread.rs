//! Which thread a request belongs to whose client sends the whole conversation each time.
//!
//! A client that names its thread is told what the thread holds: [`place`] says where its request goes on. For one that names
//! none, a request is found by the digest of what people said in it ([`key_of`]), which the next request of the
//! conversation comes to again ([`key_before`]); of what is found, [`choose`] takes only a thread whose agent showed exactly what
//! the client sends back. So nobody is shown an answer that he did not send himself; who edits or asks again gets a copy, and
//! the thread that went on is untouched.

use serde_json::{Value, json};

use super::digest;
use super::ids::{MessageId, RunId, TenantPk, ThreadId};
use super::lookup::LookupKey;
use super::message::{ConversationMessage, HistoryMessage, HistoryRole, MessageRole};

/// A message of a request, as far as it counts. What the system says is none: it holds dates, and memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    User(String),
    /// What the client shows as the agent's: its text, and the ids of its calls.
    Assistant {
        text: String,
        calls: Vec<String>,
    },
    ToolResult {
        call: String,
        text: String,
    },
}

/// Who sends a request. Requests of different senders never come to the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender<'a> {
    pub tenant: TenantPk,
    /// The name of the key.
    pub key: &'a str,
    /// Whom the client asks for, if it says so: one key may serve many people.
    pub user: Option<&'a str>,
}

/// Something that an agent showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// An answer, or a question as text.
    Text(String),
    /// Calls of the client's own tools, by their ids.
    Calls(Vec<String>),
}

/// A run that was found, and its thread as of the run's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub thread: ThreadId,
    pub run: RunId,
    /// Everything that the thread's agent showed until then, in order.
    pub shown: Vec<Shown>,
    /// Nothing was said on the thread since.
    pub ends_there: bool,
}

/// What becomes of a request that names no thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// It goes on there.
    Continue(&'a Candidate),
    /// It goes on in a copy of that thread as of the run's end.
    Fork(&'a Candidate),
    /// A thread begins with it, and with what was said before ([`earlier`]).
    Begin,
}

/// Where on a thread that it names a request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    End,
    /// After this answer of the agent: what was said later is taken back.
    After(&'a MessageId),
    /// Before everything: the first query is asked again.
    Start,
}

/// The kind of these keys.
const CONVERSATION: &str = "conversation";

/// What this request is found under by the next one of its conversation. Answers are no part of it: clients show them in
/// other words, with or without what the model thought.
pub fn key_of(sender: Sender<'_>, said: &[Said]) -> LookupKey {
    let people = said.iter().filter_map(|said| match said {
        Said::User(text) => Some(json!(["user", text.trim()])),
        Said::ToolResult { call, text } => Some(json!(["tool", call, text.trim()])),
        Said::Assistant { .. } => None,
    });
    let people: Vec<Value> = people.collect();
    let digest = digest::of(&json!([sender.tenant.0, sender.key, sender.user, people]));
    LookupKey { kind: CONVERSATION, digest }
}

/// What the request before this one is found under; `None`: there was none.
pub fn key_before(sender: Sender<'_>, said: &[Said]) -> Option<LookupKey> {
    Some(key_of(sender, &said[..last_answer(said)?]))
}

/// What follows the agent's last words.
pub fn news(said: &[Said]) -> &[Said] {
    &said[last_answer(said).map_or(0, |at| at + 1)..]
}

/// What was said before that, for a thread that begins. Calls of tools and their results are left out: the thread that
/// made them is not there.
pub fn earlier(said: &[Said]) -> Vec<HistoryMessage> {
    let before = &said[..said.len() - news(said).len()];
    let told = before.iter().filter_map(|said| match said {
        Said::User(text) => Some((HistoryRole::User, text)),
        Said::Assistant { text, .. } => Some((HistoryRole::Assistant, text)),
        Said::ToolResult { .. } => None,
    });
    let told = told.filter(|(_, text)| !text.trim().is_empty());
    told.map(|(role, text)| HistoryMessage { role, content: text.clone() }).collect()
}

/// Of what [`key_before`] found, the newest first: the newest thread that ends there, else the newest at all; only of those
/// whose agent showed what the client sends back as the agent's, all of it and nothing else.
pub fn choose<'a>(said: &[Said], found: &'a [Candidate]) -> Choice<'a> {
    let sent = shown_by(said);
    let mut same = found.iter().filter(|one| is_same(&one.shown, &sent)).peekable();
    let Some(newest) = same.peek().copied() else { return Choice::Begin };
    match same.find(|one| one.ends_there) {
        Some(one) => Choice::Continue(one),
        None => Choice::Fork(newest),
    }
}

/// Where a request goes on whose thread is named, by the agent's last words in it. Never by counting messages: clients prune
/// what they send. What cannot be placed is new.
pub fn place<'a>(said: &[Said], thread: &'a [ConversationMessage]) -> Place<'a> {
    let answers: Vec<&ConversationMessage> = thread.iter().filter(|one| one.role == MessageRole::Ai).collect();
    let last = said.iter().rev().find_map(|said| match said {
        Said::Assistant { text, .. } => Some(normal(text)),
        Said::User(_) | Said::ToolResult { .. } => None,
    });
    match last {
        None => {
            let first = thread.iter().find(|one| one.role == MessageRole::User).map(|one| one.content.trim());
            let is_again = matches!(news(said), [Said::User(text)] if Some(text.trim()) == first);
            if is_again { Place::Start } else { Place::End }
        }
        Some(text) => match answers.iter().rposition(|answer| normal(&answer.content) == text) {
            Some(at) if at + 1 < answers.len() => Place::After(&answers[at].message_id),
            Some(_) | None => Place::End,
        },
    }
}

fn last_answer(said: &[Said]) -> Option<usize> {
    said.iter().rposition(|said| matches!(said, Said::Assistant { .. }))
}

/// What the client sends back as the agent's.
fn shown_by(said: &[Said]) -> Vec<Shown> {
    let mut shown = Vec::new();
    for one in said {
        let Said::Assistant { text, calls } = one else { continue };
        if !text.trim().is_empty() {
            shown.push(Shown::Text(text.clone()));
        }
        if !calls.is_empty() {
            shown.push(Shown::Calls(calls.clone()));
        }
    }
    shown
}

fn is_same(shown: &[Shown], sent: &[Shown]) -> bool {
    shown.len() == sent.len()
        && shown.iter().zip(sent).all(|pair| match pair {
            (Shown::Text(one), Shown::Text(other)) => normal(one) == normal(other),
            (Shown::Calls(one), Shown::Calls(other)) => one == other,
            (Shown::Text(_), Shown::Calls(_)) | (Shown::Calls(_), Shown::Text(_)) => false,
        })
}

/// Blocks that clients lay around what the model thought, or take away.
const BLOCKS: [(&str, &str); 2] = [("<think>", "</think>"), ("<details", "</details>")];

/// A text as it is compared: without such blocks, each run of white space as one blank.
fn normal(text: &str) -> String {
    let mut text = text.to_owned();
    for (begin, end) in BLOCKS {
        while let Some(from) = text.find(begin) {
            let Some(length) = text[from..].find(end) else { break };
            text.replace_range(from..from + length + end.len(), " ");
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
