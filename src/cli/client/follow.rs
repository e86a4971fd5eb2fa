//! Follows a run to its end: draws it, asks people, and handles Ctrl-C.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::answer::Draft;
use super::args::Output;
use super::events::{Events, FrameContent, Next, ObservationFrame};
use super::input::{Input, Line};
use super::leave::leave;
use super::lists::now;
use super::outage::{self, Outage};
use super::plan_view::PlanView;
use super::prompt::{self, Typed};
use super::replay::Base;
use super::screen::{DRAW_EVERY, Screen, is_late};
use super::show::line;
use super::standing::{Standing, waits_for_answer};
use super::stop::{Stopped, passed, unless_stopped};
use super::terminal::{ResultLines, Style, can_ask, is_drawn, size, tell};
use super::{answer, card, plain, tree};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{RunId, SuspensionId};
use crate::domain::run::{RunResource, RunStatus};

/// The run to follow, and how.
pub(super) struct Watched {
    pub thread: String,
    /// Title of the thread, or empty.
    pub title: String,
    pub run: String,
    pub after: i64,
    pub output: Output,
    /// Whether questions may be put to the person at this terminal.
    pub may_ask: bool,
    /// When the client stops waiting for the run.
    pub deadline: Option<Instant>,
    /// The command that shows the run again, to precede the thread.
    pub command: &'static str,
}

pub(super) enum Ended {
    Run(Box<RunResource>),
    /// The run waits for a person, or is queued behind one that does, and nobody answered here.
    Waits {
        open: Vec<AskedQuestion>,
        is_queued: bool,
    },
    /// The client stopped following; the run continues.
    Left,
}

struct Follower<'s> {
    server: &'s Server,
    watched: Watched,
    view: PlanView,
    screen: Screen,
    style: Style,
    is_drawn: bool,
    /// The frames of `--json`. If nobody reads them, the run is still followed, for the exit code.
    printed: ResultLines,
    is_caught_up: bool,
    outage: Outage,
    turn: usize,
    /// The question that is shown now.
    asking: Option<AskedQuestion>,
    /// Whether the cursor stands behind its prompt.
    is_prompted: bool,
    /// What was edited for that question and not accepted.
    kept: Option<PathBuf>,
    /// Questions that the person here does not answer.
    left_to_others: Vec<SuspensionId>,
    /// Questions that were answered here; the log may not have the answers yet.
    sent: Vec<SuspensionId>,
    status: RunStatus,
    /// The run that waits for a person while this one is queued behind it.
    ahead: Option<RunId>,
    input: &'s mut Input,
}

pub(super) async fn follow(server: &Server, watched: Watched, input: &mut Input) -> Result<Ended, Error> {
    let with_tokens = watched.output.tokens || (is_drawn() && !watched.output.json);
    let events = Events::new(server, &watched.thread, watched.after, Some(watched.run.clone()), with_tokens);
    let interrupts = signal(SignalKind::interrupt())?;
    Follower::new(server, watched, input).run(events, interrupts).await
}

impl<'s> Follower<'s> {
    fn new(server: &'s Server, watched: Watched, input: &'s mut Input) -> Self {
        Self {
            server,
            is_drawn: is_drawn() && !watched.output.json,
            view: PlanView { title: line(&watched.title), seq: watched.after, ..PlanView::default() },
            watched,
            screen: Screen::that_hides_input(),
            printed: ResultLines::default(),
            style: Style::of_environment(),
            is_caught_up: false,
            outage: Outage::default(),
            turn: 0,
            asking: None,
            is_prompted: false,
            kept: None,
            left_to_others: Vec::new(),
            sent: Vec::new(),
            status: RunStatus::Running,
            ahead: None,
            input,
        }
    }

    async fn run(mut self, events: Events<'_>, mut interrupts: Signal) -> Result<Ended, Error> {
        // The unfolded stream keeps a pending read when the loop handles something else and polls it again.
        let mut frames = pin!(stream::unfold(events, async |mut events| Some((events.next().await, events))));
        let mut ticks = interval(DRAW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let (asks, deadline) = (self.asking.is_some(), self.watched.deadline);
            tokio::select! {
                next = frames.next() => match next.expect("it never ends")? {
                    Next::Frame(frame) => {
                        self.view.notice = None;
                        if self.watched.output.json && frame.event != "caught_up" {
                            self.printed.print(&frame.json())?;
                        }
                        let content = frame.content()?;
                        match unless_stopped(self.take(content), &mut interrupts, deadline).await {
                            Ok(taken) => {
                                if let Some(ended) = taken? {
                                    return Ok(ended);
                                }
                            }
                            Err(stopped) => return self.leave(stopped, &mut interrupts).await,
                        }
                    }
                    Next::Lost { why, again_in } => self.lost(&why, again_in),
                },
                due = ticks.tick(), if self.is_drawn && !asks => if !is_late(due) { self.draw() },
                typed = self.input.line(), if asks => {
                    if let Some(ended) = self.typed(typed, &mut interrupts).await? {
                        return Ok(ended);
                    }
                }
                () = passed(self.outage.again_at) => {
                    match unless_stopped(self.catch_up(), &mut interrupts, deadline).await {
                        Ok(caught_up) => caught_up?,
                        Err(stopped) => return self.leave(stopped, &mut interrupts).await,
                    }
                }
                _ = interrupts.recv() => return self.leave(Stopped::Interrupted, &mut interrupts).await,
                () = passed(deadline) => return self.leave(Stopped::TooLate, &mut interrupts).await,
            }
            self.ask();
            if let Some(ended) = self.waits() {
                return Ok(ended);
            }
        }
    }

