//! `pes replay`: the past of a thread, as it was.

use std::time::Duration;

use serde::Deserialize;

use super::args::ReplayArguments;
use super::events::ObservationFrame;
use super::plan_view::PlanView;
use super::screen::Screen;
use super::show::line;
use super::terminal::{Size, Style, is_drawn, print, size};
use super::{plain, run, tree};
use crate::cli::Error;
use crate::cli::server::Server;

/// Longer pauses are shortened to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    items: Vec<ObservationFrame>,
    next_cursor: Option<String>,
}

/// All observations of a thread, up to this one.
pub(super) async fn history(server: &Server, thread: &str, at: Option<i64>) -> Result<Vec<ObservationFrame>, Error> {
    let mut history: Vec<ObservationFrame> = Vec::new();
    let mut after = "0".to_owned();
    loop {
        let page: Page = server.get(&format!("/threads/{thread}/events?after={after}&limit=200")).await?;
        history.extend(page.items);
        let is_past = at.is_some_and(|at| history.last().is_some_and(|last| last.seq >= at));
        match page.next_cursor {
            Some(next) if !is_past => after = next,
            Some(_) | None => break,
        }
    }
    history.retain(|frame| at.is_none_or(|at| frame.seq <= at));
    Ok(history)
}

pub(super) async fn replay(server: &Server, arguments: ReplayArguments) -> Result<(), Error> {
    let ReplayArguments { thread, at, speed } = arguments;
    if !speed.is_finite() || speed <= 0.0 {
        return Err(Error::Usage("--speed is a number above 0".to_owned()));
    }
    let history = match history(server, &thread, at).await {
        Err(Error::NotFound(_)) => return Err(run::no_such(server, &thread).await),
        read => read?,
    };
    let (style, mut view, mut screen) = (Style::of_environment(), PlanView::default(), Screen::default());
    if !is_drawn() {
        return history.iter().filter_map(plain::told).try_for_each(|told| print(&told));
    }
    let mut before = None;
    for frame in &history {
        if let Some(before) = before.replace(frame.timestamp)
            && at.is_none()
        {
            let pause = Duration::from_millis(frame.timestamp.saturating_sub(before).unsigned_abs()).div_f64(speed);
            tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
        }
        view.take(frame);
        let Size { columns, .. } = size();
        if at.is_none() || frame.seq == history.last().map_or(0, |last| last.seq) {
            let lines =
                tree::draw(&view, &line(&thread), frame.timestamp, size(), style, view.seq.unsigned_abs() as usize);
            screen.draw(lines, columns);
        }
    }
    Ok(())
}
