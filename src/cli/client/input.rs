//! Lines typed at the terminal. The whole command has one reader. Each caller borrows it, so a line whose caller stopped
//! waiting goes to the next caller.

use std::io::{self, ErrorKind, IsTerminal as _, PipeReader, PipeWriter, pipe, read_to_string, stdin};
use std::sync::mpsc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::cli::Error;

/// All text on stdin.
pub(super) fn all_of_stdin() -> Result<String, Error> {
    read_to_string(stdin()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidData => Error::Usage("What is on stdin is not UTF-8.".to_owned()),
        _ => Error::Failed(format!("stdin cannot be read: {error}")),
    }
}

/// `None`: the input is closed. A line that is no text is an `Error::Usage`.
pub(super) type Line = Result<Option<String>, Error>;

/// Reads only on demand, so that an editor has the terminal to itself.
pub(super) struct Input {
    asks: mpsc::Sender<()>,
    /// One entry per request.
    lines: UnboundedReceiver<Line>,
    /// Whether a requested line has not been handed over yet.
    is_asked: bool,
    /// Closed when the input is given up.
    holds: Option<PipeWriter>,
}

impl Input {
    pub fn of_terminal() -> Self {
        // Of another input, the buffer may already hold the next line. Without a pipe, reading is not given up.
        let (held, holds) = stdin().is_terminal().then(pipe).and_then(Result::ok).unzip();
        let input = Self::of(move || {
            if held.as_ref().is_some_and(|held| !has_line(held)) {
                return Ok(None);
            }
            let mut text = String::new();
            let bytes = stdin().read_line(&mut text).map_err(|error| unreadable(&error))?;
            Ok((bytes > 0).then_some(text))
        });
        Self { holds, ..input }
    }

    /// An input from the results of `read`, which may block.
    pub(super) fn of(mut read: impl FnMut() -> Line + Send + 'static) -> Self {
        let (asks, asked) = mpsc::channel();
        let (tell, lines) = unbounded_channel();
        // The thread is never joined: a terminal read cannot be cancelled.
        thread::spawn(move || {
            while asked.recv().is_ok() {
                if tell.send(read()).is_err() {
                    break;
                }
            }
        });
        Self { asks, lines, is_asked: false, holds: None }
    }

    /// The next line. Cancel safe: no line is lost.
    pub async fn line(&mut self) -> Line {
        if !self.is_asked {
            if self.asks.send(()).is_err() {
                return Ok(None);
            }
            self.is_asked = true;
        }
        let line = self.lines.recv().await.unwrap_or(Ok(None));
        self.is_asked = false;
        line
    }

    /// Reads no further line of the terminal, also if one was requested: the next reader gets it.
    pub fn give_up(&mut self) {
        drop(self.holds.take());
    }

    /// Discards pending input, including an unfinished line: it was not meant for the next question.
    pub fn forget(&mut self) {
        // Fails without a terminal, where nobody types.
        let _ = rustix::termios::tcflush(stdin(), rustix::termios::QueueSelector::IFlush);
        if self.lines.try_recv().is_ok() {
            self.is_asked = false;
        }
    }
}

/// Waits until the terminal has a line or is closed; `false`: the input was given up before.
fn has_line(held: &PipeReader) -> bool {
    let terminal = stdin();
    let mut both = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(held, PollFlags::IN)];
    // If it cannot be polled, it is read at once.
    let _ = retry_on_intr(|| poll(&mut both, None));
    both[1].revents().is_empty()
}

#[cfg(test)]
mod tests;
