//! Follows a run to its end: draws it, asks people, and handles Ctrl-C.

mod questions;

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::args::Output;
use super::events::{Events, Frame, FrameContent, Next, ObservationFrame};
use super::input::{Input, Line};
use super::leave::leave;
use super::lists::now;
use super::outage::{self, Outage};
use super::plan_view::PlanView;
use super::replay::Base;
use super::screen::{DRAW_EVERY, Screen, is_late};
use super::show::line;
use super::standing::Standing;
use super::stop::{Stopped, passed, unless_stopped};
use super::terminal::{ResultLines, Style, is_drawn, size, tell};
use super::{plain, tree};
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

/// What the follower wakes up for.
enum Happened {
    Next(Next),
    /// A drawing was due at this time.
    DrawDue(Instant),
    Typed(Line),
    /// The server is to be asked again how the run stands.
    CatchUpDue,
    Stopped(Stopped),
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
            let asks = self.asking.is_some();
            let happened = tokio::select! {
                next = frames.next() => Happened::Next(next.expect("it never ends")?),
                due = ticks.tick(), if self.is_drawn && !asks => Happened::DrawDue(due),
                typed = self.input.line(), if asks => Happened::Typed(typed),
                () = passed(self.outage.again_at) => Happened::CatchUpDue,
                _ = interrupts.recv() => Happened::Stopped(Stopped::Interrupted),
                () = passed(self.watched.deadline) => Happened::Stopped(Stopped::TooLate),
            };
            if let Some(ended) = self.handle(happened, &mut interrupts).await? {
                return Ok(ended);
            }
            self.ask();
            if let Some(ended) = self.waits() {
                return Ok(ended);
            }
        }
    }

    async fn handle(&mut self, happened: Happened, interrupts: &mut Signal) -> Result<Option<Ended>, Error> {
        match happened {
            Happened::Next(Next::Frame(frame)) => return self.show(&frame, interrupts).await,
            Happened::Next(Next::Lost { why, again_in }) => self.lost(&why, again_in),
            Happened::DrawDue(due) if is_late(due) => {}
            Happened::DrawDue(_) => self.draw(),
            Happened::Typed(typed) => return self.typed(typed, interrupts).await,
            Happened::CatchUpDue => {
                let deadline = self.watched.deadline;
                match unless_stopped(self.catch_up(), interrupts, deadline).await {
                    Ok(caught_up) => caught_up?,
                    Err(stopped) => return self.leave(stopped, interrupts).await.map(Some),
                }
            }
            Happened::Stopped(stopped) => return self.leave(stopped, interrupts).await.map(Some),
        }
        Ok(None)
    }

    async fn show(&mut self, frame: &Frame, interrupts: &mut Signal) -> Result<Option<Ended>, Error> {
        self.view.notice = None;
        if self.watched.output.json && frame.event != "caught_up" {
            self.printed.print(&frame.json())?;
        }
        let (content, deadline) = (frame.content()?, self.watched.deadline);
        match unless_stopped(self.take(content), interrupts, deadline).await {
            Ok(taken) => taken,
            Err(stopped) => self.leave(stopped, interrupts).await.map(Some),
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
