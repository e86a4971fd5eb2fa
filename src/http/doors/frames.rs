//! Decodes the frames of a thread's feed for the projections of the doors.

use serde::Deserialize;

use crate::domain::Millis;
use crate::domain::facts::{Fact, WholePlan, WholePlanUpdate};
use crate::domain::frame::{Token, ToolStarted};
use crate::domain::hitl::ExpiryPolicy;
use crate::domain::ids::{ItemId, RunId, SuspensionId};
use crate::domain::message::MessageRole;
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::RunStatus;
use crate::domain::run_activity::RunActivity;
use crate::live::{Encoded, EncodedKind};

/// What the stream of one run receives. Observations, tokens and calls may be of other runs of the thread.
#[derive(Clone, Debug)]
pub(super) enum RunFrame {
    Observation(Box<DecodedObservation>),
    Token(Box<Token>),
    /// A call is about to be made.
    CallStarted(Box<ToolStarted>),
    /// The run waits for an answer, and nothing of it runs any more.
    Suspended,
    /// All observations from before the subscription were sent.
    CaughtUp,
    /// The reader was too slow, and frames were dropped.
    Gap,
    /// The log could not be read, and no more frames follow.
    LogUnreadable,
    /// The server is stopping.
    Draining,
    /// No more frames follow, although the run goes on: its thread was erased.
    Erased,
}

/// A decoded observation.
#[derive(Clone, Debug)]
pub(super) struct DecodedObservation {
    pub(super) seq: i64,
    pub(super) kind: ObservationType,
    pub(super) run: RunId,
    pub(super) item: Option<ItemId>,
    pub(super) at: Millis,
    pub(super) content: ObservationContent,
}

/// A plan and its changes are complete here. Everything else is as recorded, with its payloads inlined.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "what holds it is boxed")]
pub(super) enum ObservationContent {
    Plan(WholePlan),
    PlanUpdate(WholePlanUpdate),
    Fact(Fact),
}

impl RunFrame {
    /// A frame for the stream of this run. `None` if no door projects the frame, or if it cannot be decoded.
    pub(super) fn decode(frame: &Encoded, run: &RunId) -> Option<Self> {
        if let Some(token) = frame.token() {
            return Some(RunFrame::Token(Box::new(token)));
        }
        match &frame.kind {
            EncodedKind::Observation { seq, run_id, .. } => match decode_observation(frame) {
                Ok(observation) => Some(RunFrame::Observation(Box::new(observation))),
                Err(error) => {
                    tracing::warn!(runId = %run_id, seq, %error, "an observation cannot be decoded; the stream skips it");
                    None
                }
            },
            EncodedKind::ToolStarted { .. } => serde_json::from_slice(&frame.data()).ok().map(RunFrame::CallStarted),
            EncodedKind::Run { run_id, status, .. } => {
                (run_id == run && *status == RunStatus::Suspended).then_some(RunFrame::Suspended)
            }
            EncodedKind::Gap => Some(RunFrame::Gap),
            EncodedKind::LogUnreadable => Some(RunFrame::LogUnreadable),
            EncodedKind::CaughtUp => Some(RunFrame::CaughtUp),
            EncodedKind::Draining => Some(RunFrame::Draining),
            EncodedKind::Token { .. } | EncodedKind::Thread | EncodedKind::ThreadDeleted | EncodedKind::Suspension => {
                None
            }
        }
    }
}

fn decode_observation(frame: &Encoded) -> serde_json::Result<DecodedObservation> {
    match frame.as_observation() {
        Some(observation) => DecodedObservation::decode(observation.clone()),
        None => DecodedObservation::decode(serde_json::from_slice(&frame.data())?),
    }
}

impl DecodedObservation {
    /// Whether this observation makes a suspended run go on.
    pub(super) fn resumes(&self, activity: &RunActivity) -> bool {
        activity.is_resumed_by(self.at, self.fact())
    }

    pub(super) fn apply_to(&self, activity: &mut RunActivity) {
        if let Some(fact) = self.fact() {
            activity.apply(self.item.as_ref(), self.at, fact);
        }
    }

    /// The question that this observation closes, because it was answered or expired.
    pub(super) fn closes(&self) -> Option<&SuspensionId> {
        if let Some(Fact::AgentResumed(body)) = self.fact() {
            return Some(&body.suspension_id);
        }
        // After a reminder the question is still open.
        let Some(Fact::SuspensionTimeout(body)) = self.fact() else { return None };
        (body.policy != ExpiryPolicy::Remind).then_some(&body.suspension_id)
    }

    /// Whether it records a message of a user.
    pub(super) fn is_user_message(&self) -> bool {
        let Some(Fact::StateUpdate(body)) = self.fact() else { return false };
        body.message.as_ref().is_some_and(|message| message.role == MessageRole::User)
    }

    /// The recorded fact. `None` for a plan and its changes.
    fn fact(&self) -> Option<&Fact> {
        match &self.content {
            ObservationContent::Fact(fact) => Some(fact),
            ObservationContent::Plan(_) | ObservationContent::PlanUpdate(_) => None,
        }
    }

    /// Decodes an observation in the form that readers get.
    pub(super) fn decode(observation: Observation) -> serde_json::Result<Self> {
        let recorded = &observation.content;
        let content = match observation.kind {
            ObservationType::Plan => ObservationContent::Plan(WholePlan::deserialize(recorded)?),
            ObservationType::PlanUpdate => ObservationContent::PlanUpdate(WholePlanUpdate::deserialize(recorded)?),
            kind => ObservationContent::Fact(Fact::read(kind, recorded)?),
        };
        let Observation { seq, kind, run_id, parent_id, timestamp, .. } = observation;
        Ok(Self { seq, kind, run: run_id, item: parent_id, at: timestamp, content })
    }
}

#[cfg(test)]
mod tests;
