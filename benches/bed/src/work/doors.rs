//! W9: 64 streamed answers at once, each on a thread of its own, over the server's own WebSocket, over OpenAI's chat
//! completions, and over the AI SDK's chat: what a door costs beside what is behind it.

use std::time::Instant;

use memchr::memmem;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::bed::{Bed, Subject, Target};
use crate::load::socket::{Socket, tokens};
use crate::load::{Connection, Done, post};
use crate::model::script::Knobs;
use crate::report::Book;

/// One model call, whose text is the answer.
const SETTINGS: &str = "[agent]\ncore = \"react\"\nhistory_limit = 0\n";
const STREAMS: usize = 64;

struct Case {
    name: &'static str,
    tokens: usize,
    delay_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Socket,
    Chat,
    UseChat,
}

const DOORS: [Door; 3] = [Door::Socket, Door::Chat, Door::UseChat];

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let subjects = bed.servers(SETTINGS).await?;
    let part = if bed.is_quick { 4 } else { 1 };
    let cases = [
        Case { name: "64 streams, no pause", tokens: 2_000, delay_us: 0 },
        Case { name: "64 streams, 5 ms", tokens: 2_000 / part, delay_us: 5_000 },
    ];
    for round in 0..if bed.is_quick { 3 } else { 5 } {
        for case in &cases {
            for subject in &subjects {
                let mut own = 0.0;
                for door in DOORS {
                    let cpu = streams(bed, book, subject, case, door, round).await?;
                    match door {
                        Door::Socket => own = cpu,
                        Door::Chat | Door::UseChat => {
                            let name = format!("{}, × WebSocket", door.name());
                            book.fact("W9", case.name, &subject.name, &name, cpu / own);
                        }
                    }
                }
            }
        }
    }
    for subject in subjects {
        subject.server.stop().await?;
    }
    Ok(())
}

/// All streams by way of one door. Returns what the server spent.
async fn streams(bed: &Bed, book: &mut Book, subject: &Subject, case: &Case, door: Door, round: usize) -> Outcome<f64> {
    let target = Target::Server(subject);
    let mut open = Vec::new();
    for nth in 0..STREAMS {
        let thread = format!("w9-{round}-{}-{}-{nth}", case.delay_us, door.name());
        open.push(Open::one(target.address(bed), thread, door).await?);
    }
    let slice = bed.slice(&target, play(open, case)).await?;
    let cpu = slice.cpu.as_secs_f64();
    book.add("W9", case.name, "run", &format!("{} {}", subject.name, door.name()), slice);
    Ok(cpu)
}

/// Whoever asks, and the socket where the answer is not that of the request.
struct Open {
    thread: String,
    door: Door,
    asker: Connection,
    reader: Option<Socket>,
}

