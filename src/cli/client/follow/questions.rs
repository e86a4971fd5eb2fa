//! The questions of the run, and the person at this terminal, who answers them or leaves them to others.

use serde_json::{Value, json};
use tokio::signal::unix::Signal;

use super::{Ended, Follower};
use crate::cli::Error;
use crate::cli::client::answer::{self, Draft};
use crate::cli::client::card;
use crate::cli::client::input::Line;
use crate::cli::client::lists::now;
use crate::cli::client::prompt::{self, Typed};
use crate::cli::client::standing::waits_for_answer;
use crate::cli::client::stop::unless_stopped;
use crate::cli::client::terminal::{can_ask, tell};
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::SuspensionId;
use crate::domain::run::RunStatus;

impl Follower<'_> {
    pub(super) fn prompt(&mut self, asked: AskedQuestion) {
        prompt::show(&asked);
        (self.asking, self.is_prompted) = (Some(asked), true);
    }

    /// Shows the next question, if there is one and somebody can answer.
    pub(super) fn ask(&mut self) {
        if self.asking.is_some() || !self.is_caught_up || !self.can_ask() {
            return;
        }
        let is_settled = |id: &SuspensionId| self.left_to_others.contains(id) || self.sent.contains(id);
        let next = self.view.questions.iter().find(|one| !is_settled(&one.asked.suspension_id));
        let Some(asked) = next.map(|one| one.asked.clone()) else { return };
        self.draw();
        self.screen.leave();
        // Earlier input was typed before this question was visible.
        self.input.forget();
        tell(&format!("\n{}", card::card(&asked, now(), self.style)));
        self.kept = None;
        self.prompt(asked);
    }

    fn can_ask(&self) -> bool {
        self.watched.may_ask && !self.watched.output.json && can_ask()
    }

    pub(super) async fn typed(&mut self, typed: Line, interrupts: &mut Signal) -> Result<Option<Ended>, Error> {
        let Some(asked) = self.asking.take() else { return Ok(None) };
        let text = match typed {
            Ok(Some(text)) => text,
            Err(Error::Usage(why)) => {
                self.ask_again(asked, &why);
                return Ok(None);
            }
            // The input is closed, or the terminal is gone: nobody can answer here.
            Ok(None) | Err(_) => {
                self.watched.may_ask = false;
                return Ok(None);
            }
        };
        self.is_prompted = false;
        // An answer may need further input, which the person may break off.
        let understood = prompt::understood(&asked, text.trim(), self.input, &mut self.kept);
        let understood = match unless_stopped(understood, interrupts, self.watched.deadline).await {
            Ok(understood) => understood,
            Err(stopped) => return self.leave(stopped, interrupts).await.map(Some),
        };
        match understood {
            Ok(Typed::Later) => self.left_to_others.push(asked.suspension_id),
            Ok(Typed::Again(why)) => self.ask_again(asked, &why),
            Ok(Typed::Answer(answer)) => return self.send(asked, answer, None, interrupts).await,
            Ok(Typed::Edited(draft)) => {
                let answer = json!({ "approved": true, "modifiedArgs": draft.value() });
                return self.send(asked, answer, Some(draft), interrupts).await;
            }
            Err(error) => self.ask_again(asked, &error.to_string()),
        }
        Ok(None)
    }

    /// `draft`: the edited text that the answer was made from.
    async fn send(
        &mut self,
        asked: AskedQuestion,
        answer: Value,
        draft: Option<Draft>,
        interrupts: &mut Signal,
    ) -> Result<Option<Ended>, Error> {
        let sending = answer::send(self.server, &self.watched.thread, &asked, answer);
        match unless_stopped(sending, interrupts, self.watched.deadline).await {
            Ok(sent) => {
                let sent = match draft {
                    Some(draft) => draft.settle(sent, &mut self.kept),
                    None => sent,
                };
                match sent {
                    Ok(()) => self.sent.push(asked.suspension_id),
                    Err(error) => self.ask_again(asked, &error.to_string()),
                }
                Ok(None)
            }
            Err(stopped) => {
                tell("\nThe answer may have been sent. `pes questions` shows whether the question is still open.");
                draft.iter().for_each(Draft::tell_where);
                self.sent.push(asked.suspension_id);
                self.leave(stopped, interrupts).await.map(Some)
            }
        }
    }

    fn ask_again(&mut self, asked: AskedQuestion, why: &str) {
        tell(why);
        self.prompt(asked);
    }

    /// Whether the run is blocked on an answer that nobody can give here.
    pub(super) fn waits(&mut self) -> Option<Ended> {
        let open: Vec<AskedQuestion> = self.view.questions.iter().map(|one| one.asked.clone()).collect();
        let is_for_others =
            |asked: &AskedQuestion| !self.can_ask() || self.left_to_others.contains(&asked.suspension_id);
        let waits = self.is_caught_up && waits_for_answer(self.status, self.ahead.is_some(), &open);
        let is_queued = self.status == RunStatus::Queued;
        (waits && open.iter().all(is_for_others)).then_some(Ended::Waits { open, is_queued })
    }
}
