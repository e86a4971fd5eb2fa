//! Requests that the tests make.

use pes_engine::domain::fault::Fault;
use pes_engine::domain::message::{HistoryMessage, HistoryRole};
use pes_engine::domain::run::{Ask, OnBusy};
use pes_engine::domain::settings::RunSettings;
use pes_engine::event::{CancelEvent, Event, PersonEvent, Rewind, SystemEvent};
use pes_engine::step::Step;
use serde_json::Value;

use super::sim::Sim;

impl Sim {
    pub fn ask(&mut self, query: &str) -> Result<Step, Fault> {
        self.ask_with(query, OnBusy::Enqueue, RunSettings::default())
    }

    pub fn ask_with(&mut self, query: &str, on_busy: OnBusy, settings: RunSettings) -> Result<Step, Fault> {
        self.ask_more(query, settings, None, |ask| ask.on_busy = on_busy)
    }

    /// A query on a thread that starts with this conversation.
    pub fn ask_after(&mut self, history: &[(HistoryRole, &str)], query: &str) -> Result<Step, Fault> {
        let said = |&(role, content): &(HistoryRole, &str)| HistoryMessage { role, content: content.to_owned() };
        let history = history.iter().map(said).collect();
        self.ask_more(query, RunSettings::default(), None, |ask| ask.history = history)
    }

    /// A query after which the thread goes back.
    pub fn ask_again(&mut self, query: &str, rewind: Rewind) -> Result<Step, Fault> {
        self.ask_more(query, RunSettings::default(), Some(rewind), |_| ())
    }

    /// Ann cancels this run; `None`: the active one and every queued one.
    pub fn cancel(&mut self, run: Option<&str>) -> Result<Step, Fault> {
        self.apply(Event::Cancel(CancelEvent::Asked { run: run.map(Into::into), by: "ann".into() }))
    }

    /// The lease holder has stopped the effects of what is cancelled.
    pub fn stop_effects(&mut self) -> Result<Step, Fault> {
        self.apply(Event::Cancel(CancelEvent::EffectsStopped))
    }

    pub fn wake(&mut self) -> Result<Step, Fault> {
        self.apply(Event::System(SystemEvent::Woke))
    }

    /// A person changes the list that is shown.
    pub fn edit_plan(&mut self, by: &str, change: impl FnOnce(&mut Vec<Value>)) -> Result<Step, Fault> {
        let view = self.view();
        let mut list = view["todoList"].as_array().unwrap().clone();
        change(&mut list);
        let expected = view["planVersion"].as_i64().unwrap();
        let (by, settings) = (by.to_owned(), Box::default());
        self.apply(Event::Person(PersonEvent::PlanEdited { expected, list, by, settings }))
    }

    /// A query with any other members.
    pub fn ask_more(
        &mut self,
        query: &str,
        settings: RunSettings,
        rewind: Option<Rewind>,
        more: impl FnOnce(&mut Ask),
    ) -> Result<Step, Fault> {
        self.next_run += 1;
        let n = self.next_run;
        let mut ask = Ask {
            query: query.into(),
            metadata: None,
            user_id: None,
            session_id: None,
            trace_id: format!("trace{n}"),
            trace: Default::default(),
            on_busy: OnBusy::Enqueue,
            shaped_by: Vec::new(),
            requested_by: "eve".into(),
            history: Vec::new(),
            settings: RunSettings {
                history_limit: self.history_limit,
                provider: "demo".into(),
                model: "m".into(),
                ..settings
            },
        };
        more(&mut ask);
        let (run, message) = (format!("run_{n}").into(), format!("msg_u{n}").into());
        self.apply(Event::Asked { run, message, ask: Box::new(ask), rewind: rewind.map(Box::new) })
    }
}
