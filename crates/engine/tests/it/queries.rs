//! Requests that the tests make.

use pes_engine::domain::fault::Fault;
use pes_engine::domain::message::{HistoryMessage, HistoryRole};
use pes_engine::domain::run::{Ask, OnBusy};
use pes_engine::domain::settings::RunSettings;
use pes_engine::event::{Event, Rewind};
use pes_engine::step::Step;

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
