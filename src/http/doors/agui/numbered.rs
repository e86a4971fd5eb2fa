//! The events of one stream, each with the id that a client reconnects with. Pure: the events of a cut stream, and the
//! events that another stream sends after the cut from the log alone, are together the whole stream.

use serde_json::Value;

use super::cursor::{Cursor, EventPosition, OpenTexts, OpenThoughts, Segment};
use super::events::{AguiEvents, run_error};
use super::request::ClientRun;
use super::stream::started;
use super::text_events::reasoning_message_start;
use crate::domain::facts::Fact;
use crate::domain::frame::Token;
use crate::domain::run_activity::RunActivity;
use crate::http::doors::frames::{DecodedObservation, ObservationContent};

/// An event and its id.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NumberedEvent {
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

pub(super) struct NumberedEvents {
    client: ClientRun,
    segment: Segment,
    events: AguiEvents,
    activity: RunActivity,
    texts: OpenTexts,
    has_begun: bool,
    /// The `seq` of the run's last applied observation.
    seq: i64,
    /// The cursor of a client that reconnects. No event is sent before it is reached.
    resume_at: Option<(EventPosition, OpenTexts)>,
    /// How many of the events that end the stream the client already has.
    end_events_sent: usize,
    answers_left: u32,
}

impl NumberedEvents {
    pub(super) fn new(client: ClientRun, segment: Segment) -> Self {
        Self {
            events: AguiEvents::new(client.clone(), segment.run.clone()),
            client,
            activity: RunActivity::default(),
            texts: OpenTexts::default(),
            has_begun: false,
            seq: segment.start,
            resume_at: None,
            end_events_sent: 0,
            answers_left: segment.answers,
            segment,
        }
    }

    /// Continues an earlier stream after this cursor.
    pub(super) fn resume_after(client: ClientRun, cursor: Cursor) -> Self {
        let resume_at = Some((cursor.position, cursor.texts));
        Self { resume_at, ..Self::new(client, cursor.segment) }
    }

    pub(super) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Whether the client already has a part of this stream.
    pub(super) fn is_cut(&self) -> bool {
        self.resume_at.is_some()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.events.is_finished()
    }

