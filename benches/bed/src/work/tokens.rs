//! W2: one answer of many tokens, to 64 sockets that each watch their own thread, and to 1,000 that watch the same one.
//! Compared with the same stream through the bare proxy, and with a bare broadcast of as many frames.

use std::rc::Rc;
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Outcome;
use crate::bed::{Bed, Target};
use crate::load::socket::{Socket, tokens};
use crate::load::{Connection, Done, get, post};
use crate::model::script::Knobs;
use crate::process::monotonic_us;
use crate::report::Book;

/// One model call, whose text is the answer.
const SETTINGS: &str = "[agent]\ncore = \"react\"\nhistory_limit = 0\n";

struct Case {
    name: &'static str,
    threads: usize,
    readers: usize,
    tokens: usize,
    delay_us: u64,
    /// Delay between two requesters: if all start at once, their first tokens delay each other.
    apart: Duration,
}

/// No delay between tokens.
const NO_PAUSE: Case =
    Case { name: "64 sockets, no pause", threads: 64, readers: 1, tokens: 2_000, delay_us: 0, apart: Duration::ZERO };

/// What a reader received.
#[derive(Default)]
struct Heard {
    tokens: usize,
    lines: usize,
    /// From the model's write to the reader, for each frame, in milliseconds.
    delays: Vec<f64>,
}

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let subjects = bed.servers(SETTINGS).await?;
    let part = if bed.is_quick { 4 } else { 1 };
    let cases = [
        NO_PAUSE,
        Case {
            name: "64 sockets, 5 ms",
            threads: 64,
            readers: 1,
            tokens: 2_000 / part,
            delay_us: 5_000,
            apart: Duration::from_millis(10),
        },
        Case {
            name: "1 thread, 1,000 sockets",
            threads: 1,
            readers: 1_000,
            tokens: 400 / part,
            delay_us: 20_000,
            apart: Duration::ZERO,
        },
    ];
    let targets: Vec<Target<'_>> = std::iter::once(Target::Proxy).chain(subjects.iter().map(Target::Server)).collect();
    let rounds = if bed.is_quick { 2 } else { 5 };
    for round in 0..rounds {
        for case in &cases {
            for target in &targets {
                let scene = Scene::open(bed, target, case, round).await?;
                let mut first = Vec::new();
                let measured = bed.slice(target, scene.play(case, &mut first)).await?;
                let expected = case.threads * case.readers * case.tokens;
                if measured.done.count != expected as u64 {
                    book.fact(
                        "W2",
                        case.name,
                        &target.name(),
                        "tokens lost",
                        expected as f64 - measured.done.count as f64,
                    );
                }
                for delay in first {
                    book.fact("W2", case.name, &target.name(), "first token, ms behind the model", delay);
                }
                book.add("W2", case.name, "token", &target.name(), measured);
            }
        }
    }
    drop(targets);
    for subject in subjects {
        subject.server.stop().await?;
    }
    Ok(())
}

/// The token rate of the model itself.
pub async fn ceiling(bed: &Bed, book: &mut Book) -> Outcome<()> {
    for round in 0..3 {
        let scene = Scene::open(bed, &Target::Model, &NO_PAUSE, round).await?;
        let measured = bed.slice(&Target::Model, scene.play(&NO_PAUSE, &mut Vec::new())).await?;
        book.add("model tokens", NO_PAUSE.name, "token", "model", measured);
    }
    Ok(())
}

/// The waiting readers and the requesters.
enum Scene {
    /// Through the proxy each requester is its own reader.
    Proxied {
        askers: Vec<Connection>,
        listeners: Vec<Socket>,
    },
    Served {
        askers: Vec<(String, Connection)>,
        readers: Vec<Socket>,
    },
}

