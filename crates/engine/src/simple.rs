//! A core that is one pure function: what follows, given what has happened in the run so far.
//!
//! [`Pes::simple`](crate::pes::Pes::simple) makes it a [`Core`](crate::Core), on the machine of PES: its model calls and
//! tool calls are slots, so it is as durable. Queue, policy, questions to people, retries, budgets, cancel, recovery after
//! a crash and what is recorded of all that are those of `react`; only what follows is decided by [`SimpleCore::next`].
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
use crate::parse::CallDraft;

pub trait SimpleCore: Send + Sync + 'static {
    /// What `agentCore` names.
    fn name(&self) -> &str;

    /// Says what follows: when a run begins, when the model has answered, and when the last of the calls that were asked
    /// for has ended. It is called inside the decision, and what it says is committed before it is done; so it must say
    /// the same of the same transcript, and neither wait nor panic.
    fn next(&self, transcript: &Transcript<'_>) -> Next;
}

#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The model is asked. It is told the conversation, the run's query, what happened since, and this, if anything. With
    /// the tools that the run may use.
    AskModel { tell: Option<String> },
    /// These calls are judged by the policy, as any are, and carried out: one after the other, or at once if all only
    /// read. The model sees their results when it is asked again. None at all is a failure.
    CallTools(Vec<CallDraft>),
    /// The run is completed with this answer.
    Answer(String),
    /// The run fails with the code `task_refused`; this says why.
    Fail(String),
}

impl Next {
    /// Asks the model, and tells it nothing more.
    pub fn ask() -> Self {
        Next::AskModel { tell: None }
    }
}

/// What has happened in a run. Texts and values of more than [`INLINE_LIMIT`](crate::domain::payload::INLINE_LIMIT) bytes
/// stand in the turns as references ([`payload::reference`](crate::domain::payload::reference)); the model is shown them
/// whole.
#[derive(Clone, Debug)]
pub struct Transcript<'a> {
    /// With its query, its settings, and what it has used up.
    pub run: &'a Run,
    /// Oldest first.
    pub turns: Vec<Turn<'a>>,
    /// What the model has just answered. It is no turn yet; it becomes one unless the run ends.
    pub reply: Option<Reply<'a>>,
}

/// What a model answered, whole. A reply that is empty or cut off is not shown: the model is asked again for it.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub text: &'a str,
    /// What it wants called.
    pub calls: &'a [CallDraft],
}

#[derive(Clone, Debug)]
pub enum Turn<'a> {
    /// What the model said, if it was asked, and the calls that were made then, with their results.
    Said { text: &'a Value, calls: Vec<&'a CallRecord> },
    /// What the model was told.
    Told(&'a str),
}

impl<'a> Transcript<'a> {
    /// Every call of the run, in order.
    pub fn calls(&self) -> impl Iterator<Item = &'a CallRecord> + '_ {
        self.turns
            .iter()
            .flat_map(|turn| match turn {
                Turn::Said { calls, .. } => calls.as_slice(),
                Turn::Told(_) => &[],
            })
            .copied()
    }
}
