//! Lines that are redrawn in place, only where they changed.

use std::io::{Write as _, stderr};

use super::terminal::HiddenInput;

#[derive(Default)]
pub(super) struct Screen {
    drawn: Vec<String>,
    columns: usize,
    hides_input: bool,
    hidden: Option<HiddenInput>,
}

impl Screen {
    /// Hides what is typed from the first drawing until the screen is left or dropped. For commands that end by themselves on
    /// Ctrl-C: who is ended by the signal restores nothing.
    pub fn that_hides_input() -> Self {
        Self { hides_input: true, ..Self::default() }
    }

    /// Replaces the lines of the last call.
    pub fn draw(&mut self, lines: Vec<String>, columns: usize) {
        if self.hides_input && self.hidden.is_none() {
            self.hidden = Some(HiddenInput::new());
        }
        // After a resize the terminal has rewrapped the old lines, so their position is unknown.
        if std::mem::replace(&mut self.columns, columns) != columns {
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

    /// Further output goes below.
    pub fn leave(&mut self) {
        self.drawn.clear();
        self.hidden = None;
    }
}
