//! Lines typed at the terminal. The whole command has one reader. Each caller borrows it, so a line whose caller stopped
//! waiting goes to the next caller.

use std::io::{ErrorKind, read_to_string, stdin};
use std::sync::mpsc;
use std::thread;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::cli::Error;

/// All text on stdin.
pub(super) fn all_of_stdin() -> Result<String, Error> {
    read_to_string(stdin()).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Error::Usage("What is on stdin is not UTF-8.".to_owned()),
        _ => Error::Failed(format!("stdin cannot be read: {error}")),
    })
}

/// Reads only on demand, so that an editor has the terminal to itself.
pub(super) struct Input {
    asks: mpsc::Sender<()>,
    /// One entry per request; `None`: the input is closed.
    lines: UnboundedReceiver<Option<String>>,
    /// Whether a requested line has not been handed over yet.
    is_asked: bool,
}

impl Input {
    pub fn of_terminal() -> Self {
        Self::of(|| {
            let mut text = String::new();
            let read = stdin().read_line(&mut text);
            read.is_ok_and(|bytes| bytes > 0).then_some(text)
        })
    }

    /// An input from the results of `read`, which may block.
    pub(super) fn of(mut read: impl FnMut() -> Option<String> + Send + 'static) -> Self {
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
        Self { asks, lines, is_asked: false }
    }

    /// The next line; `None`: the input is closed. Cancel safe: no line is lost.
    pub async fn line(&mut self) -> Option<String> {
        if !self.is_asked {
            self.asks.send(()).ok()?;
            self.is_asked = true;
        }
        let line = self.lines.recv().await.flatten();
        self.is_asked = false;
        line
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

#[cfg(test)]
mod tests;
