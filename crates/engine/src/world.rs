//! What decisions may look at besides the state, and what they are refused with. The server implements [`Toolbox`] and
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

/// When and by whom a transition is made. The same state, stamp and event give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub now: Millis,
    pub seed: u64,
    /// The lease epoch that the committer holds. `None`: it holds no lease, so nothing may become `Running`.
    pub holder: Option<i64>,
}

/// What an event was refused for. The state is as it was before.
#[derive(Clone, Debug, PartialEq)]
pub struct Illegal(pub Fault);

impl From<Fault> for Illegal {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

/// What decisions may look at besides the state: data, never IO.
pub struct World<'a> {
    pub tools: &'a dyn Toolbox,
    pub models: &'a dyn ModelBook,
    pub limits: &'a Limits,
    pub allowance: &'a Allowance,
    pub begin: Begin,
}

/// Whether a run may begin: how many a tenant has under way is known of no thread alone. A core that does not ask begins it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    #[default]
    Now,
    /// Its tenant has as many under way as it may: the run waits until the thread is woken and may begin it.
    Later,
    /// So many of its tenant's threads wait for that, and no more may.
    Refused { most: usize },
}

/// What the caps on spending leave to a thread: they hold for many threads together, so the state does not know it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Allowance {
    /// There is no cap, and nothing is reserved under one.
    #[default]
    Uncapped,
    /// What a call may take is reserved under these. Whether they have room for it shows when that is committed.
    Reserve(CapSet),
    /// They had none for what was to be reserved: this is what there is.
    Room(CapSet, Room),
}

/// What the model calls of one thread may take under the caps.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// In billionths of a US dollar.
    pub cost: Left,
    pub tokens: Left,
}

/// How much there is of something.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// For calls under way and those to come, together.
    pub most: i64,
    /// When to look again: others have reserved more than they may need. `None`: nobody has.
    pub again_at: Option<Millis>,
    /// Which cap leaves no more, and until when, in words.
    pub why: String,
}

/// What a model call under way may take, reserved under the caps.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    pub stream: StreamId,
    pub cost: Nanos,
    pub tokens: i64,
    pub at: Millis,
    pub caps: CapSet,
    /// The name of the key that asked for its run.
    pub key: Option<String>,
}

impl Allowance {
    /// Under which caps a call is reserved.
    pub fn caps(&self) -> Option<CapSet> {
        match self {
            Allowance::Uncapped => None,
            Allowance::Reserve(caps) | Allowance::Room(caps, _) => Some(*caps),
        }
    }
}

impl Left {
    /// As much as anybody likes.
    pub fn unbounded() -> Self {
        Self { most: i64::MAX, again_at: None, why: String::new() }
    }
}

/// The tools as the engine knows them: what is offered, and what may be done with a call.
pub trait Toolbox: Send + Sync {
    /// The tools enabled by these settings, by name.
    fn offered(&self, settings: &RunSettings) -> Vec<Arc<ToolSpec>>;
    /// Known, enabled, arguments valid, policy: all that must hold before a call starts.
    fn judge(&self, call: &Proposal<'_>) -> Judgement;
    /// What the tool of this name declares, whether or not it is enabled; `None`: there is no such tool.
    fn declared(&self, settings: &RunSettings, tool: &str) -> Option<Arc<ToolSpec>> {
        self.offered(settings).into_iter().find(|spec| spec.name == tool)
    }
    /// What a call comes to that needs nothing but its arguments and the time: it is no effect. `None`: it is one.
    fn at_once(&self, tool: &str, arguments: &Value, now: Millis, limits: &Limits) -> Option<ToolOutcome> {
        let _ = (tool, arguments, now, limits);
        None
    }
    /// The same of a call with the arguments that a person put in place of its own; `Err`: it may not run with them.
    fn judge_edited(&self, call: &Proposal<'_>) -> Result<Judgement, Fault>;
    /// What will be said of a tool's calls, whose arguments are not known yet; `None`: there is no such tool here.
    fn foresee(&self, thread: &ThreadId, settings: &RunSettings, tool: &str) -> Option<ToolForecast>;
    /// Whether a value fits a JSON Schema that a run was accepted with; else what is wrong, as a sentence for a model.
    fn check_value(&self, schema: &Value, value: &Value) -> Result<(), String>;
    /// Whether a person's answer fits the suspension's feedback schema.
    fn check_answer(&self, suspension: &Suspension, value: &Value) -> Result<(), Fault>;
}

/// What is known of models.
pub trait ModelBook: Send + Sync {
    /// How many tokens it reads and writes in one call; `None`: nobody said.
    fn window(&self, provider: &str, model: &str) -> Option<u64>;
    /// `None`: nobody said what it costs.
    fn price(&self, provider: &str, model: &str) -> Option<Price>;
}
