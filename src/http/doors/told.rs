//! What the frames of a thread say, as the projections of doors take it.

use serde::Deserialize;

use crate::domain::Millis;
use crate::domain::facts::{Fact, WholePlan, WholePlanUpdate};
use crate::domain::frame::Token;
use crate::domain::ids::{ItemId, RunId};
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::RunStatus;
use crate::domain::standing::RunActivity;
use crate::live::{Encoded, EncodedKind};

/// One frame, read.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Observation(Box<ToldFact>),
    Token(Box<Token>),
    /// How a run stands now.
    Stands(RunId, RunStatus),
    /// What had happened before was told.
    CaughtUp,
    /// The reader was too slow: what follows is not all.
    Gap,
    /// The server stops.
    Draining,
    /// Nothing that concerns a run.
    Other,
}

/// What an observation says, and of what.
#[derive(Clone, Debug)]
pub(super) struct ToldFact {
    pub(super) seq: i64,
    pub(super) run: RunId,
    pub(super) item: Option<ItemId>,
    pub(super) at: Millis,
    pub(super) says: Says,
}

/// A plan and what changes in it are told whole; everything else as it is recorded, with its payloads in place.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "what holds it is boxed")]
pub(super) enum Says {
    Plan(WholePlan),
    PlanUpdate(WholePlanUpdate),
    Fact(Fact),
}

impl Told {
    /// One that cannot be read is left out, and logged.
    pub(super) fn of(frame: &Encoded) -> Self {
        if let Some(token) = frame.token() {
            return Told::Token(Box::new(token));
        }
        match &frame.kind {
            EncodedKind::Observation { seq, run_id, .. } => match observed(frame) {
                Ok(told) => Told::Observation(Box::new(told)),
                Err(error) => {
                    tracing::warn!(runId = %run_id, seq, %error, "an observation cannot be decoded; the stream skips it");
                    Told::Other
                }
            },
            EncodedKind::Run { run_id, status } => Told::Stands(run_id.clone(), *status),
            EncodedKind::Gap => Told::Gap,
            EncodedKind::CaughtUp => Told::CaughtUp,
            EncodedKind::Draining => Told::Draining,
            EncodedKind::Token { .. }
            | EncodedKind::ToolStarted { .. }
            | EncodedKind::Thread
            | EncodedKind::ThreadDeleted
            | EncodedKind::Suspension => Told::Other,
        }
    }
}

fn observed(frame: &Encoded) -> serde_json::Result<ToldFact> {
    match frame.told() {
        Some(observation) => ToldFact::of(observation.clone()),
        None => ToldFact::of(serde_json::from_slice(&frame.data())?),
    }
}

impl ToldFact {
    /// Whether it moves a run that stood still.
    pub(super) fn moves(&self, standing: &RunActivity) -> bool {
        standing.is_resumed_by(self.at, self.fact())
    }

    pub(super) fn apply_to(&self, standing: &mut RunActivity) {
        if let Some(fact) = self.fact() {
            standing.apply(self.item.as_ref(), self.at, fact);
        }
    }

    /// What was recorded, if not of the plan.
    fn fact(&self) -> Option<&Fact> {
        match &self.says {
            Says::Fact(fact) => Some(fact),
            Says::Plan(_) | Says::PlanUpdate(_) => None,
        }
    }

    /// Of an observation as readers see it.
    pub(super) fn of(observation: Observation) -> serde_json::Result<Self> {
        let content = &observation.content;
        let says = match observation.kind {
            ObservationType::Plan => Says::Plan(WholePlan::deserialize(content)?),
            ObservationType::PlanUpdate => Says::PlanUpdate(WholePlanUpdate::deserialize(content)?),
            kind => Says::Fact(Fact::read(kind, content)?),
        };
        let Observation { seq, run_id, parent_id, timestamp, .. } = observation;
        Ok(Self { seq, run: run_id, item: parent_id, at: timestamp, says })
    }
}