    async fn take(&mut self, content: FrameContent) -> Result<Option<Ended>, Error> {
        match content {
            FrameContent::Observation(frame) => self.observe(&frame),
            FrameContent::Token(token) => self.view.say(&token),
            FrameContent::CaughtUp => self.catch_up().await?,
            FrameContent::Gap { from_seq } => self.begin_anew(from_seq).await,
            FrameContent::Run(run) if run.run_id.as_str() == self.watched.run => {
                self.status = run.status;
                if run.status.is_terminal() {
                    self.is_caught_up = true;
                    self.draw();
                    self.screen.leave();
                    if self.is_drawn {
                        tell("");
                    }
                    return Ok(Some(Ended::Run(run)));
                }
            }
            FrameContent::Run(other) if other.status == RunStatus::Suspended => self.ahead = Some(other.run_id),
            FrameContent::Run(other) => self.ahead = self.ahead.take().filter(|ahead| *ahead != other.run_id),
            FrameContent::Other => {}
        }
        Ok(None)
    }

    /// Handles a log that does not go on at the requested cursor: it begins later, or went back to an earlier state.
    async fn begin_anew(&mut self, from_seq: i64) {
        // Without the base, the plan is drawn from the log alone.
        if self.is_drawn
            && self.view.seq != from_seq - 1
            && let Ok(base) = Base::of(self.server, &self.watched.thread, from_seq - 1).await
        {
            self.view.begin(&base);
        }
    }

    async fn catch_up(&mut self) -> Result<(), Error> {
        let (why, wanted) = match Standing::of(self.server, &self.watched.thread, &self.watched.run).await {
            Ok(standing) => {
                self.take_standing(&standing);
                return Ok(());
            }
            Err(Error::Unreachable(why)) => (why, None),
            Err(Error::Unavailable { said, again_in } | Error::TooManyRequests { said, again_in }) => (said, again_in),
            Err(error) => return Err(error),
        };
        let again_in = self.outage.pause(wanted);
        self.lost(&why, again_in);
        Ok(())
    }

    fn take_standing(&mut self, standing: &Standing) {
        (self.status, self.ahead) = (standing.status, standing.ahead.clone());
        // A log that went back to an earlier state tells of no end of the questions that it no longer has.
        self.view.questions.clear();
        for open in &standing.open {
            self.view.add_open(open);
        }
        if self.asking.take_if(|asked| !self.view.is_open(&asked.suspension_id)).is_some() {
            self.tell_below("This is not asked any more.");
        }
        self.is_caught_up = true;
        self.view.notice = None;
        if self.outage.ends() {
            self.tell_below("The server answers again.");
            if let Some(asked) = self.asking.take() {
                self.prompt(asked);
            }
        }
    }

    fn observe(&mut self, frame: &ObservationFrame) {
        self.view.take(frame);
        if !self.is_drawn
            && !self.watched.output.json
            && let Some(told) = plain::line_of(frame)
        {
            tell(&told);
        }
        if self.asking.take_if(|asked| !self.view.is_open(&asked.suspension_id)).is_some() {
            let by = frame.content["decidedBy"].as_str().map(line).unwrap_or_else(|| "time".to_owned());
            let decision = frame.content["decision"].as_str().unwrap_or("it ended");
            self.tell_below(&format!("Answered: {decision} by {by}."));
        }
    }

    fn draw(&mut self) {
        if self.is_drawn && self.is_caught_up {
            self.turn += 1;
            let size = size();
            let canvas = tree::Canvas { now: now(), size, style: self.style, turn: self.turn };
            let lines = tree::draw(&self.view, &line(&self.watched.thread), canvas);
            self.screen.draw(lines, size);
        }
    }

    /// Tells of an outage: in a line of the tree if one is drawn.
    fn lost(&mut self, why: &str, again_in: Duration) {
        let told = outage::words(why, again_in, self.view.seq);
        if self.is_drawn && self.is_caught_up && self.asking.is_none() {
            self.view.notice = Some(line(&told));
            return;
        }
        self.outage.is_told = true;
        self.tell_below(&told);
    }

    /// Tells something in a line of its own, also if the cursor stands behind a prompt.
    fn tell_below(&mut self, told: &str) {
        if std::mem::take(&mut self.is_prompted) {
            tell("");
        }
        tell(told);
    }

    fn prompt(&mut self, asked: AskedQuestion) {
        prompt::show(&asked);
        (self.asking, self.is_prompted) = (Some(asked), true);
    }

    /// Shows the next question, if there is one and somebody can answer.
    fn ask(&mut self) {
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

    async fn typed(&mut self, typed: Line, interrupts: &mut Signal) -> Result<Option<Ended>, Error> {
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
    fn waits(&mut self) -> Option<Ended> {
        let open: Vec<AskedQuestion> = self.view.questions.iter().map(|one| one.asked.clone()).collect();
        let is_for_others =
            |asked: &AskedQuestion| !self.can_ask() || self.left_to_others.contains(&asked.suspension_id);
        let waits = self.is_caught_up && waits_for_answer(self.status, self.ahead.is_some(), &open);
        let is_queued = self.status == RunStatus::Queued;
        (waits && open.iter().all(is_for_others)).then_some(Ended::Waits { open, is_queued })
    }

    async fn leave(&mut self, stopped: Stopped, interrupts: &mut Signal) -> Result<Ended, Error> {
        self.screen.leave();
        // What is typed from now on is for the shell.
        self.input.give_up();
        let asks = self.view.questions.iter().any(|one| !self.sent.contains(&one.asked.suspension_id));
        leave(self.server, &self.watched, asks, stopped, interrupts).await
    }
}

#[cfg(test)]
mod tests;
