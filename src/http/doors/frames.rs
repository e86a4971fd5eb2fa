//! Decodes the frames of a thread's feed for the projections of the doors.

use serde::Deserialize;

use crate::domain::Millis;
use crate::domain::facts::{Fact, WholePlan, WholePlanUpdate};
use crate::domain::frame::Token;
use crate::domain::ids::{ItemId, RunId};
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::RunStatus;
use crate::domain::standing::RunActivity;
use crate::live::{Encoded, EncodedKind};

/// One decoded frame.
#[derive(Clone, Debug)]
pub(super) enum DecodedFrame {
    Observation(Box<DecodedObservation>),
    Token(Box<Token>),
    /// The run has this status now.
    RunStatus(RunId, RunStatus),
    /// All observations from before the subscription were sent.
    CaughtUp,
    /// The reader was too slow, and frames were dropped.
    Gap,
    /// The server is stopping.
    Draining,
    /// A frame that no door projects.
    Other,
}

/// A decoded observation.
#[derive(Clone, Debug)]
pub(super) struct DecodedObservation {
    pub(super) seq: i64,
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

impl DecodedFrame {
    /// A frame that cannot be decoded is logged and skipped.
    pub(super) fn decode(frame: &Encoded) -> Self {
        if let Some(token) = frame.token() {
            return DecodedFrame::Token(Box::new(token));
        }
        match &frame.kind {
            EncodedKind::Observation { seq, run_id, .. } => match decode_observation(frame) {
                Ok(observation) => DecodedFrame::Observation(Box::new(observation)),
                Err(error) => {
                    tracing::warn!(runId = %run_id, seq, %error, "an observation cannot be decoded; the stream skips it");
                    DecodedFrame::Other
                }
            },
            EncodedKind::Run { run_id, status } => DecodedFrame::RunStatus(run_id.clone(), *status),
            EncodedKind::Gap => DecodedFrame::Gap,
            EncodedKind::CaughtUp => DecodedFrame::CaughtUp,
            EncodedKind::Draining => DecodedFrame::Draining,
            EncodedKind::Token { .. }
            | EncodedKind::ToolStarted { .. }
            | EncodedKind::Thread
            | EncodedKind::ThreadDeleted
            | EncodedKind::Suspension => DecodedFrame::Other,
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
    pub(super) fn resumes(&self, standing: &RunActivity) -> bool {
        standing.is_resumed_by(self.at, self.fact())
    }

    pub(super) fn apply_to(&self, standing: &mut RunActivity) {
        if let Some(fact) = self.fact() {
            standing.apply(self.item.as_ref(), self.at, fact);
        }
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
        let Observation { seq, run_id, parent_id, timestamp, .. } = observation;
        Ok(Self { seq, run: run_id, item: parent_id, at: timestamp, content })
    }
}
