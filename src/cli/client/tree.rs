//! A run as a tree of its plan, for a terminal.

use std::collections::HashMap;

use super::hidden_items::{HiddenItems, Stage};
use super::lanes;
use super::plan_view::{ItemView, PlanView, doubt, rule, subject};
use super::show::{count, cut, line, pad, span, tail, width};
use super::terminal::{Size, Style};
use crate::domain::Millis;
use crate::domain::hitl::{AskedQuestion, SuspensionKind};
use crate::domain::plan::ItemStatus;

/// What a tree is drawn for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Canvas {
    pub now: Millis,
    pub size: Size,
    pub style: Style,
    /// Animates running items.
    pub turn: usize,
}

/// The state of an item, as a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Pending,
    Running,
    Done,
    Failed,
    Cancelled,
    Asks,
    AtAgent,
    InDoubt,
}

impl Shape {
    fn of(view: &PlanView, item: &ItemView) -> Self {
        match view.question_of(&item.id) {
            Some(asked) if asked.kind == SuspensionKind::InDoubt => return Self::InDoubt,
            Some(_) => return Self::Asks,
            None => {}
        }
        match item.status {
            ItemStatus::Completed => Self::Done,
            ItemStatus::Failed => Self::Failed,
            ItemStatus::Cancelled => Self::Cancelled,
            ItemStatus::Pending => Self::Pending,
            ItemStatus::InProgress | ItemStatus::Waiting if item.agent.is_some() => Self::AtAgent,
            ItemStatus::InProgress | ItemStatus::Waiting => Self::Running,
        }
    }

    fn stage(self) -> Stage {
        match self {
            Self::Done | Self::Failed | Self::Cancelled => Stage::Over,
            Self::Pending => Stage::Pending,
            Self::Running | Self::AtAgent => Stage::Running,
            Self::Asks | Self::InDoubt => Stage::Asks,
        }
    }

    fn drawn(self, Canvas { style, turn, .. }: Canvas) -> String {
        const RUNNING: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        let (shape, ascii, colour) = match self {
            Self::Pending => ("○", ".", 2),
            Self::Running => (RUNNING[turn % RUNNING.len()], "*", 36),
            Self::Done => ("✓", "+", 32),
            Self::Failed => ("✗", "x", 31),
            Self::Cancelled => ("–", "-", 2),
            Self::Asks => ("◆", "!", 33),
            Self::AtAgent => ("⬡", ">", 35),
            Self::InDoubt => ("?", "?", 31),
        };
        let drawn = if style.unicode { shape } else { ascii };
        if style.colour { format!("\u{1b}[{colour}m{drawn}\u{1b}[0m") } else { drawn.to_owned() }
    }
}

/// Draws at most one line less than there are rows. Finished items are hidden first, then pending ones.
pub(super) fn draw(view: &PlanView, thread: &str, canvas: Canvas) -> Vec<String> {
    let mut lines = lines(view, thread, canvas);
    lines.extend(view.notice.as_ref().map(|notice| cut(&format!("  {notice}"), canvas.size.columns)));
    // A line in the last row would scroll the first one away, and the next drawing would be misplaced.
    lines.truncate(canvas.size.rows.saturating_sub(1));
    if canvas.style.unicode {
        return lines;
    }
    lines.into_iter().map(|line| line.replace('…', "~").replace('–', "-")).collect()
}

fn lines(view: &PlanView, thread: &str, canvas: Canvas) -> Vec<String> {
    let Canvas { now, size, .. } = canvas;
    let mut lines = vec![head(view, thread, now, size.columns)];
    let asked: Vec<String> = view.questions_of_the_run().map(|asked| asks(asked, canvas)).collect();
    if view.items.is_empty() {
        let saying = view.saying.as_ref().map(|saying| line(&saying.text)).filter(|text| !text.is_empty());
        let usual = || "The plan appears here as soon as the model has written it.".to_owned();
        let waiting = saying.or_else(|| (asked.is_empty() && view.ended.is_none()).then(usual));
        lines.extend(waiting.map(|waiting| format!("  {}", tail(&waiting, size.columns.saturating_sub(2)))));
        lines.extend(asked);
        return lines;
    }
    // Other rows: the head, the questions, the model's output, the notice, the cursor.
    let others = 2 + asked.len() + usize::from(view.saying.is_some()) + usize::from(view.notice.is_some());
    let room = size.rows.saturating_sub(others);
    lines.extend(items(view, Canvas { size: Size { rows: room, ..size }, ..canvas }));
    lines.extend(asked);
    if let Some(saying) = &view.saying {
        lines.push(format!("  {}", tail(&line(&saying.text), size.columns.saturating_sub(2))));
    }
    lines
}

