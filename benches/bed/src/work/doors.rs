//! W9: the same answers through each compatible API and through the server's own socket, in turns.

use std::net::SocketAddr;
use std::time::Instant;

use memchr::memmem;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::bed::{Bed, Slice, Subject, Target};
use crate::load::socket::Socket;
use crate::load::{Connection, Done, post};
use crate::model::script::Knobs;
use crate::report::Book;

/// A plan of one short item, and an answer of many tokens.
const SETTINGS: &str = "[agent]\ncore = \"pes\"\nhistory_limit = 0\n";
const CLIENTS: usize = 64;
const TOKENS: usize = 2_000;
/// Digits of a token that contains its time.
const DIGITS: usize = 15;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Socket,
    Chat,
    Responses,
    AiSdk,
    AgUi,
}

impl Door {
    const ALL: [Self; 5] = [Self::Socket, Self::Chat, Self::Responses, Self::AiSdk, Self::AgUi];

    fn name(self) -> &'static str {
        match self {
            Self::Socket => "own socket",
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::AiSdk => "/api/chat",
            Self::AgUi => "/agui",
        }
    }

    /// The request on this thread.
    fn request(self, thread: &str, query: &str) -> Vec<u8> {
        let (path, body) = match self {
            Self::Socket => (format!("/threads/{thread}/process"), json!({ "query": query })),
            Self::Chat => {
                let metadata = json!({ "pes_thread": thread });
                let messages = json!([{ "role": "user", "content": query }]);
                let body = json!({ "model": "pes", "messages": messages, "stream": true, "metadata": metadata });
                (self.name().to_owned(), body)
            }
            Self::Responses => {
                let body = json!({ "model": "pes", "input": query, "stream": true, "conversation": thread });
                (self.name().to_owned(), body)
            }
            Self::AiSdk => {
                let message = json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": query }] });
                let body = json!({ "id": thread, "messages": [message], "trigger": "submit-message" });
                (self.name().to_owned(), body)
            }
            Self::AgUi => {
                let message = json!({ "id": "m", "role": "user", "content": query });
                let body = json!({
                    "threadId": thread, "runId": "r", "protocolVersion": "1.0", "messages": [message], "tools": [],
                    "context": [], "state": {}, "forwardedProps": {},
                });
                (self.name().to_owned(), body)
            }
        };
        post(&path, &body.to_string(), false)
    }
}

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let subjects = bed.servers(SETTINGS).await?;
    for round in 0..bed.rounds() {
        for subject in &subjects {
            let target = Target::Server(subject);
            let mut own: Option<f64> = None;
            for door in Door::ALL {
                let scene = Scene::open(subject.server.address, door, round).await?;
                let measured = bed.slice(&target, scene.play()).await?;
                let (cost, own) = (cost(&measured), *own.get_or_insert_with(|| cost(&measured)));
                note(book, subject, door, cost / own, measured);
            }
        }
    }
    for subject in subjects {
        subject.server.stop().await?;
    }
    Ok(())
}

fn cost(slice: &Slice) -> f64 {
    slice.cpu.as_secs_f64() / slice.done.count.max(1) as f64
}

fn note(book: &mut Book, subject: &Subject, door: Door, beside_own: f64, measured: Slice) {
    if door != Door::Socket {
        book.fact("W9", door.name(), &subject.name, "CPU beside the own socket", beside_own);
    }
    book.add("W9", door.name(), "token", &subject.name, measured);
}

/// Clients with one thread each.
struct Scene {
    door: Door,
    clients: Vec<(String, Connection, Option<Socket>)>,
}

impl Scene {
    async fn open(to: SocketAddr, door: Door, round: usize) -> Outcome<Self> {
        let mut clients = Vec::new();
        for nth in 0..CLIENTS {
            let thread = format!("w9-{round}-{}-{nth}", door as usize);
            let mut asker = Connection::open(to).await?;
            let (status, said) = asker.whole(&post("/threads", &thread_of(&thread).to_string(), false)).await?;
            if status != 201 {
                return Err(format!("{status} {}", String::from_utf8_lossy(&said)).into());
            }
            let reader = match door {
                Door::Socket => Some(watching(to, &thread).await?),
                Door::Chat | Door::Responses | Door::AiSdk | Door::AgUi => None,
            };
            clients.push((thread, asker, reader));
        }
        Ok(Self { door, clients })
    }

    /// Every client receives its whole answer.
    async fn play(self) -> Outcome<Done> {
        let knobs = Knobs { items: 1, tokens: TOKENS, item_tokens: Some(4), is_timed: true, ..Knobs::default() };
        let query = format!("Say much, {}", knobs.words());
        let began = Instant::now();
        let mut hearing: JoinSet<Result<usize, String>> = JoinSet::new();
        let text = |error: crate::Failure| error.to_string();
        for (thread, mut asker, reader) in self.clients {
            let ask = self.door.request(&thread, &query);
            hearing.spawn_local(async move {
                let mut heard = Heard::default();
                let status = asker.ask(&ask, |part| heard.hears(part)).await.map_err(text)?;
                if !matches!(status, 200 | 202) {
                    return Err(format!("asked: {status}"));
                }
                if let Some(reader) = reader {
                    follow(reader, &mut heard).await.map_err(text)?;
                }
                Ok(heard.tokens)
            });
        }
        let mut done = Done::default();
        while let Some(ended) = hearing.join_next().await {
            let heard = ended??;
            // Some doors repeat the whole answer at the end.
            if heard < TOKENS {
                return Err(format!("{} of {TOKENS} tokens were heard at {}", heard, self.door.name()).into());
            }
            done.count += TOKENS as u64;
        }
        done.took = began.elapsed();
        Ok(done)
    }
}

fn thread_of(id: &str) -> Value {
    json!({ "threadId": id })
}

async fn watching(to: SocketAddr, thread: &str) -> Outcome<Socket> {
    let mut reader = Socket::open(to, &format!("/threads/{thread}/events?after=latest")).await?;
    while memmem::find(&reader.next().await?, br#""caught_up""#).is_none() {}
    Ok(reader)
}

async fn follow(mut reader: Socket, heard: &mut Heard) -> Outcome<()> {
    loop {
        let frame = reader.next().await?;
        heard.hears(&frame);
        if memmem::find(&frame, br#""type":"RUN_FINISHED""#).is_some() {
            return Ok(());
        }
    }
}

/// Counts the tokens in a stream, wherever they are in it and however it is split.
#[derive(Default)]
struct Heard {
    tokens: usize,
    digits: usize,
}

impl Heard {
    fn hears(&mut self, part: &[u8]) {
        for byte in part {
            if byte.is_ascii_digit() {
                self.digits += 1;
                continue;
            }
            self.tokens += usize::from(self.digits == DIGITS);
            self.digits = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_however_they_come() {
        let mut heard = Heard::default();
        for part in ["000000000000", "007 000000000000009\"} 1700000000000 ", "1234567890123456 "] {
            heard.hears(part.as_bytes());
        }
        assert_eq!(heard.tokens, 2);
    }
}
