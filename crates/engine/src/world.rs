//! What decisions may read besides the state. The server implements [`Toolbox`] and
//! [`ModelBook`].

use std::sync::Arc;

use serde_json::Value;

use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::forecast::ToolForecast;
use crate::domain::hitl::Suspension;
use crate::domain::ids::{StreamId, ThreadId};
use crate::domain::settings::RunSettings;
use crate::domain::thread::Limits;
use crate::domain::tool::{Judgement, Proposal, ToolOutcome, ToolSpec};
use crate::domain::usage::{CapSet, Nanos, Price};

/// The time, the randomness and the lease of a transition. The same state, stamp and event give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time of every record of the transition.
    pub now: Millis,
    /// All ids of the transition derive from it: never the same for two transitions of a thread.
    pub seed: u64,
    /// The lease epoch that the committer holds. `None`: it holds no lease, so nothing may become `Running`.
    pub holder: Option<i64>,
}

/// What decisions may read besides the state: data, never IO.
pub struct World<'a> {
    /// What may be called, and what the policy says.
    pub tools: &'a dyn Toolbox,
    /// What is known about models and their prices.
    pub models: &'a dyn ModelBook,
    /// The limits of the server that decisions keep.
    pub limits: &'a Limits,
    /// What the caps on spending leave for this thread.
    pub allowance: &'a Allowance,
    /// Whether a run may begin now.
    pub admission: RunAdmission,
}

/// Whether a run may begin. A thread alone does not know how many runs its tenant has in progress. A core that does not
/// check this begins every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunAdmission {
    /// It may begin at once.
    #[default]
    Now,
    /// Its tenant has as many runs in progress as allowed: the run waits until the thread is woken and may begin it.
    Later,
    /// The run is refused: `most` threads of its tenant are waiting already, and no more may.
    Refused {
        /// How many threads of the tenant may wait.
        most: usize,
    },
}

/// What the spending caps allow a thread to use: caps apply to many threads together, so the state does not know it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Allowance {
    /// There is no cap, and nothing is reserved.
    #[default]
    Uncapped,
    /// What a call may use is reserved under these caps. Whether they have room for it is checked when that is
    /// committed.
    Reserve(CapSet),
    /// The caps had no room for the reservation: this is the room that they have.
    Room(CapSet, CapRoom),
}

/// What the model calls of one thread may use under the caps.
#[derive(Clone, Debug, PartialEq)]
pub struct CapRoom {
    /// In billionths of a US dollar.
    pub cost: Remaining,
    /// Input and output together.
    pub tokens: Remaining,
}

/// How much of a resource is available.
#[derive(Clone, Debug, PartialEq)]
pub struct Remaining {
    /// For calls in flight and new ones, together.
    pub most: i64,
    /// When to check again: other threads have reserved more than they may need. `None`: no thread has.
    pub again_at: Option<Millis>,
    /// Which cap is exhausted, and until when, in words.
    pub why: String,
}

/// The most that a model call in flight may use, reserved under the caps.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// The attempt that it is for.
    pub stream: StreamId,
    /// In billionths of a US dollar.
    pub cost: Nanos,
    /// Input and output together.
    pub tokens: i64,
    /// When it was reserved, in Unix milliseconds: decides the day and the month that it counts for.
    pub at: Millis,
    /// The caps that it counts for.
    pub caps: CapSet,
    /// The name of the key that requested its run.
    pub key: Option<String>,
}

impl Allowance {
    /// The caps under which a call is reserved.
    pub fn caps(&self) -> Option<CapSet> {
        match self {
            Allowance::Uncapped => None,
            Allowance::Reserve(caps) | Allowance::Room(caps, _) => Some(*caps),
        }
    }
}

impl Remaining {
    /// No limit.
    pub fn unbounded() -> Self {
        Self { most: i64::MAX, again_at: None, why: String::new() }
    }
}

/// The tools as the engine sees them: what is offered, and whether a call may run.
pub trait Toolbox: Send + Sync {
    /// The tools enabled by these settings, by name.
    fn offered(&self, settings: &RunSettings) -> Vec<Arc<ToolSpec>>;
    /// Checks everything that must hold before a call starts: the tool is known and enabled, the arguments are valid,
    /// the policy allows it.
    fn judge(&self, call: &Proposal<'_>) -> Judgement;
    /// Judges a call whose arguments a person edited. `Err`: the call may not run with them.
    fn judge_edited(&self, call: &Proposal<'_>) -> Result<Judgement, Fault>;
    /// The declaration of the tool with this name, whether or not it is enabled; `None`: there is no such tool.
    fn declared(&self, settings: &RunSettings, tool: &str) -> Option<Arc<ToolSpec>> {
        self.offered(settings).into_iter().find(|spec| spec.name == tool)
    }
    /// Why a tool that is known is not offered, as the end of a sentence; `None`: it is offered, or not known.
    fn why_off(&self, tool: &str) -> Option<&str> {
        let _ = tool;
        None
    }
    /// The outcome of a call that needs nothing but its arguments and the time, and so is no effect. `None`: the call
    /// is an effect.
    fn at_once(&self, tool: &str, arguments: &Value, now: Millis, limits: &Limits) -> Option<ToolOutcome> {
        let _ = (tool, arguments, now, limits);
        None
    }
    /// What the policy will decide about a tool's calls while their arguments are not known; `None`: there is no such
    /// tool.
    fn foresee(&self, thread: &ThreadId, settings: &RunSettings, tool: &str) -> Option<ToolForecast>;
    /// Checks a value against a JSON Schema that a run was accepted with. `Err`: what is wrong, as a sentence for a
    /// model.
    fn check_value(&self, schema: &Value, value: &Value) -> Result<(), String>;
    /// Checks a person's answer against the suspension's feedback schema.
    fn check_answer(&self, suspension: &Suspension, value: &Value) -> Result<(), Fault>;
}

/// What is known about models.
pub trait ModelBook: Send + Sync {
    /// The context window: how many tokens it reads and writes in one call. `None`: not known.
    fn window(&self, provider: &str, model: &str) -> Option<u64>;
    /// How many tokens it writes in one call at most, thinking included. `None`: not known.
    fn max_output(&self, provider: &str, model: &str) -> Option<u64>;
    /// Its price. `None`: not known.
    fn price(&self, provider: &str, model: &str) -> Option<Price>;
}