impl Open {
    async fn one(to: std::net::SocketAddr, thread: String, door: Door) -> Outcome<Self> {
        let mut asker = Connection::open(to).await?;
        // A thread is there once it was asked something.
        let (status, said) = asker.whole(&process(&thread, &Knobs::default(), true)).await?;
        if status != 200 {
            return Err(format!("{status} {}", String::from_utf8_lossy(&said)).into());
        }
        let mut reader = None;
        if door == Door::Socket {
            let socket = reader.insert(Socket::open(to, &format!("/threads/{thread}/events?after=latest")).await?);
            while memmem::find(&socket.next().await?, br#""caught_up""#).is_none() {}
        }
        Ok(Self { thread, door, asker, reader })
    }

    /// Asks, and reads the answer to its end: how many tokens it had.
    async fn run(mut self, knobs: &Knobs) -> Outcome<usize> {
        if let Some(mut reader) = self.reader {
            let status = self.asker.ask(&process(&self.thread, knobs, false), |_| {}).await?;
            if status != 202 {
                return Err(format!("asked: {status}").into());
            }
            return served(&mut reader).await;
        }
        let (status, said) = self.asker.whole(&self.door.ask(&self.thread, knobs)).await?;
        if status != 200 || !said.ends_with(b"data: [DONE]\n\n") {
            return Err(format!("{status} {}", String::from_utf8_lossy(&said)).into());
        }
        Ok(self.door.tokens(&said))
    }
}

/// Every reader hears every token, or the run of the bed ends.
async fn play(open: Vec<Open>, case: &Case) -> Outcome<Done> {
    let knobs = Knobs { tokens: case.tokens, delay_us: case.delay_us, is_timed: true, ..Knobs::default() };
    let began = Instant::now();
    let mut streams = JoinSet::new();
    for one in open {
        let knobs = knobs.clone();
        streams.spawn_local(async move {
            let tokens = one.run(&knobs).await.map_err(|error| error.to_string())?;
            Ok::<_, String>((tokens, began.elapsed().as_secs_f64() * 1_000.0))
        });
    }
    let mut done = Done::default();
    while let Some(ended) = streams.join_next().await {
        let (tokens, took) = ended??;
        if tokens != case.tokens {
            return Err(format!("{tokens} tokens instead of {}", case.tokens).into());
        }
        done.count += 1;
        done.latencies.push(took);
    }
    done.took = began.elapsed();
    Ok(done)
}

async fn served(reader: &mut Socket) -> Outcome<usize> {
    let mut heard = 0;
    loop {
        let frame = reader.next().await?;
        match tokens(&frame) {
            Some((count, _)) => heard += count,
            None if memmem::find(&frame, br#""type":"RUN_FINISHED""#).is_some() => return Ok(heard),
            None => {}
        }
    }
}

fn process(thread: &str, knobs: &Knobs, waits: bool) -> Vec<u8> {
    let body = json!({ "query": format!("Say much, {}", knobs.words()) }).to_string();
    post(&format!("/threads/{thread}/process"), &body, waits)
}

impl Door {
    fn name(self) -> &'static str {
        match self {
            Self::Socket => "WebSocket",
            Self::Chat => "chat",
            Self::UseChat => "useChat",
        }
    }

    fn ask(self, thread: &str, knobs: &Knobs) -> Vec<u8> {
        let text = format!("Say much, {}", knobs.words());
        let (path, body): (&str, Value) = match self {
            Self::Socket => return process(thread, knobs, false),
            Self::Chat => (
                "/v1/chat/completions",
                json!({ "model": "react", "stream": true, "messages": [{ "role": "user", "content": text }],
                    "metadata": { "pes_thread": thread } }),
            ),
            Self::UseChat => (
                "/api/chat",
                json!({ "id": thread, "trigger": "submit-message",
                    "messages": [{ "id": "m", "role": "user", "parts": [{ "type": "text", "text": text }] }] }),
            ),
        };
        post(path, &body.to_string(), false)
    }

    /// A timed token is 15 digits; blanks stand between two.
    fn tokens(self, said: &[u8]) -> usize {
        let before: &[u8] = match self {
            Self::Chat => br#""content":""#,
            Self::Socket | Self::UseChat => br#""type":"text-delta","#,
        };
        let mut text = Vec::new();
        for at in memmem::find_iter(said, before) {
            let rest = &said[at + before.len()..];
            let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
            let begins = match self {
                Self::Chat => Some(0),
                Self::Socket | Self::UseChat => memmem::find(line, br#""delta":""#).map(|at| at + 9),
            };
            let piece = begins.map_or(&[][..], |begins| &line[begins..]);
            text.extend_from_slice(piece.split(|byte| *byte == b'"').next().unwrap_or_default());
        }
        text.split(|byte| *byte == b' ').filter(|word| word.len() == 15).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_in_the_words_of_each_door() {
        let chat = b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"content\":\"000000000000007\"}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"content\":\" 000000000000008 000000000000009\"}}]}\n\n";
        assert_eq!(Door::Chat.tokens(chat), 3);
        let chat = b"data: {\"type\":\"text-delta\",\"id\":\"a\",\"delta\":\"0000000000\"}\n\n\
            data: {\"type\":\"text-delta\",\"id\":\"a\",\"delta\":\"00007 000000000000008\"}\n\n";
        assert_eq!(Door::UseChat.tokens(chat), 2);
    }
}
