//! Finds the thread of a request whose client sends the whole conversation each time.
//!
//! If the client names its thread, [`resume_point`] says where in that thread the request continues. Otherwise a request is
//! found by the digest of what people said in it ([`key_of`]); the next request of the conversation produces the same
//! digest ([`keys_before`]). Of the runs found, [`choose`] takes only one on whose thread the agent showed exactly what
//! the client sends back. So nobody sees an answer that they did not send themselves. A client that edits or asks again
//! gets a copy, and the original thread is not changed.

mod compare;

use serde_json::{Value, json};

use super::digest;
use super::ids::{RunId, TenantPk, ThreadId};
use super::lookup::LookupKey;
use super::message::{HistoryMessage, HistoryRole};
pub use compare::{Normal, SentBack, Shown, ShownUntil};
use compare::{is_same, is_same_after_others, normal};

/// A message of a request. System messages are ignored: they contain dates and memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    User(String),
    /// What the client shows as the agent's output: its text, and the ids of its calls.
    Assistant {
        text: String,
        calls: Vec<String>,
    },
    ToolResult {
        call: String,
        text: String,
    },
}

/// The sender of a request. Different senders never produce the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender<'a> {
    pub tenant: TenantPk,
    /// The name of the key.
    pub key: &'a str,
    /// The user named by the client, if any: one key may serve many people.
    pub user: Option<&'a str>,
}

/// A run that was found, and its thread as of a position in the log: the run's end, or one of its questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub thread: ThreadId,
    pub run: RunId,
    /// The position in the thread's log.
    pub seq: i64,
    /// Everything that the thread's agent had shown until then, in order.
    pub shown: ShownUntil,
    /// Nothing was said on the thread after that position.
    pub ends_there: bool,
    /// The thread began with as many messages as one may begin with: the client may have sent older ones too.
    pub may_be_cut: bool,
}

/// How a request that names no thread is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// It continues this thread.
    Continue(&'a Candidate),
    /// It continues a copy of this thread as of the run's end.
    Fork(&'a Candidate),
    /// It starts a thread, with the earlier messages ([`earlier`]).
    Begin,
}

/// Where a request continues on the thread that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumePoint<'a> {
    End,
    /// After the newest answer of the agent with this text: later messages are superseded. At the end if there is none.
    After(Normal),
    /// Before everything if this is the first query of the thread, which is asked again. Else at the end.
    StartOf(&'a str),
}

/// The kind of these keys.
const CONVERSATION: &str = "conversation";

/// The step budget of one choice; a comparison that needs more finds nothing. Usual conversations need thousands.
const MAX_STEPS: usize = 8_000_000;

/// How often a question may be repeated and still be found.
const MAX_REPETITIONS: usize = 8;

/// The key under which the next request of the conversation finds this one. Answers are not part of it, because clients
/// show them in different forms, with or without the model's thinking.
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

/// The keys of the request before this one, in order of preference. There is none if nothing was answered yet. There
/// are several if the agent's last message was shown several times: a repeated question does not start a new run, so
/// its run is found by what was said before the first repetition.
pub fn keys_before(sender: Sender<'_>, said: &[Said]) -> Vec<LookupKey> {
    let answers = said.iter().enumerate().rev().filter(|(_, said)| matches!(said, Said::Assistant { .. }));
    let same = answers.scan(None, |last, (at, said)| (*last.get_or_insert(said) == said).then_some(at));
    same.take(MAX_REPETITIONS).map(|at| key_of(sender, &said[..at])).collect()
}

/// The messages after the agent's last message.
pub fn new_messages(said: &[Said]) -> &[Said] {
    &said[last_answer(said).map_or(0, |at| at + 1)..]
}

/// Whether the agent's last message, as the client shows it, asks the first of these open questions, without one of the
/// answered ones before it: a text that was sent for an answered question is not an answer to this one. `None`: there
/// is no message of the agent.
pub fn asks_first(said: &[Said], open: &[String], answered: &[String]) -> Option<bool> {
    let before = said[..said.len() - new_messages(said).len()].iter().rev();
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
    // Of questions with the same text, the last ones shown are the open ones.
    let alike = open.iter().filter(|one| normal(one) == first).count();
    let found = shown.rmatch_indices(&first).take(alike).last();
    Some(found.is_some_and(|(at, _)| answered.iter().all(|one| !shown[..at].contains(&normal(one)))))
}

/// The messages before those, for a new thread. Tool calls and their results are left out, because they belong to
/// another thread.
pub fn earlier(said: &[Said]) -> Vec<HistoryMessage> {
    let before = &said[..said.len() - new_messages(said).len()];
    let messages = before.iter().filter_map(|said| match said {
        Said::User(text) => Some((HistoryRole::User, text)),
        Said::Assistant { text, .. } => Some((HistoryRole::Assistant, text)),
        Said::ToolResult { .. } => None,
    });
    let messages = messages.filter(|(_, text)| !text.trim().is_empty());
    messages.map(|(role, text)| HistoryMessage { role, content: text.clone() }).collect()
}

/// Chooses from what [`keys_before`] found, newest first: the newest thread that ends there, else the newest of all.
/// Only threads qualify whose agent showed exactly what the client sends back. If there is none, those qualify that may
/// have begun without the client's oldest messages, and showed what it sends back after these.
pub fn choose<'a>(sent: &SentBack, found: &'a [Candidate]) -> Choice<'a> {
    let mut steps = MAX_STEPS;
    let is_whole = |one: &&Candidate| is_same(one.shown.as_slice(), sent, &mut steps) == Some(true);
    if let Some(choice) = choose_from(found.iter().filter(is_whole)) {
        return choice;
    }
    let is_cut =
        |one: &&Candidate| one.may_be_cut && is_same_after_others(one.shown.as_slice(), sent, &mut steps) == Some(true);
    choose_from(found.iter().filter(is_cut)).unwrap_or(Choice::Begin)
}

fn choose_from<'a>(same: impl Iterator<Item = &'a Candidate>) -> Option<Choice<'a>> {
    let mut same = same.peekable();
    let newest = same.peek().copied()?;
    Some(match same.find(|one| one.ends_there) {
        Some(one) => Choice::Continue(one),
        None => Choice::Fork(newest),
    })
}

/// Where a request continues on its named thread, by the agent's last message in it. Messages are not counted, because
/// clients prune them.
pub fn resume_point(said: &[Said]) -> ResumePoint<'_> {
    let last = said.iter().rev().find_map(|said| match said {
        Said::Assistant { text, .. } => Some(Normal::of(text)),
        Said::User(_) | Said::ToolResult { .. } => None,
    });
    match (last, new_messages(said)) {
        (Some(text), _) => ResumePoint::After(text),
        (None, [Said::User(text)]) => ResumePoint::StartOf(text.trim()),
        (None, _) => ResumePoint::End,
    }
}

fn last_answer(said: &[Said]) -> Option<usize> {
    said.iter().rposition(|said| matches!(said, Said::Assistant { .. }))
}

#[cfg(test)]
mod tests;
