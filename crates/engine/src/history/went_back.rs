//! To which place of its conversation a thread went back, as its log tells it.

use std::collections::HashSet;

use crate::domain::facts::{Fact, RecordedMessage};
use crate::domain::ids::MessageId;
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;

/// What the log tells so far. It must be given every observation of these [`TYPES`](Self::TYPES), in order.
#[derive(Debug, Default)]
pub struct WentBack {
    /// The messages of the conversation, each with the seq of its observation.
    messages: Vec<(MessageId, i64)>,
    place: Option<i64>,
}

impl WentBack {
    /// The types of observations that it must be given; others change nothing.
    pub const TYPES: [ObservationType; 4] = [
        ObservationType::RunStarted,
        ObservationType::FinalResponse,
        ObservationType::StateUpdate,
        ObservationType::RunFinished,
    ];

    /// Takes the next observation, in the order of the log.
    pub fn apply(&mut self, seq: i64, fact: &Fact) {
        if let Fact::RunStarted(body) = fact {
            self.add(seq, &body.message);
        } else if let Fact::FinalResponse(body) = fact {
            self.add(seq, &body.message);
        } else if let Fact::StateUpdate(body) = fact {
            self.go_back(&body.superseded);
            if !body.is_queued() {
                body.message.iter().chain(&body.messages).for_each(|message| self.add(seq, message));
            }
        } else if let Fact::RunFinished(body) = fact
            && body.status == RunStatus::Completed
        {
            self.place = None;
        }
    }

    fn add(&mut self, seq: i64, message: &RecordedMessage) {
        self.messages.push((message.message_id.clone(), seq));
    }

    fn go_back(&mut self, superseded: &[MessageId]) {
        if superseded.is_empty() {
            return;
        }
        let gone: HashSet<&MessageId> = superseded.iter().collect();
        self.messages.retain(|(id, _)| !gone.contains(id));
        let place = self.messages.last().map_or(0, |(_, seq)| *seq);
        self.place = Some(self.place.map_or(place, |before| before.min(place)));
    }

    /// The observation of the last message at the place furthest back, 0 for the beginning. `None`: the thread did not go
    /// back since a run completed.
    pub fn place(&self) -> Option<i64> {
        self.place
    }
}