impl Scene {
    async fn open(bed: &Bed, target: &Target<'_>, case: &Case, round: usize) -> Outcome<Self> {
        let to = target.address(bed);
        match target {
            Target::Model | Target::Proxy => {
                let (mut askers, mut listeners) = (Vec::new(), Vec::new());
                for _ in 0..case.threads {
                    askers.push(Connection::open(to).await?);
                }
                for _ in 0..if case.readers > 1 { case.readers } else { 0 } {
                    listeners.push(Socket::listen(to, &get("/listen")).await?);
                }
                Ok(Self::Proxied { askers, listeners })
            }
            Target::Parts(..) => Err("nobody watches the parts of a run".into()),
            Target::Server(_) => {
                let (mut askers, mut readers) = (Vec::new(), Vec::new());
                for nth in 0..case.threads {
                    let thread = format!("w2-{round}-{}-{}-{nth}", case.threads, case.delay_us);
                    let mut asker = Connection::open(to).await?;
                    // The first request creates the thread.
                    let (status, said) = asker.whole(&ask(&thread, &Knobs::default(), true)).await?;
                    if status != 200 {
                        return Err(format!("{status} {}", String::from_utf8_lossy(&said)).into());
                    }
                    for _ in 0..case.readers {
                        let path = format!("/threads/{thread}/events?after=latest");
                        let mut reader = Socket::open(to, &path).await?;
                        while memmem::find(&reader.next().await?, br#""caught_up""#).is_none() {}
                        readers.push(reader);
                    }
                    askers.push((thread, asker));
                }
                Ok(Self::Served { askers, readers })
            }
        }
    }

    /// Every reader receives every token. `first` gets the delay of each reader's first token.
    async fn play(self, case: &Case, first: &mut Vec<f64>) -> Outcome<Done> {
        let knobs = Knobs { tokens: case.tokens, delay_us: case.delay_us, is_timed: true, ..Knobs::default() };
        let began = Instant::now();
        let mut hearing: JoinSet<Result<Heard, String>> = JoinSet::new();
        let text = |error: crate::Failure| error.to_string();
        match self {
            Self::Proxied { askers, listeners } => {
                let path = if listeners.is_empty() { "/v1/chat/completions" } else { "/broadcast" };
                let is_alone = listeners.is_empty();
                for (mut asker, at) in askers.into_iter().zip(0..) {
                    let (ask, wait) = (call(path, &knobs), case.apart * at);
                    hearing.spawn_local(async move {
                        let mut heard = Heard::default();
                        sleep(wait).await;
                        asker
                            .ask(&ask, |part| {
                                if is_alone {
                                    heard.proxied(part)
                                }
                            })
                            .await
                            .map_err(text)?;
                        Ok(heard.counted())
                    });
                }
                for listener in listeners {
                    let wanted = case.tokens;
                    hearing.spawn_local(async move { listened(listener, wanted).await.map_err(text) });
                }
            }
            Self::Served { askers, readers } => {
                for reader in readers {
                    hearing.spawn_local(async move { served(reader).await.map_err(text) });
                }
                let knobs = Rc::new(knobs);
                for ((thread, mut asker), at) in askers.into_iter().zip(0..) {
                    let (knobs, wait) = (knobs.clone(), case.apart * at);
                    hearing.spawn_local(async move {
                        sleep(wait).await;
                        let status = asker.ask(&ask(&thread, &knobs, false), |_| {}).await.map_err(text)?;
                        if status == 202 { Ok(Heard::default()) } else { Err(format!("asked: {status}")) }
                    });
                }
            }
        }
        let mut done = Done::default();
        while let Some(ended) = hearing.join_next().await {
            let heard = ended??;
            done.count += heard.tokens as u64;
            first.extend(heard.delays.first());
            done.latencies.extend(heard.delays);
        }
        done.took = began.elapsed();
        Ok(done)
    }
}

impl Heard {
    fn hear(&mut self, count: usize, said_at: u64) {
        self.tokens += count;
        if said_at > 0 {
            self.delays.push(monotonic_us().saturating_sub(said_at) as f64 / 1_000.0);
        }
    }

    /// A piece of an answer as the model wrote it: two line ends per event.
    fn proxied(&mut self, part: &[u8]) {
        const BEFORE: &[u8] = br#""delta":{"content":""#;
        self.lines += memchr::memchr_iter(b'\n', part).count();
        // An event that a read splits has no measured delay.
        for at in memmem::find_iter(part, BEFORE) {
            let digits = part.get(at + BEFORE.len()..at + BEFORE.len() + 15);
            let said = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            self.hear(0, said.unwrap_or(0));
        }
    }

    /// Called after the last piece.
    fn counted(mut self) -> Self {
        /// Events without tokens: the finish reason, the usage, the end.
        const NO_TOKENS: usize = 3;
        self.tokens += (self.lines / 2).saturating_sub(NO_TOKENS);
        self
    }
}

async fn served(mut reader: Socket) -> Outcome<Heard> {
    let mut heard = Heard::default();
    loop {
        let frame = reader.next().await?;
        match tokens(&frame) {
            Some((count, said_at)) => heard.hear(count, said_at),
            None if memmem::find(&frame, br#""type":"RUN_FINISHED""#).is_some() => return Ok(heard),
            None => {}
        }
    }
}

async fn listened(mut listener: Socket, wanted: usize) -> Outcome<Heard> {
    let mut heard = Heard::default();
    while heard.tokens < wanted {
        listener.next().await?;
        heard.tokens += 1;
    }
    Ok(heard)
}

fn ask(thread: &str, knobs: &Knobs, waits: bool) -> Vec<u8> {
    let body = json!({ "query": format!("Say much, {}", knobs.words()) }).to_string();
    post(&format!("/threads/{thread}/process"), &body, waits)
}

fn call(path: &str, knobs: &Knobs) -> Vec<u8> {
    let system = json!({ "role": "system", "content": "You answer the user. ".repeat(200) });
    let user = json!({ "role": "user", "content": knobs.words() });
    post(path, &json!({ "model": "bed", "messages": [system, user], "stream": true }).to_string(), false)
}