/// A question of no item, with the id by which it is answered.
fn asks(asked: &AskedQuestion, canvas: Canvas) -> String {
    let left = asked.expires_at.map(|at| format!(", {} left", span(at - canvas.now))).unwrap_or_default();
    let (shape, id) = (Shape::Asks.drawn(canvas), asked.suspension_id.as_str());
    cut_drawn(&format!("  {shape} asks you: {} ({id}){left}", subject(asked)), canvas.size.columns)
}

fn head(view: &PlanView, thread: &str, now: Millis, columns: usize) -> String {
    let (done, all) = view.progress();
    let facts = |has_model: bool, has_tokens: bool| {
        let mut facts = Vec::new();
        facts.extend(has_model.then(|| view.model.clone()));
        facts.extend((all > 0).then(|| format!("{done}/{all}")));
        facts.extend(view.began.map(|began| span(view.ended.unwrap_or(now) - began)));
        facts.extend(has_tokens.then(|| format!("{} tok", count(view.tokens))));
        facts.extend(view.cost.map(|cost| format!("${cost:.3}")));
        facts.join("   ")
    };
    let room = |facts: &str| columns.saturating_sub(width(facts) + 3);
    let named = if view.title.is_empty() { thread.to_owned() } else { format!("{thread}  {}", view.title) };
    // On a narrow terminal the model and the tokens give way to the title.
    let [whole, without_model, fewest] = [facts(true, true), facts(false, true), facts(false, false)];
    let is_readable = |facts: &String| room(facts) >= width(&named).min(columns / 3);
    let facts = [whole, without_model].into_iter().find(is_readable).unwrap_or(fewest);
    cut(&format!("{}   {facts}", cut(&named, room(&facts).max(8))), columns)
}

/// The items, on at most as many rows as the canvas has.
fn items(view: &PlanView, canvas: Canvas) -> Vec<String> {
    let Canvas { now, size, style, .. } = canvas;
    let places: HashMap<&str, usize> = view.items.iter().enumerate().map(|(at, item)| (item.id.as_str(), at)).collect();
    let dependencies: Vec<Vec<usize>> = view
        .items
        .iter()
        .map(|item| item.dependencies.iter().filter_map(|id| places.get(id.as_str()).copied()).collect())
        .collect();
    let rows = lanes::rows(&dependencies);
    let lanes = rows.iter().map(|row| row.lane + 1).max().unwrap_or(1);
    // Lanes wider than half of the line are left out.
    let is_wide = 2 * lanes > size.columns / 2;
    let ids = view.items.iter().map(|item| width(&line(item.id.as_str()))).max().unwrap_or(0).min(20);
    let longest = view.items.iter().map(|item| width(&line(&item.description))).max().unwrap_or(0);
    let shapes: Vec<Shape> = view.items.iter().map(|item| Shape::of(view, item)).collect();
    let stages: Vec<Stage> = shapes.iter().map(|shape| shape.stage()).collect();
    let hidden = HiddenItems::choose(&stages, size.rows);
    let in_one_line = |shape: Shape, words: &str| {
        let count = hidden.count(shape.stage());
        (count > 0).then(|| format!("  {} {count} {words}", shape.drawn(canvas)))
    };
    // One line for all that are over, which tells apart how they ended.
    let ended =
        [(Shape::Done, "done"), (Shape::Failed, "failed"), (Shape::Cancelled, "cancelled")].map(|(shape, words)| {
            let count = shapes.iter().enumerate().filter(|(at, one)| **one == shape && hidden.hides(*at)).count();
            (count > 0).then(|| format!("{} {count} {words}", shape.drawn(canvas)))
        });
    let ended: Vec<String> = ended.into_iter().flatten().collect();
    let mut drawn: Vec<String> = Vec::new();
    if !ended.is_empty() {
        drawn.push(format!("  {}", ended.join("  ")));
    }
    for (at, (item, row)) in view.items.iter().zip(&rows).enumerate() {
        if hidden.hides(at) {
            continue;
        }
        let shape = shapes[at].drawn(canvas);
        let taken = if is_wide { 1 } else { 2 * lanes - 1 };
        let lane = if is_wide { shape } else { lanes::draw(row, &shape, lanes, style.unicode) };
        let note = note(view, item, now);
        let time = item.began.map_or_else(|| "–".to_owned(), |began| span(item.ended.unwrap_or(now) - began));
        // The rest of the line: two thirds for the item's text, one for its note.
        let rest = size.columns.saturating_sub(taken + ids + 16);
        let words = longest.min(rest * 2 / 3);
        let told = line(&item.description);
        let line = format!("  {lane}  {}  {} {time:>7}  {note}", pad(&line(item.id.as_str()), ids), pad(&told, words));
        drawn.push(cut_drawn(&line, size.columns));
    }
    let others = [(Shape::Pending, "pending"), (Shape::Running, "running"), (Shape::Asks, "asking")];
    drawn.extend(others.into_iter().filter_map(|(shape, words)| in_one_line(shape, words)));
    drawn
}

