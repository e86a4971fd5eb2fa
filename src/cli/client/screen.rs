//! Lines that are drawn again in place: only those that changed.

use std::io::{Write as _, stderr};

#[derive(Default)]
pub(super) struct Screen {
    drawn: Vec<String>,
    columns: usize,
}

impl Screen {
    /// Draws these lines where the last ones stood.
    pub fn draw(&mut self, lines: Vec<String>, columns: usize) {
        // Another width has wrapped the old lines anew: nobody knows where they stand.
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
        // Nobody has to look.
        let _ = stderr().lock().write_all(out.as_bytes());
    }

    /// What comes next stands below.
    pub fn leave(&mut self) {
        self.drawn.clear();
    }
}
