//! What the terminal supports, and output to it.

use std::io::{IsTerminal as _, Write as _, stderr, stdin, stdout};
use std::sync::{Mutex, Once, PoisonError};

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

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

/// While it exists, the terminal does not show what is typed: an echoed line break would move what is drawn in place. One
/// exists at a time.
pub(super) struct HiddenInput;

/// The modes to restore; `None`: they were not changed.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The exit code of a process that SIGTERM ended, as shells report it.
const TERMINATED: i32 = 128 + 15;

impl HiddenInput {
    pub(super) fn new() -> Self {
        // Optional, as all progress output is.
        if let Some(before) = has_foreground().then(|| tcgetattr(stderr()).ok()).flatten() {
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
            restore_on_sigterm();
            let _ = tcsetattr(stderr(), OptionalActions::Now, &hidden);
        }
        Self
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before.filter(|_| has_foreground()) {
        let _ = tcsetattr(stderr(), OptionalActions::Now, &before);
    }
}

/// From now on SIGTERM ends this process only after the modes are restored: not every shell does that itself.
fn restore_on_sigterm() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let Ok(mut terminations) = signal(SignalKind::terminate()) else { return };
        tokio::spawn(async move {
            if terminations.recv().await.is_some() {
                restore();
                std::process::exit(TERMINATED);
            }
        });
    });
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
