//! Clients that follow the log of a thread at any process, and reconnect with what they have.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use pes::domain::ids::ThreadPk;
use pes::store::ThreadRow;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::World;
use super::dice::hash;
use super::server::{Ask, Door, bearer};
use crate::support::http::PATIENCE;

/// The processes that take requests.
pub type Doors = watch::Sender<Vec<Door>>;

/// What a stream says: the event, and its data. It ends when the connection does.
pub type Frames = BoxStream<'static, (String, Value)>;

#[derive(Clone, Copy, Debug)]
pub enum Wire {
    Socket,
    Events,
}

/// What a reader has.
#[derive(Clone, Debug)]
struct Heard {
    /// The seq of the last observation, or of what was deleted.
    last: i64,
    log: Vec<Value>,
    /// Where the log began when the reader came.
    gaps: Vec<i64>,
    /// How the runs stand by the frames of this connection.
    runs: BTreeMap<String, String>,
    trouble: Option<String>,
}

pub struct Reader {
    pub pk: ThreadPk,
    about: String,
    heard: watch::Receiver<Heard>,
    reconnect: watch::Sender<()>,
    task: AbortHandle,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    /// A new reader of a thread.
    pub async fn begin_reader(&mut self) {
        let (tenant, thread) = (self.dice.pick(2), ["a", "b", "c", "d", "e"][self.dice.pick(5)]);
        let Some(row) = self.row(tenant, thread).await else { return };
        let wire = [Wire::Socket, Wire::Events][self.dice.pick(2)];
        let after = [0, row.min_seq - 1, row.last_seq][self.dice.pick(3)];
        let about = format!("reader of {tenant}/{thread} after {after} by {wire:?}");
        self.note(about.clone());
        let heard = Heard { last: after, log: Vec::new(), gaps: Vec::new(), runs: BTreeMap::new(), trouble: None };
        let (heard, receiver) = watch::channel(heard);
        let (reconnect, told) = watch::channel(());
        let (doors, path) = (self.doors.clone(), format!("/threads/{thread}/events"));
        let task = tokio::spawn(async move { read(&doors, wire, tenant, &path, &heard, told).await }).abort_handle();
        self.readers.push(Reader { pk: row.pk, about, heard: receiver, reconnect, task });
    }

    /// A reader connects anew, at any process.
    pub fn reconnect(&mut self) {
        if let Some(reader) = self.dice.one_of(&self.readers) {
            self.notes.borrow_mut().push(format!("{} connects anew", reader.about));
            reader.reconnect.send_replace(());
        }
    }

    /// Every reader of a thread has its log: each observation once, in order, as any process shows it.
    pub async fn check_readers(&self, tenant: usize, row: &ThreadRow, runs: &[Value]) {
        let mut log = Vec::new();
        while self.readers.iter().any(|reader| reader.pk == row.pk) {
            let after = log.last().map_or(row.min_seq - 1, |told: &Value| told["seq"].as_i64().unwrap());
            let page = self.list(tenant, &format!("/threads/{}/events?limit=1000&after={after}", row.thread_id)).await;
            if page.is_empty() {
                break;
            }
            log.extend(page);
        }
        for reader in self.readers.iter().filter(|reader| reader.pk == row.pk) {
            let is_status = |(run, status): (&String, &String)| {
                runs.iter().all(|known| known["runId"] != **run || known["status"] == **status)
            };
            let has_all = |heard: &Heard| heard.last >= row.last_seq && heard.runs.iter().all(is_status);
            let mut heard = reader.heard.clone();
            let is_over = |heard: &Heard| heard.trouble.is_some() || has_all(heard);
            let is_late = timeout(PATIENCE, heard.wait_for(is_over)).await.is_err();
            let heard = reader.heard.borrow();
            assert!(heard.trouble.is_none(), "{}: {:?}", reader.about, heard.trouble);
            assert!(!is_late, "{} has {} of {}, {:?}", reader.about, heard.last, row.last_seq, heard.runs);
            assert!(heard.gaps.iter().all(|gap| *gap <= row.min_seq), "{}: {:?}", reader.about, heard.gaps);
            let is_there = |told: &&Value| told["seq"].as_i64().is_some_and(|seq| seq >= row.min_seq);
            for told in heard.log.iter().filter(is_there) {
                let stored = log.iter().find(|stored| stored["seq"] == told["seq"]);
                assert_eq!(stored, Some(told), "{}", reader.about);
            }
        }
    }
}

