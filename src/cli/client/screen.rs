//! Lines that are redrawn in place, only where they changed.

use std::io::{Write as _, stderr};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::terminal::{HiddenInput, Size};

/// The interval between redraws.
pub(super) const DRAW_EVERY: Duration = Duration::from_millis(100);

/// How late a redraw is only after a stop of this process.
const LATE: Duration = Duration::from_millis(500);

/// Whether a redraw that was due then is left out: if the process was stopped meanwhile, the screen learns of that before the
/// next one.
pub(super) fn is_late(due: Instant) -> bool {
    due.elapsed() > LATE
}

pub(super) struct Screen {
    drawn: Vec<String>,
    columns: usize,
    hides_input: bool,
    hidden: Option<HiddenInput>,
    /// The process goes on after it was stopped, as by Ctrl-Z. Without it, what others wrote meanwhile is drawn over.
    continued: Option<Signal>,
}

impl Screen {
    pub fn new() -> Self {
        let continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())).ok();
        Self { drawn: Vec::new(), columns: 0, hides_input: false, hidden: None, continued }
    }

    /// Hides what is typed from the first drawing until the screen is left or dropped. For commands that end by themselves on
    /// Ctrl-C: who is ended by the signal restores nothing.
    pub fn that_hides_input() -> Self {
        Self { hides_input: true, ..Self::new() }
    }

    /// Replaces the lines of the last call. After a stop of the process it draws below what others wrote meanwhile.
    pub fn draw(&mut self, lines: Vec<String>, size: Size) {
        if self.was_stopped() {
            self.leave();
        }
        if self.hides_input && self.hidden.is_none() {
            self.hidden = Some(HiddenInput::new());
        }
        // After a resize the position of the old lines is unknown: the terminal has rewrapped them, or has no rows for all.
        if std::mem::replace(&mut self.columns, size.columns) != size.columns || self.drawn.len() >= size.rows {
            self.drawn.clear();
        }
        if lines == self.drawn {
            return;
        }
        let mut out = String::new();
        if !self.drawn.is_empty() {
            out.push_str(&format!("\u{1b}[{}A", self.drawn.len()));
        }
        for (at, line) in lines.iter().enumerate() {
            if self.drawn.get(at) == Some(line) {
                out.push_str("\u{1b}[1B");
            } else {
                out.push_str(&format!("\r\u{1b}[2K{line}\n"));
            }
        }
        if lines.len() < self.drawn.len() {
            out.push_str("\u{1b}[J");
        }
        self.drawn = lines;
        // Progress output is optional.
        let _ = stderr().lock().write_all(out.as_bytes());
    }

    fn was_stopped(&mut self) -> bool {
        let continued = self.continued.as_mut().and_then(|continued| continued.recv().now_or_never());
        continued.flatten().is_some()
    }

    /// Further output goes below.
    pub fn leave(&mut self) {
        self.drawn.clear();
        self.hidden = None;
    }
}
