//! What the terminal supports, and output to it.

use std::io::{IsTerminal as _, Write as _, stderr, stdin, stdout};

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use crate::cli::Error;
use crate::config::env::Variables;

/// Writes a result line to stdout. Fails if the reader has closed it.
pub(in crate::cli) fn print(line: &str) -> Result<(), Error> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Result lines whose reader may go away before the last one. The others are then left out, which is no error.
#[derive(Default)]
pub(super) struct ResultLines {
    is_closed: bool,
}

impl ResultLines {
    pub(super) fn print(&mut self, line: &str) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        match print(line) {
            Err(Error::OutputClosed) => {
                self.is_closed = true;
                Ok(())
            }
            printed => printed,
        }
    }
}

/// Writes a progress line to stderr.
pub(in crate::cli) fn tell(line: &str) {
    // Progress output is optional.
    let _ = writeln!(stderr().lock(), "{line}");
}

/// Writes to stderr without a line break: the input follows in the same line.
pub(super) fn ask(text: &str) {
    let mut out = stderr().lock();
    // Progress output is optional.
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// A variable of the user's environment.
pub(super) fn variable(name: &str) -> Option<String> {
    Variables::of_process().get(name).map(str::to_owned)
}

/// Whether progress is redrawn in place; else one line is written per change.
pub(super) fn is_drawn() -> bool {
    let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
    stderr().is_terminal() && !is_dumb && variable("CI").is_none()
}

/// Whether somebody can be asked.
pub(super) fn can_ask() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Whether results are read by a person here; else by a program, or from a file.
pub(super) fn is_output_shown() -> bool {
    stdout().is_terminal()
}

/// Whether a program started here has a terminal to draw on and to read.
pub(super) fn has_terminal() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// Size of the terminal that progress is drawn on.
pub(super) fn size() -> Size {
    match rustix::termios::tcgetwinsize(stderr()) {
        Ok(found) if found.ws_col > 0 && found.ws_row > 0 => {
            Size { columns: usize::from(found.ws_col), rows: usize::from(found.ws_row) }
        }
        Ok(_) | Err(_) => Size { columns: 80, rows: 24 },
    }
}

/// While it exists, the terminal does not show what is typed: an echoed line break would move what is drawn in place.
pub(super) struct HiddenInput {
    /// The modes to restore; `None`: they were not changed.
    before: Option<Termios>,
}

impl HiddenInput {
    pub(super) fn new() -> Self {
        // Optional, as all progress output is.
        let Some(before) = has_foreground().then(|| tcgetattr(stderr()).ok()).flatten() else {
            return Self { before: None };
        };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        let is_set = tcsetattr(stderr(), OptionalActions::Now, &hidden).is_ok();
        Self { before: is_set.then_some(before) }
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Some(before) = self.before.take().filter(|_| has_foreground()) {
            let _ = tcsetattr(stderr(), OptionalActions::Now, &before);
        }
    }
}

/// Whether this process may change the modes of the terminal: a background job that tries is stopped.
fn has_foreground() -> bool {
    tcgetpgrp(stderr()).is_ok_and(|group| group == getpgrp())
}

/// The style of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub unicode: bool,
    pub colour: bool,
}

impl Style {
    pub(super) fn of_environment() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let unicode = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        let colour = variable("NO_COLOR").is_none();
        Self { unicode, colour }
    }
}
