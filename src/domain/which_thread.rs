//! Which thread a request belongs to whose client sends the whole conversation each time.
//!
//! A client that names its thread is told what the thread holds: [`place`] says where its request goes on. For one that names
//! none, a request is found by the digest of what people said in it ([`key_of`]), which the next request of the
//! conversation comes to again ([`keys_before`]); of what is found, [`choose`] takes only a thread whose agent showed exactly what
//! the client sends back. So nobody is shown an answer that he did not send himself; who edits or asks again gets a copy, and
//! the thread that went on is untouched.

mod compare;

use serde_json::{Value, json};

use super::digest;
use super::ids::{MessageId, RunId, TenantPk, ThreadId};
use super::lookup::LookupKey;
use super::message::{ConversationMessage, HistoryMessage, HistoryRole, MessageRole};
pub use compare::{Normal, SentBack, Shown, ShownUntil};
use compare::{is_same, normal};

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

/// A run that was found, and its thread as of a place in the log: the run's end, or a question of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub thread: ThreadId,
    pub run: RunId,
    /// The place in the thread's log.
    pub seq: i64,
    /// Everything that the thread's agent showed until then, in order.
    pub shown: ShownUntil,
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

/// Steps of one choice: what takes more to compare is not found. Conversations take thousands.
const MOST_STEPS: usize = 8_000_000;

/// How often at most a question is put again and still found.
const MOST_REPEATED: usize = 8;

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

/// What the request before this one is found under: the first key that finds something counts. There is none where nothing
/// was answered yet, and more than one where the agent's last words were shown several times: a question that is put again
/// is put by no new run, so it is found under what was said before it was put first.
pub fn keys_before(sender: Sender<'_>, said: &[Said]) -> Vec<LookupKey> {
    let answers = said.iter().enumerate().rev().filter(|(_, said)| matches!(said, Said::Assistant { .. }));
    let same = answers.scan(None, |last, (at, said)| (*last.get_or_insert(said) == said).then_some(at));
    same.take(MOST_REPEATED).map(|at| key_of(sender, &said[..at])).collect()
}

/// What follows the agent's last words.
pub fn news(said: &[Said]) -> &[Said] {
    &said[last_answer(said).map_or(0, |at| at + 1)..]
}

/// Whether the agent's last words, as the client shows them, ask the first of these open questions, and before it none of
/// those that were answered: a text that was sent for one of those is not for this. `None`: it shows no words of the agent.
pub fn asks_first(said: &[Said], open: &[String], answered: &[String]) -> Option<bool> {
    let before = said[..said.len() - news(said).len()].iter().rev();
    let last = before.map_while(|said| match said {
        Said::Assistant { text, .. } => Some(normal(text)),
        Said::User(_) | Said::ToolResult { .. } => None,
    });
    let mut last: Vec<String> = last.collect();
    last.reverse();
    let (shown, first) = (last.join(" "), normal(open.first()?));
    if last.is_empty() {
        return None;
    }
    // Of several that read the same, as many stand last as are open.
    let alike = open.iter().filter(|one| normal(one) == first).count();
    let found = shown.rmatch_indices(&first).take(alike).last();
    Some(found.is_some_and(|(at, _)| answered.iter().all(|one| !shown[..at].contains(&normal(one)))))
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

/// Of what [`keys_before`] found, the newest first: the newest thread that ends there, else the newest at all; only of those
/// whose agent showed what the client sends back as the agent's, all of it and nothing else.
pub fn choose<'a>(sent: &SentBack, found: &'a [Candidate]) -> Choice<'a> {
    let mut steps = MOST_STEPS;
    let is_same = |one: &&Candidate| is_same(one.shown.as_slice(), sent, &mut steps) == Some(true);
    let mut same = found.iter().filter(is_same).peekable();
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
        Some(text) => match answers.iter().rfind(|answer| normal(&answer.content) == text) {
            // What was said since came to nothing that the client has seen.
            Some(answer) if thread.last() != Some(answer) => Place::After(&answer.message_id),
            Some(_) | None => Place::End,
        },
    }
}

fn last_answer(said: &[Said]) -> Option<usize> {
    said.iter().rposition(|said| matches!(said, Said::Assistant { .. }))
}

#[cfg(test)]
mod tests;
