//! A model call: its slot, its attempt, and the model that it asks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SummaryExtent;
use crate::domain::Millis;
use crate::domain::ids::StreamId;
use crate::domain::model::{ModelReply, Phase};
use crate::domain::usage::{CapSet, Nanos};

/// How often a reply that cannot be used is asked for again.
pub(crate) const MAX_REPAIRS: u32 = 2;

/// One model call, over all its attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelCall {
    pub slot: ModelSlot,
    pub iteration: u32,
    pub attempt: u32,
    /// Failed attempts on this model; those that a crash interrupted, or that could not be sent, do not count.
    #[serde(default)]
    pub failures: u32,
    /// Attempts that this server could not send.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub unsent: u32,
    /// When the first attempt failed, on whichever model; moved forward by waiting times that are not the models'
    /// fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Millis>,
    /// Which of the run's models is asked: 0 is the first choice, then come the fallbacks.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub choice: u32,
    /// What it has reserved of the run's budget while it is in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Reserved>,
    /// An earlier prompt was too long: this one is rendered shorter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "tight")]
    pub must_shorten: bool,
    /// The planVersion that the prompt shows.
    pub shown: i64,
    /// The prompt shows at least this many of its item's notes.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub notes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// It sums up the conversation, on behalf of another call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<SummaryRequest>,
    /// The conversation was summed up for it, or could not be: what still does not fit is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "fitted")]
    pub may_leave_out: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ModelSlot {
    #[serde(rename_all = "camelCase")]
    Ready {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Millis>,
    },
    Running {
        epoch: i64,
        stream: StreamId,
    },
}

/// What was wrong with the last reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Repair {
    pub round: u32,
    /// The reply's text, or a reference to it.
    pub reply: Value,
    pub fault: String,
    /// The model was told about names that do not exist; that is done only once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names: bool,
}

impl ModelCall {
    pub fn ready(iteration: u32, shown: i64) -> Self {
        Self {
            slot: ModelSlot::Ready { not_before: None },
            iteration,
            attempt: 1,
            failures: 0,
            unsent: 0,
            failing_since: None,
            choice: 0,
            must_shorten: false,
            reserved: None,
            shown,
            notes: 0,
            repair: None,
            sums: None,
            may_leave_out: false,
        }
    }

    /// The same call is made again, at that time or at once.
    pub fn next_attempt(&mut self, not_before: Option<Millis>) {
        self.attempt += 1;
        self.reserved = None;
        self.slot = ModelSlot::Ready { not_before };
    }

    /// A new call to the same model that gave the last reply, which is asked to correct it.
    pub fn again(&self, iteration: u32) -> Self {
        Self { choice: self.choice, ..Self::ready(iteration, self.shown) }
    }

    /// The phase that people see: a call that sums up the conversation counts as planning, whichever call it is for.
    pub fn phase(&self, phase: Phase) -> Phase {
        if self.sums.is_some() { Phase::Planning } else { phase }
    }

    /// Excludes a waiting time that is not the models' fault from the time for which they are retried.
    pub fn exclude_wait(&mut self, waited: Millis) {
        self.failing_since = self.failing_since.map(|since| since.saturating_add(waited.max(0)));
    }

    pub fn stream(&self) -> Option<&StreamId> {
        match &self.slot {
            ModelSlot::Ready { .. } => None,
            ModelSlot::Running { stream, .. } => Some(stream),
        }
    }

    pub fn answers(&self, stream: &StreamId, attempt: u32) -> bool {
        self.attempt == attempt && self.stream() == Some(stream)
    }

    pub fn is_running(&self) -> bool {
        self.stream().is_some()
    }
}

/// The most that a call in flight may use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reserved {
    pub tokens: u64,
    pub cost: Nanos,
    /// The longest reply that is allowed, in tokens.
    pub output: u64,
    /// When, and under which spending caps; `None`: there were none. Set when the call starts (`start_model`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<(Millis, CapSet)>,
}

/// A reply, and the call that it answers.
pub(crate) struct ReceivedReply<'a> {
    pub stream: &'a StreamId,
    pub call: &'a ModelCall,
    pub reply: &'a ModelReply,
    /// The reply's text as it is stored.
    pub text: Value,
}

/// The messages that a call sums up, and the call that waits for the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SummaryRequest {
    pub extent: SummaryExtent,
    pub before: Box<ModelCall>,
}

/// How often this reply was asked for again.
pub(crate) fn repair_rounds(call: &ModelCall) -> u32 {
    call.repair.as_ref().map_or(0, |repair| repair.round)
}
