//! Lines that are redrawn in place, only where they changed.

use std::io::{Write as _, stderr};

#[derive(Default)]
pub(super) struct Screen {
    drawn: Vec<String>,
    columns: usize,
}

impl Screen {
    /// Replaces the lines of the last call.
    pub fn draw(&mut self, lines: Vec<String>, columns: usize) {
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
    }
}
