//! The lines that somebody types here. One reader for the whole command: whoever waits for a line borrows it, so a line
//! that one of them no longer waits for comes to the next.

use std::io::stdin;
use std::sync::mpsc;
use std::thread;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Reads only while somebody waits, so that an editor has the terminal to itself.
pub(super) struct Input {
    asks: mpsc::Sender<()>,
    /// One for each time that it was asked; `None`: the input is closed.
    lines: UnboundedReceiver<Option<String>>,
    /// Whether a line was asked for that has not been handed over.
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

    /// What `read` gives, which may wait for it.
    pub(super) fn of(mut read: impl FnMut() -> Option<String> + Send + 'static) -> Self {
        let (asks, asked) = mpsc::channel();
        let (tell, lines) = unbounded_channel();
        // Nobody waits for this thread: a read of a terminal cannot be broken off.
        thread::spawn(move || {
            while asked.recv().is_ok() {
                if tell.send(read()).is_err() {
                    break;
                }
            }
        });
        Self { asks, lines, is_asked: false }
    }

    /// The next line; `None`: the input is closed. May be dropped and called again: no line is lost.
    pub async fn line(&mut self) -> Option<String> {
        if !self.is_asked {
            self.asks.send(()).ok()?;
            self.is_asked = true;
        }
        let line = self.lines.recv().await.flatten();
        self.is_asked = false;
        line
    }

    /// Forgets what was typed up to now, also a line that is not finished: it was not meant for what is asked next.
    pub fn forget(&mut self) {
        // Without a terminal there is nothing that somebody types.
        let _ = rustix::termios::tcflush(stdin(), rustix::termios::QueueSelector::IFlush);
        if self.lines.try_recv().is_ok() {
            self.is_asked = false;
        }
    }
}

#[cfg(test)]
mod tests;