/// Reads for ever.
async fn read(
    doors: &Doors,
    wire: Wire,
    tenant: usize,
    path: &str,
    heard: &watch::Sender<Heard>,
    mut told: watch::Receiver<()>,
) {
    loop {
        let after = heard.borrow().last;
        let door = any(doors).await;
        heard.send_modify(|heard| heard.runs.clear());
        let reading = async {
            let Some(mut frames) = connect(&door, wire, tenant, &format!("{path}?after={after}")).await else {
                tokio::task::yield_now().await;
                return;
            };
            while let Some((event, data)) = frames.next().await {
                heard.send_modify(|heard| heard.take(&event, data));
            }
        };
        tokio::select! {
            () = reading => {}
            () = door.gone.cancelled() => {}
            changed = told.changed() => if changed.is_err() { return },
        }
    }
}

impl Heard {
    fn take(&mut self, event: &str, data: Value) {
        let wrong = match event {
            "observation" => {
                let seq = data["seq"].as_i64().unwrap();
                let wrong = (seq != self.last + 1).then(|| format!("{seq} after {}", self.last));
                self.last = seq;
                self.log.push(data);
                wrong
            }
            "gap" => {
                let from = data["fromSeq"].as_i64().unwrap();
                let wrong = (from <= self.last).then(|| format!("a gap from {from} after {}", self.last));
                // Otherwise the reader was slow, or the store did not answer, and nothing is missing.
                if from > self.last + 1 {
                    self.gaps.push(from);
                }
                self.last = from - 1;
                wrong
            }
            "caught_up" => {
                let seq = data["seq"].as_i64().unwrap();
                (seq != self.last).then(|| format!("caught up at {seq} after {}", self.last))
            }
            "run" => {
                let text = |member: &str| data[member].as_str().unwrap().to_owned();
                self.runs.insert(text("runId"), text("status"));
                None
            }
            _ => None,
        };
        if self.trouble.is_none() {
            self.trouble = wrong;
        }
    }
}

/// Any process that takes requests.
pub async fn any(doors: &Doors) -> Door {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut doors = doors.subscribe();
    let open = doors.wait_for(|doors| !doors.is_empty()).await.expect("the test runs");
    open[hash(NEXT.fetch_add(1, Ordering::SeqCst)) as usize % open.len()].clone()
}

/// `None`: the process does not take it.
pub async fn connect(door: &Door, wire: Wire, tenant: usize, path: &str) -> Option<Frames> {
    match wire {
        Wire::Socket => {
            let stream = TcpStream::connect(door.address).await.ok()?;
            let mut request = format!("ws://{}{path}", door.address).into_client_request().unwrap();
            request.headers_mut().insert("authorization", bearer(tenant).parse().unwrap());
            let (socket, _) = client_async(request, stream).await.ok()?;
            let frames = socket.take_while(|message| ready(message.is_ok())).filter_map(|message| {
                let text = message.ok().filter(Message::is_text).and_then(|message| message.into_text().ok());
                ready(text.map(|text| {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    (frame["event"].as_str().unwrap().to_owned(), frame["data"].clone())
                }))
            });
            Some(frames.boxed())
        }
        Wire::Events => {
            let answer = door.open(&Ask::get(tenant, path).header("accept", "text/event-stream")).await;
            if answer.status() != 200 {
                return None;
            }
            let pieces = answer.into_body().into_data_stream().take_while(|piece| ready(piece.is_ok()));
            let mut text = String::new();
            let frames = pieces.flat_map(move |piece| {
                text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
                let mut frames = Vec::new();
                while let Some((block, rest)) = text.split_once("\n\n") {
                    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                    let event = field("event: ").unwrap_or_default().to_owned();
                    frames.push((event, serde_json::from_str(field("data: ").unwrap()).unwrap()));
                    text = rest.to_owned();
                }
                futures_util::stream::iter(frames)
            });
            Some(frames.boxed())
        }
    }
}
