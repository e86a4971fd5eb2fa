//! Compares what an agent showed with what a client sends back of it. Each text is normalised once, however often it is
//! compared.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Candidate, Said};

/// Separates questions that were shown together, after [`normal`].
const QUESTION_SEPARATOR: &str = " --- ";

/// How many bytes are compared in one step.
const BYTES_PER_STEP: usize = 1 << 10;

/// Blocks that clients put around a model's thinking, or remove.
const BLOCKS: [(&str, &str); 2] = [("<think>", "</think>"), ("<details", "</details>")];

/// A normalised text. Clones share it.
#[derive(Clone, Debug, Eq)]
pub struct Normal(Arc<str>);

impl Normal {
    pub fn of(text: &str) -> Self {
        Self(normal(text).into())
    }
}

impl PartialEq for Normal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

/// An item that an agent showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The answer of a run. Questions since the previous answer come before it.
    Answer(Normal),
    /// A question as text; it may have been repeated, and shown together with others.
    Question(Normal),
    /// A call of one of the client's own tools, by its id; it may have been repeated, too.
    Call(Arc<str>),
}

/// What an agent had shown up to some point: a prefix of a shared list.
#[derive(Clone, Debug)]
pub struct ShownUntil {
    all: Arc<[Shown]>,
    count: usize,
}

impl ShownUntil {
    /// The first `count` items.
    pub fn new(all: Arc<[Shown]>, count: usize) -> Self {
        Self { count: count.min(all.len()), all }
    }

    pub fn as_slice(&self) -> &[Shown] {
        &self.all[..self.count]
    }
}

impl From<Vec<Shown>> for ShownUntil {
    fn from(all: Vec<Shown>) -> Self {
        Self { count: all.len(), all: all.into() }
    }
}

impl PartialEq for ShownUntil {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for ShownUntil {}

/// What a client sends back as the agent's output, in its order.
#[derive(Clone, Debug, Default)]
pub struct SentBack(Vec<Sent>);

#[derive(Clone, Debug)]
struct Sent {
    text: Normal,
    /// The ids of calls.
    calls: Vec<String>,
}

impl SentBack {
    pub fn of(said: &[Said]) -> Self {
        let sent = said.iter().filter_map(|said| match said {
            Said::Assistant { text, calls } => Some(Sent { text: Normal::of(text), calls: calls.clone() }),
            Said::User(_) | Said::ToolResult { .. } => None,
        });
        Self(sent.collect())
    }

    /// The approximate number of steps to compare this with all candidates.
    pub fn steps(&self, found: &[Candidate]) -> usize {
        let texts: usize = self.0.iter().map(|sent| sent.text.0.len()).sum();
        let each = self.0.len() + texts / BYTES_PER_STEP + 1;
        let comparisons = |one: &Candidate| if one.may_be_cut { each } else { 1 };
        found.iter().map(|one| (each + one.shown.count) * comparisons(one)).sum()
    }
}

/// Whether exactly what was shown is sent back. Consumes `steps`; `None`: they are used up.
pub(super) fn is_same(shown: &[Shown], sent: &SentBack, steps: &mut usize) -> Option<bool> {
    is_same_as(&sent.0, shown, steps)
}

/// Whether exactly what was shown is sent back after other messages.
pub(super) fn is_same_after_others(shown: &[Shown], sent: &SentBack, steps: &mut usize) -> Option<bool> {
    // Each answer is sent back as a message.
    let least = shown.iter().filter(|one| matches!(one, Shown::Answer(_))).count().max(1);
    for others in 1..=sent.0.len().saturating_sub(least) {
        if is_same_as(&sent.0[others..], shown, steps)? {
            return Some(true);
        }
    }
    Some(false)
}

fn is_same_as(sent: &[Sent], shown: &[Shown], steps: &mut usize) -> Option<bool> {
    let mut round = Round::of(shown, 0, steps)?;
    for one in sent {
        if round.is_answered_by(one) {
            round = Round::of(shown, round.end + 1, steps)?;
        } else if !round.mark_seen(one, steps)? {
            return Some(false);
        }
    }
    Some(round.answer.is_none() && round.is_all_seen())
}

/// The questions since the previous answer, and the answer after them.
struct Round<'a> {
    /// `None`: not answered yet.
    answer: Option<&'a Normal>,
    /// The index of the answer.
    end: usize,
    count: usize,
    /// With their indices.
    questions: Vec<(usize, &'a str)>,
    /// The indices of calls, by id.
    calls: HashMap<&'a str, usize>,
    /// The indices of items that were sent back.
    seen: HashSet<usize>,
}

impl<'a> Round<'a> {
    fn of(shown: &'a [Shown], from: usize, steps: &mut usize) -> Option<Self> {
        let mut round = Self {
            answer: None,
            end: shown.len(),
            count: 0,
            questions: Vec::new(),
            calls: HashMap::new(),
            seen: HashSet::new(),
        };
        for (at, one) in shown.iter().enumerate().skip(from) {
            take_step(steps)?;
            match one {
                Shown::Answer(answer) => {
                    (round.answer, round.end) = (Some(answer), at);
                    break;
                }
                Shown::Question(question) => round.questions.push((at, &*question.0)),
                Shown::Call(id) => {
                    round.calls.entry(&**id).or_insert(at);
                }
            }
            round.count += 1;
        }
        Some(round)
    }

    /// Whether this is the answer, after all items before it were sent back.
    fn is_answered_by(&self, sent: &Sent) -> bool {
        self.answer == Some(&sent.text) && sent.calls.is_empty() && self.is_all_seen()
    }

    fn is_all_seen(&self) -> bool {
        self.seen.len() == self.count
    }

    /// Marks the questions and calls in this message as sent back. `false`: it contains anything else.
    fn mark_seen(&mut self, sent: &Sent, steps: &mut usize) -> Option<bool> {
        let mut rest = &*sent.text.0;
        for (at, question) in &self.questions {
            if rest.is_empty() {
                break;
            }
            take_step(steps)?;
            let Some(rest_of_text) = rest.strip_prefix(*question) else { continue };
            if rest_of_text.is_empty() || rest_of_text.starts_with(QUESTION_SEPARATOR) {
                rest = rest_of_text.strip_prefix(QUESTION_SEPARATOR).unwrap_or_default();
                self.seen.insert(*at);
            }
        }
        for call in &sent.calls {
            take_step(steps)?;
            let Some(at) = self.calls.get(call.as_str()) else { return Some(false) };
            self.seen.insert(*at);
        }
        take_step(steps)?;
        Some(rest.is_empty())
    }
}

fn take_step(steps: &mut usize) -> Option<()> {
    *steps = steps.checked_sub(1)?;
    Some(())
}

/// Normalises a text: removes these blocks and collapses whitespace.
pub(super) fn normal(text: &str) -> String {
    #[cfg(test)]
    tests::NORMALISED.set(tests::NORMALISED.get() + 1);
    let text = BLOCKS.iter().fold(text.to_owned(), |text, block| without_blocks(&text, *block));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces each such block by a space.
fn without_blocks(text: &str, (begin, end): (&str, &str)) -> String {
    let (mut rest, mut kept) = (text, String::with_capacity(text.len()));
    while let Some(from) = rest.find(begin)
        && let Some(length) = rest[from..].find(end)
    {
        kept.push_str(&rest[..from]);
        kept.push(' ');
        rest = &rest[from + length + end.len()..];
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests;