/// What an item waits for, the model's output for it, or why it ended without a result. What is cut off of a question is what
/// matters least: the rule that asks.
fn note(view: &PlanView, item: &ItemView, now: Millis) -> String {
    if let Some(asked) = view.question_of(&item.id) {
        let left = asked.expires_at.map(|at| format!(", {} left", span(at - now))).unwrap_or_default();
        let why = doubt(asked).map(str::to_owned).or_else(|| rule(asked));
        let by = why.map(|why| format!(" ({why})")).unwrap_or_default();
        return format!("asks you: {}{left}{by}", subject(asked));
    }
    if let Some((agent, since)) = &item.agent {
        return format!("at {agent}, asked {} ago", span(now - since));
    }
    if let Some(saying) = &item.saying {
        return tail(&line(&saying.text), 44);
    }
    if !item.calls.is_empty() {
        let names: Vec<&str> = item.calls.iter().map(|(_, tool)| tool.as_str()).collect();
        return format!("calls {}", names.join(", "));
    }
    if item.status == ItemStatus::Pending {
        let is_open = |id: &&crate::domain::ids::ItemId| {
            view.items.iter().any(|other| other.id == **id && !other.status.is_settled())
        };
        let open: Vec<String> = item.dependencies.iter().filter(is_open).map(|id| line(id.as_str())).collect();
        return if open.is_empty() { String::new() } else { format!("after {}", open.join(", ")) };
    }
    if let (ItemStatus::Failed | ItemStatus::Cancelled, Some(reason)) = (item.status, &item.reason) {
        return reason.clone();
    }
    let retries = item.attempts.saturating_sub(1);
    let counted = [(retries, "retry", "retries"), (item.errors, "error", "errors")];
    let counted = counted.into_iter().filter(|(number, ..)| *number > 0);
    counted
        .map(|(number, one, many)| format!("{number} {}", if number == 1 { one } else { many }))
        .collect::<Vec<_>>()
        .join(", ")
}

/// As [`cut`], for a line whose colour codes take no columns.
fn cut_drawn(line: &str, columns: usize) -> String {
    let (line, mut is_colour) = (line.trim_end(), false);
    let taken = |c: char| {
        is_colour |= c == '\u{1b}';
        let taken = if is_colour { 0 } else { width(c.encode_utf8(&mut [0; 4])) };
        is_colour &= c != 'm';
        (c, taken)
    };
    let characters: Vec<(char, usize)> = line.chars().map(taken).collect();
    if characters.iter().map(|(_, taken)| taken).sum::<usize>() <= columns {
        return line.to_owned();
    }
    let mut sum = 0;
    let fits = |(c, taken): (char, usize)| {
        sum += taken;
        (sum < columns).then_some(c)
    };
    let kept: String = characters.into_iter().map_while(fits).collect();
    kept.trim_end().to_owned() + if columns > 0 { "…" } else { "" }
}

#[cfg(test)]
mod tests;