    /// The first events of a stream. `conversation` follows the very first event.
    pub(super) fn begin(&mut self, conversation: Option<Value>) -> Vec<NumberedEvent> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Vec::new();
        }
        let mut events = vec![started(&self.client)];
        events.extend(conversation);
        events.extend(self.events.begin());
        self.number_events(self.segment.start, events)
    }

    /// Whether the run was suspended before this observation. If so, the stream ends with its open questions. This
    /// counts the request's own answers, so it must be called exactly once for each observation.
    pub(super) fn check_suspended_before(&mut self, observation: &DecodedObservation) -> bool {
        if observation.run != self.segment.run || observation.seq <= self.segment.start || self.is_finished() {
            return false;
        }
        if self.answers_left > 0 && matches!(observation.content, ObservationContent::Fact(Fact::AgentResumed(_))) {
            self.answers_left -= 1;
            return false;
        }
        // What the user says beside the answers is recorded just before the first of them.
        if self.answers_left > 0 && observation.is_user_message() {
            return false;
        }
        observation.seq > self.segment.settled && observation.resumes(&self.activity)
    }

    /// Whether this observation is the question of a tool that keeps running. If so, the stream ends with the open
    /// questions, because the run is not suspended for it. While answers of the request are unread, the question waits
    /// for [`NumberedEvents::catch_up`]. Must be called after [`NumberedEvents::observation`].
    pub(super) fn is_asked_while_running(&self, observation: &DecodedObservation) -> bool {
        let asks = |fact: &Fact| matches!(fact, Fact::AgentSuspended(question) if question.while_running);
        observation.run == self.segment.run
            && observation.seq > self.segment.settled
            && self.answers_left == 0
            && matches!(&observation.content, ObservationContent::Fact(fact) if asks(fact))
    }

    /// All observations from before the subscription were read, and with them all answers of the request. Returns
    /// whether a tool that keeps running still waits for an answer, which ends the stream.
    pub(super) fn catch_up(&mut self) -> bool {
        self.answers_left = 0;
        self.activity.open().iter().any(|question| question.while_running)
    }

    pub(super) fn observation(&mut self, observation: &DecodedObservation) -> Vec<NumberedEvent> {
        if observation.run != self.segment.run || self.is_finished() {
            return Vec::new();
        }
        observation.apply_to(&mut self.activity);
        if observation.seq <= self.segment.start {
            self.events.replay(observation);
            // The run has no such stream, as after the restore of a backup from before it.
            return if self.is_finished() { self.fail_lost_cursor() } else { Vec::new() };
        }
        let mut all = self.begin(None);
        if let Some((EventPosition::InObservation { seq, .. }, texts)) = &self.resume_at
            && *seq == observation.seq
        {
            let texts = texts.clone();
            all.extend(self.resume_texts(texts));
        }
        let events = self.events.observation(observation);
        (self.seq, self.end_events_sent) = (observation.seq, 0);
        all.extend(self.number_events(observation.seq, events));
        if self.is_cursor_lost() {
            return self.fail_lost_cursor();
        }
        all
    }

    pub(super) fn token(&mut self, token: &Token) -> Vec<NumberedEvent> {
        if token.run_id != self.segment.run || self.resume_at.is_some() || self.is_finished() {
            return Vec::new();
        }
        let mut all = self.begin(None);
        let position = EventPosition::AfterObservation { seq: self.seq, sent: 0 };
        for data in self.events.token(token) {
            self.texts.apply(&data);
            all.push(NumberedEvent { id: Some(self.id(position, &self.texts)), data });
        }
        all
    }

    /// Ends the stream, because the run waits for an answer. `messages` is the conversation up to here.
    pub(super) fn suspended(&mut self, messages: Vec<Value>) -> Vec<NumberedEvent> {
        let mut all = self.begin(None);
        if self.resume_at.is_some() {
            return self.fail_lost_cursor();
        }
        let before = self.texts.clone();
        for (at, data) in self.events.suspended(messages).into_iter().enumerate() {
            let position = EventPosition::AfterObservation { seq: self.seq, sent: at + 1 };
            if at >= self.end_events_sent {
                all.push(NumberedEvent { id: Some(self.id(position, &before)), data });
            }
        }
        all
    }

    /// Ends the stream although the run goes on. A client that reconnects gets the rest.
    pub(super) fn interrupted(&mut self, code: &str, why: &str) -> Vec<NumberedEvent> {
        let mut all = self.begin(None);
        all.extend(self.events.interrupted(code, why).into_iter().map(|data| NumberedEvent { id: None, data }));
        all
    }

    /// Whether the client's cursor was passed without being found.
    fn is_cursor_lost(&self) -> bool {
        let is_passed = |position: &EventPosition| match position {
            EventPosition::InObservation { seq, .. } | EventPosition::AfterObservation { seq, .. } => *seq < self.seq,
        };
        self.resume_at.as_ref().is_some_and(|(position, _)| is_passed(position) || self.is_finished())
    }

    fn fail_lost_cursor(&mut self) -> Vec<NumberedEvent> {
        self.resume_at = None;
        self.events.abandon();
        let data = run_error("invalid", "Last-Event-ID is of no event of this run; connect without it.", false);
        vec![NumberedEvent { id: None, data }]
    }

    /// The events of the observation with this `seq`, without those that the client already has.
    fn number_events(&mut self, seq: i64, events: Vec<Value>) -> Vec<NumberedEvent> {
        let before = self.texts.clone();
        events.iter().for_each(|event| self.texts.apply(event));
        let number = |(at, data): (usize, Value)| {
            let position = EventPosition::InObservation { seq, sent: at + 1 };
            NumberedEvent { id: Some(self.id(position, &before)), data }
        };
        let numbered: Vec<NumberedEvent> = events.into_iter().enumerate().map(number).collect();
        match self.resume_at.take() {
            None => numbered,
            Some((EventPosition::InObservation { seq: at, sent }, _)) if at == seq => {
                numbered.into_iter().skip(sent).collect()
            }
            Some((EventPosition::AfterObservation { seq: at, sent }, texts)) if at == seq => {
                self.end_events_sent = sent;
                self.resume_texts(texts)
            }
            later => {
                self.resume_at = later;
                Vec::new()
            }
        }
    }

    /// Continues open texts, and returns the rest of their first events.
    fn resume_texts(&mut self, texts: OpenTexts) -> Vec<NumberedEvent> {
        let thoughts = texts.thoughts.iter().map(|open| (open.stream.clone(), open.sent)).collect();
        self.events.resume_texts(texts.answer.clone(), thoughts);
        let unbegun: Vec<_> = texts.thoughts.iter().filter(|open| !open.has_begun).cloned().collect();
        self.texts = texts;
        let mut all = Vec::new();
        for OpenThoughts { stream, .. } in unbegun {
            let data = reasoning_message_start(stream.as_str());
            self.texts.apply(&data);
            let position = EventPosition::AfterObservation { seq: self.seq, sent: self.end_events_sent };
            all.push(NumberedEvent { id: Some(self.id(position, &self.texts)), data });
        }
        all
    }

    fn id(&self, position: EventPosition, texts: &OpenTexts) -> String {
        Cursor { segment: self.segment.clone(), position, texts: texts.clone() }.to_string()
    }
}

#[cfg(test)]
mod tests;
