//! What an agent showed, and what a client sends back of it, as they are compared. Each text is brought into its normal form
//! once, however often it is looked at then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Candidate, Said};

/// Between questions that are put together, [`normal`].
const BETWEEN: &str = " --- ";

/// As many are compared in the time of a step.
const BYTES_A_STEP: usize = 1 << 10;

/// Blocks that clients lay around what the model thought, or take away.
const BLOCKS: [(&str, &str); 2] = [("<think>", "</think>"), ("<details", "</details>")];

/// A text as it is compared. Clones share it.
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

/// Something that an agent showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The answer of a run. What was asked since the answer before stands in front of it.
    Answer(Normal),
    /// A question as text: it may have been put again, and together with others.
    Question(Normal),
    /// A call of one of the client's own tools, by its id; likewise.
    Call(Arc<str>),
}

/// What an agent showed until somewhere: the beginning of a list that others share.
#[derive(Clone, Debug)]
pub struct ShownUntil {
    all: Arc<[Shown]>,
    count: usize,
}

impl ShownUntil {
    /// So many of these.
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

/// What a client sends back as the agent's, in its order.
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

    /// About how many steps it takes to compare this with what all of these showed.
    pub fn steps(&self, found: &[Candidate]) -> usize {
        let texts: usize = self.0.iter().map(|sent| sent.text.0.len()).sum();
        let each = self.0.len() + texts / BYTES_A_STEP + 1;
        found.iter().map(|one| each + one.shown.count).sum()
    }
}

/// Whether all of what was shown is sent back, and nothing else. Takes from `steps` what it takes; `None`: they do not suffice.
pub(super) fn is_same(shown: &[Shown], sent: &SentBack, steps: &mut usize) -> Option<bool> {
    let mut part = Part::of(shown, 0, steps)?;
    for one in &sent.0 {
        if part.is_answered_by(one) {
            part = Part::of(shown, part.end + 1, steps)?;
        } else if !part.asks(one, steps)? {
            return Some(false);
        }
    }
    Some(part.answer.is_none() && part.is_all_seen())
}

/// What was asked since the answer before, and what was answered then.
struct Part<'a> {
    /// `None`: nothing yet.
    answer: Option<&'a Normal>,
    /// The place of the answer.
    end: usize,
    count: usize,
    /// With their places.
    questions: Vec<(usize, &'a str)>,
    /// The places of calls, by their ids.
    calls: HashMap<&'a str, usize>,
    /// The places of what was sent back.
    seen: HashSet<usize>,
}

impl<'a> Part<'a> {
    fn of(shown: &'a [Shown], from: usize, steps: &mut usize) -> Option<Self> {
        let mut part = Self {
            answer: None,
            end: shown.len(),
            count: 0,
            questions: Vec::new(),
            calls: HashMap::new(),
            seen: HashSet::new(),
        };
        for (at, one) in shown.iter().enumerate().skip(from) {
            take(steps)?;
            match one {
                Shown::Answer(answer) => {
                    (part.answer, part.end) = (Some(answer), at);
                    break;
                }
                Shown::Question(question) => part.questions.push((at, &*question.0)),
                Shown::Call(id) => {
                    part.calls.entry(&**id).or_insert(at);
                }
            }
            part.count += 1;
        }
        Some(part)
    }

    /// Whether this is the answer, after all that was asked before it.
    fn is_answered_by(&self, sent: &Sent) -> bool {
        self.answer == Some(&sent.text) && sent.calls.is_empty() && self.is_all_seen()
    }

    fn is_all_seen(&self) -> bool {
        self.seen.len() == self.count
    }

    /// Whether this shows what was asked, and nothing else.
    fn asks(&mut self, sent: &Sent, steps: &mut usize) -> Option<bool> {
        let mut rest = &*sent.text.0;
        for (at, question) in &self.questions {
            if rest.is_empty() {
                break;
            }
            take(steps)?;
            let Some(behind) = rest.strip_prefix(*question) else { continue };
            if behind.is_empty() || behind.starts_with(BETWEEN) {
                rest = behind.strip_prefix(BETWEEN).unwrap_or_default();
                self.seen.insert(*at);
            }
        }
        for call in &sent.calls {
            take(steps)?;
            let Some(at) = self.calls.get(call.as_str()) else { return Some(false) };
            self.seen.insert(*at);
        }
        take(steps)?;
        Some(rest.is_empty())
    }
}

fn take(steps: &mut usize) -> Option<()> {
    *steps = steps.checked_sub(1)?;
    Some(())
}

/// A text as it is compared: without such blocks, each run of white space as one blank.
pub(super) fn normal(text: &str) -> String {
    #[cfg(test)]
    tests::NORMALISED.set(tests::NORMALISED.get() + 1);
    let text = BLOCKS.iter().fold(text.to_owned(), |text, block| without(&text, *block));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A blank in the place of each such block.
fn without(text: &str, (begin, end): (&str, &str)) -> String {
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
