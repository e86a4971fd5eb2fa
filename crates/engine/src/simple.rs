//! A core that is one pure function: it returns the next step, given what has happened in the run so far.
//!
//! [`Pes::simple`](crate::pes::Pes::simple) makes it a [`Core`](crate::Core), on the machine of PES: its model calls and
//! tool calls are slots, so it is as durable. Queue, policy, questions to people, retries, budgets, cancel, recovery after
//! a crash and the records of all that are those of `react`; only the next step is decided by [`SimpleCore::next`].
//!
//! ```text
//! fn next(&self, transcript: &Transcript<'_>) -> Next {
//!     match &transcript.reply {
//!         None => Next::ask(),
//!         Some(reply) if reply.calls.is_empty() => Next::Answer(reply.text.to_owned()),
//!         Some(reply) => Next::CallTools(reply.calls.to_vec()),
//!     }
//! }
//! ```

use serde_json::Value;

use crate::domain::run::Run;
use crate::domain::tool::CallRecord;

pub use crate::parse::CallDraft;

/// A core that decides by one function of what has happened in the run.
pub trait SimpleCore: Send + Sync + 'static {
    /// The name by which a thread's `agentCore` refers to it.
    fn name(&self) -> &str;

    /// Decides the next step: when a run begins, when the model has replied, and when the last of the requested calls
    /// has ended. It is called within the decision, and its result is committed before it is carried out; so it must
    /// return the same for the same transcript, and neither block nor panic.
    fn next(&self, transcript: &Transcript<'_>) -> Next;
}

/// What a run does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The model is called, with the tools that the run may use. Its prompt has the conversation, the run's query, the
    /// turns since, and this text, if any.
    AskModel {
        /// Added to the prompt behind the turns, as a message of the engine; `None`: nothing is added.
        text: Option<String>,
    },
    /// These calls are judged by the policy, as any are, and run: one after the other, or in parallel if all of them
    /// only read. The model sees their results when it is called again. An empty list is a failure.
    CallTools(Vec<CallDraft>),
    /// The run is completed with this answer.
    Answer(String),
    /// The run fails with the code `task_refused`; this is the reason.
    Fail(String),
}

impl Next {
    /// Calls the model without a further text.
    pub fn ask() -> Self {
        Next::AskModel { text: None }
    }
}

/// What has happened in a run. Texts and values of more than [`INLINE_LIMIT`](crate::domain::payload::INLINE_LIMIT)
/// bytes are references in the turns ([`payload::reference`](crate::domain::payload::reference)); the model sees them
/// whole.
#[derive(Clone, Debug)]
pub struct Transcript<'a> {
    /// The run, with its query, its settings, and its counters.
    pub run: &'a Run,
    /// Oldest first.
    pub turns: Vec<Turn<'a>>,
    /// What the model has just replied. It becomes a turn unless the run ends.
    pub reply: Option<Reply<'a>>,
}

/// A model's complete reply. Replies that are empty or cut off are not passed on: the model is asked again.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The text besides its calls; empty if it only called tools.
    pub text: &'a str,
    /// The calls that it requests.
    pub calls: &'a [CallDraft],
}

/// One thing that has happened in a run.
#[derive(Clone, Debug)]
pub enum Turn<'a> {
    /// What the model replied, if it was called, and the calls that were made then, with their results.
    Model {
        /// The text of the reply; may be a payload reference, and is `null` if the calls were made without the
        /// model.
        text: &'a Value,
        /// The calls that were made then, with their results as far as they have ended.
        calls: Vec<&'a CallRecord>,
    },
    /// A text for the model, from [`Next::AskModel`].
    Text(&'a str),
}

impl<'a> Transcript<'a> {
    /// All calls of the run, in order.
    pub fn calls(&self) -> impl Iterator<Item = &'a CallRecord> + '_ {
        self.turns
            .iter()
            .flat_map(|turn| match turn {
                Turn::Model { calls, .. } => calls.as_slice(),
                Turn::Text(_) => &[],
            })
            .copied()
    }
}
