//! The events of one stream, each with the id that a client comes back with. Pure: what a stream was told that was cut, and
//! what another one tells behind it from the log alone, are the whole.

use serde_json::Value;

use super::cursor::{Cursor, Place, Segment, Texts};
use super::events::{AguiEvents, Origin, run_error};
use super::request::ClientRun;
use super::spoken::begins_thoughts;
use super::stream::started;
use crate::domain::facts::Fact;
use crate::domain::frame::Token;
use crate::domain::standing::RunActivity;
use crate::http::doors::told::{Says, ToldFact};

/// An event, and the id under which it is found again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

pub(super) struct Numbered {
    client: ClientRun,
    segment: Segment,
    events: AguiEvents,
    standing: RunActivity,
    texts: Texts,
    has_begun: bool,
    /// The last observation of the run that was heard.
    seq: i64,
    /// Where the client is that comes back; until then nothing is said.
    until: Option<(Place, Texts)>,
    /// So many of the events that end the stream the client has.
    has_of_end: usize,
    answers_left: u32,
}

impl Numbered {
    pub(super) fn new(client: ClientRun, segment: Segment) -> Self {
        Self {
            events: AguiEvents::new(client.clone(), segment.run.clone()),
            client,
            standing: RunActivity::default(),
            texts: Texts::default(),
            has_begun: false,
            seq: segment.start,
            until: None,
            has_of_end: 0,
            answers_left: segment.answers,
            segment,
        }
    }

    /// What follows this place of it.
    pub(super) fn behind(client: ClientRun, cursor: Cursor) -> Self {
        let until = Some((cursor.place, cursor.texts));
        Self { until, ..Self::new(client, cursor.segment) }
    }

    pub(super) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The client has some of it.
    pub(super) fn is_cut(&self) -> bool {
        self.until.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.events.is_over()
    }

    /// What a stream begins with; `conversation` stands behind its very first event.
    pub(super) fn begin(&mut self, conversation: Option<Value>) -> Vec<Event> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Vec::new();
        }
        let mut events = vec![started(&self.client)];
        events.extend(conversation);
        events.extend(self.events.begin());
        self.told(self.segment.start, events)
    }

    /// Whether the run stood still before this observation: then what it asked ends the stream. To be asked once for each
    /// observation.
    pub(super) fn stood_before(&mut self, told: &ToldFact) -> bool {
        if told.run != self.segment.run || told.seq <= self.segment.start || self.is_over() {
            return false;
        }
        if self.answers_left > 0 && matches!(told.says, Says::Fact(Fact::AgentResumed(_))) {
            self.answers_left -= 1;
            return false;
        }
        told.seq > self.segment.settled && told.moves(&self.standing)
    }

    pub(super) fn observation(&mut self, origin: &Origin, told: &ToldFact) -> Vec<Event> {
        if told.run != self.segment.run || self.is_over() {
            return Vec::new();
        }
        told.apply_to(&mut self.standing);
        if told.seq <= self.segment.start {
            self.events.unheard(told);
            return Vec::new();
        }
        let mut all = self.begin(None);
        if let Some((Place::Within { seq, .. }, texts)) = &self.until
            && *seq == told.seq
        {
            let texts = texts.clone();
            all.extend(self.take_up(texts));
        }
        let events = self.events.observation(origin, told);
        (self.seq, self.has_of_end) = (told.seq, 0);
        all.extend(self.told(told.seq, events));
        if self.is_lost() {
            return self.lost();
        }
        all
    }

    pub(super) fn token(&mut self, token: &Token) -> Vec<Event> {
        if token.run_id != self.segment.run || self.until.is_some() || self.is_over() {
            return Vec::new();
        }
        let mut all = self.begin(None);
        let place = Place::Behind { seq: self.seq, told: 0 };
        for data in self.events.token(token) {
            self.texts.hears(&data);
            all.push(Event { id: Some(self.id(place, &self.texts)), data });
        }
        all
    }

    /// Nothing goes on before somebody answers; `messages` is the conversation up to here.
    pub(super) fn suspended(&mut self, messages: Vec<Value>) -> Vec<Event> {
        let mut all = self.begin(None);
        if self.until.is_some() {
            return self.lost();
        }
        let before = self.texts.clone();
        for (at, data) in self.events.suspended(messages).into_iter().enumerate() {
            let place = Place::Behind { seq: self.seq, told: at + 1 };
            if at >= self.has_of_end {
                all.push(Event { id: Some(self.id(place, &before)), data });
            }
        }
        all
    }

    /// What is told ends here although the run does not: whoever comes back is told the rest.
    pub(super) fn interrupted(&mut self, code: &str, why: &str) -> Vec<Event> {
        let mut all = self.begin(None);
        all.extend(self.events.interrupted(code, why).into_iter().map(|data| Event { id: None, data }));
        all
    }

    /// Whether the place where the client says to be was passed without being found.
    fn is_lost(&self) -> bool {
        let is_passed = |place: &Place| match place {
            Place::Within { seq, .. } | Place::Behind { seq, .. } => *seq < self.seq,
        };
        self.until.as_ref().is_some_and(|(place, _)| is_passed(place) || self.is_over())
    }

    fn lost(&mut self) -> Vec<Event> {
        self.until = None;
        self.events.interrupted("", "");
        let data = run_error("invalid", "Last-Event-ID is of no event of this run; connect without it.", false);
        vec![Event { id: None, data }]
    }

    /// The events that the observation of this seq comes to, without those that the client has.
    fn told(&mut self, seq: i64, events: Vec<Value>) -> Vec<Event> {
        let before = self.texts.clone();
        events.iter().for_each(|event| self.texts.hears(event));
        let number = |(at, data): (usize, Value)| {
            let place = Place::Within { seq, told: at + 1 };
            Event { id: Some(self.id(place, &before)), data }
        };
        let numbered: Vec<Event> = events.into_iter().enumerate().map(number).collect();
        match self.until.take() {
            None => numbered,
            Some((Place::Within { seq: at, told }, _)) if at == seq => numbered.into_iter().skip(told).collect(),
            Some((Place::Behind { seq: at, told }, texts)) if at == seq => {
                self.has_of_end = told;
                self.take_up(texts)
            }
            later => {
                self.until = later;
                Vec::new()
            }
        }
    }

    /// Goes on where texts are being said; what of their beginning is still to be told.
    fn take_up(&mut self, texts: Texts) -> Vec<Event> {
        let thoughts = texts.thoughts.iter().map(|(stream, told, _)| (stream.clone(), *told)).collect();
        self.events.take_up(texts.answer.clone(), thoughts);
        let unbegun: Vec<_> = texts.thoughts.iter().filter(|(.., has_begun)| !has_begun).cloned().collect();
        self.texts = texts;
        let mut all = Vec::new();
        for (stream, ..) in unbegun {
            let data = begins_thoughts(stream.as_str());
            self.texts.hears(&data);
            let place = Place::Behind { seq: self.seq, told: self.has_of_end };
            all.push(Event { id: Some(self.id(place, &self.texts)), data });
        }
        all
    }

    fn id(&self, place: Place, texts: &Texts) -> String {
        Cursor { segment: self.segment.clone(), place, texts: texts.clone() }.to_string()
    }
}

#[cfg(test)]
mod tests;
