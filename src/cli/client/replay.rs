//! `pes replay`: shows the past of a thread.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::args::ReplayArguments;
use super::events::ObservationFrame;
use super::plan_view::PlanView;
use super::screen::Screen;
use super::show::line;
use super::terminal::{Style, is_drawn, print, size, tell};
use super::{plain, run, tree};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::plan::TodoItem;

/// Longer pauses are cut to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// The stored history of a thread.
pub(super) struct History {
    /// Absent if the log is complete.
    pub base: Option<Base>,
    pub frames: Vec<ObservationFrame>,
}

/// The state of a thread before the first stored observation: earlier ones were deleted by retention.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Base {
    pub title: String,
    pub todo_list: Vec<TodoItem>,
    pub plan_version: i64,
    /// `seq` of the observation that this state includes.
    pub last_seq: i64,
}

impl Base {
    pub async fn of(server: &Server, thread: &str, at: i64) -> Result<Self, Error> {
        server.get(&format!("/threads/{thread}/state?at={at}")).await
    }

    pub fn tell_where_log_begins(&self) {
        tell(&format!("The log begins at observation {}; what was before it was deleted.", self.last_seq + 1));
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
    min_seq: i64,
}

/// All stored observations of a thread, up to `at`, and the `seq` with which its log begins.
async fn observations<T: DeserializeOwned>(
    server: &Server,
    thread: &str,
    at: Option<i64>,
    seq: impl Fn(&T) -> i64,
) -> Result<(Vec<T>, i64), Error> {
    let mut found: Vec<T> = Vec::new();
    let mut after = "0".to_owned();
    let mut begins = None;
    loop {
        let page: Page<T> = match server.get(&format!("/threads/{thread}/events?after={after}&limit=200")).await {
            Err(Error::NotFound(_)) if begins.is_none() => return Err(run::no_such(server, thread).await),
            read => read?,
        };
        let begins = *begins.get_or_insert(page.min_seq);
        found.extend(page.items);
        let is_past = at.is_some_and(|at| found.last().is_some_and(|last| seq(last) >= at));
        match page.next_cursor {
            Some(next) if !is_past => after = next,
            Some(_) | None => {
                found.retain(|one| at.is_none_or(|at| seq(one) <= at));
                return Ok((found, begins));
            }
        }
    }
}

/// All stored observations of a thread, up to `at`, and the state before them.
pub(super) async fn history(server: &Server, thread: &str, at: Option<i64>) -> Result<History, Error> {
    let (frames, begins) = observations(server, thread, at, |frame: &ObservationFrame| frame.seq).await?;
    Ok(History { base: base(server, thread, at, begins).await?, frames })
}

async fn base(server: &Server, thread: &str, at: Option<i64>, begins: i64) -> Result<Option<Base>, Error> {
    if begins <= 1 {
        return Ok(None);
    }
    // If `at` itself was deleted, the server's answer to this request reports it.
    Base::of(server, thread, at.unwrap_or(i64::MAX).min(begins - 1)).await.map(Some)
}

/// Prints the stored observations as frames of the API.
async fn print_frames(server: &Server, thread: &str, at: Option<i64>) -> Result<(), Error> {
    let seq = |observation: &Value| observation["seq"].as_i64().unwrap_or_default();
    let (found, begins) = observations(server, thread, at, seq).await?;
    let base = base(server, thread, at, begins).await?;
    check_at(at, found.last().map_or(begins - 1, seq))?;
    base.iter().for_each(Base::tell_where_log_begins);
    found.into_iter().try_for_each(|data| print(&json!({ "event": "observation", "data": data }).to_string()))
}

fn check_at(at: Option<i64>, last: i64) -> Result<(), Error> {
    if at.is_some_and(|at| at > last) {
        return Err(Error::Usage(format!("The last observation is {last}.")));
    }
    Ok(())
}

pub(super) async fn replay(server: &Server, arguments: ReplayArguments) -> Result<(), Error> {
    let ReplayArguments { thread, at, speed, json } = arguments;
    if json {
        return print_frames(server, &thread, at).await;
    }
    if !speed.is_finite() || speed <= 0.0 {
        return Err(Error::Usage("--speed is a number above 0".to_owned()));
    }
    let History { base, frames } = history(server, &thread, at).await?;
    let last = frames.last().map(|frame| frame.seq).or(base.as_ref().map(|base| base.last_seq)).unwrap_or_default();
    check_at(at, last)?;
    base.iter().for_each(Base::tell_where_log_begins);
    if !is_drawn() {
        let stood = base.iter().flat_map(plain::lines_of_base);
        return stood.chain(frames.iter().filter_map(plain::line_of)).try_for_each(|told| print(&told));
    }
    let (style, mut view, mut screen) = (Style::of_environment(), PlanView::default(), Screen::new());
    let mut draw = |view: &PlanView| {
        let size = size();
        let canvas = tree::Canvas { now: view.at, size, style, turn: view.seq.unsigned_abs() as usize };
        let lines = tree::draw(view, &line(&thread), canvas);
        screen.draw(lines, size);
    };
    if let Some(base) = &base {
        view.begin(base);
        draw(&view);
    }
    let mut before = None;
    for frame in &frames {
        if let Some(before) = before.replace(frame.timestamp)
            && at.is_none()
        {
            tokio::time::sleep(pause(frame.timestamp.saturating_sub(before).unsigned_abs(), speed)).await;
        }
        view.take(frame);
        if at.is_none() || frame.seq == frames.last().map_or(0, |last| last.seq) {
            draw(&view);
        }
    }
    Ok(())
}

/// How long to wait before an observation that was made so much later than the one before it. `speed` is above 0.
fn pause(later_ms: u64, speed: f64) -> Duration {
    let seconds = Duration::from_millis(later_ms).as_secs_f64() / speed;
    Duration::try_from_secs_f64(seconds).map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONGEST_PAUSE, pause};

    #[test]
    fn however_slow_a_pause_is_short() {
        assert_eq!(pause(500, 4.0), Duration::from_millis(125));
        assert_eq!([pause(60_000, 4.0), pause(1, 1e-20), pause(u64::MAX, f64::MIN_POSITIVE)], [LONGEST_PAUSE; 3]);
        assert_eq!(pause(0, f64::MIN_POSITIVE), Duration::ZERO);
    }
}
