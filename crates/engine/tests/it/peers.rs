//! The driver's other agents: what they received, their progress, their answer to a poll. Their behaviour follows from
//! the request alone, so a crash of the driver does not change it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use pes_engine::PeerCallInput;
use pes_engine::domain::ids::CallId;
use pes_engine::domain::task::{PeerFailure, PeerFailureKind, PeerReport, PeerState, TaskActionKind};
use serde_json::{Value, json};

#[derive(Default)]
pub struct Peers {
    /// By the id of the message that started it.
    pub tasks: BTreeMap<String, Remote>,
    pub seed: u64,
    /// Their behaviour by request, if it is not to be random.
    pub ways: BTreeMap<String, Way>,
    asked: u64,
}

pub struct Remote {
    pub call: CallId,
    /// Their responses, by message.
    pub heard: BTreeSet<String>,
    /// Messages that arrived again.
    pub twice: usize,
    pub looked: u32,
    pub stops: u32,
}

/// How an agent behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// How many polls it answers with `working` before anything else.
    pub slow: u32,
    /// Asks its client, and continues once it is answered.
    pub asks: bool,
    /// Wants its client to sign in somewhere, and continues after two polls.
    pub wants_login: bool,
    pub end: End,
    /// Can list its tasks.
    pub lists: bool,
    /// Accepts a message once, however often it is sent.
    pub dedupes: bool,
    /// Every n-th call fails.
    pub flaky: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum End {
    #[default]
    Done,
    Failed,
    Rejected,
    Forgotten,
    /// It is removed here once it has its task.
    Removed,
    Never,
}

impl Peers {
    pub fn way(&self, arguments: &Value) -> Way {
        let what = arguments["x"].as_str().unwrap_or_default();
        if let Some(way) = self.ways.get(what) {
            return *way;
        }
        let dice = |salt: &str, of: u64| {
            let mut hasher = DefaultHasher::new();
            (self.seed, what, salt).hash(&mut hasher);
            hasher.finish() % of
        };
        Way {
            slow: dice("slow", 3) as u32,
            asks: dice("asks", 4) == 0,
            wants_login: dice("login", 6) == 0,
            end: [End::Done, End::Done, End::Done, End::Failed, End::Rejected, End::Forgotten, End::Removed]
                [dice("end", 7) as usize],
            lists: dice("lists", 2) == 0,
            dedupes: dice("dedupes", 3) == 0,
            flaky: [0, 0, 3][dice("flaky", 3) as usize],
        }
    }

    /// What reaches the agent of an action whose response is lost.
    pub fn take_unheard(&mut self, peer_call_input: &PeerCallInput, arguments: &Value) {
        let mut hasher = DefaultHasher::new();
        (self.seed, peer_call_input.task.message_id.as_str(), "crash").hash(&mut hasher);
        let is_sent = peer_call_input.task.action.map(|action| action.what) == Some(TaskActionKind::Send);
        if is_sent && hasher.finish().is_multiple_of(2) {
            self.take(peer_call_input, arguments);
        }
    }

    fn take(&mut self, peer_call_input: &PeerCallInput, arguments: &Value) {
        let (message, way) = (peer_call_input.task.message_id.to_string(), self.way(arguments));
        if peer_call_input.task.reply.is_some() {
            if let Some(remote) = self.tasks.values_mut().find(|remote| remote.call == peer_call_input.task.call_id) {
                let is_new = remote.heard.insert(message);
                remote.twice += usize::from(!is_new && !way.dedupes);
            }
            return;
        }
        let twice = self.tasks.get(&message).map_or(0, |known| known.twice + usize::from(!way.dedupes));
        let remote =
            Remote { call: peer_call_input.task.call_id.clone(), heard: BTreeSet::new(), twice, looked: 0, stops: 0 };
        self.tasks.insert(message, remote);
    }

    pub fn perform(&mut self, peer_call_input: &PeerCallInput, arguments: &Value) -> Result<PeerReport, PeerFailure> {
        let way = self.way(arguments);
        self.asked += 1;
        let what = peer_call_input.task.action.expect("an action is under way").what;
        if way.flaky > 0 && self.asked.is_multiple_of(way.flaky) {
            return Err(failure(PeerFailureKind::Unreachable));
        }
        if way.end == End::Removed && what != TaskActionKind::Send {
            return Err(failure(PeerFailureKind::Gone));
        }
        match what {
            TaskActionKind::Send => {
                self.take(peer_call_input, arguments);
            }
            TaskActionKind::Resend if self.knows(peer_call_input) && (way.lists || way.dedupes) => {}
            TaskActionKind::Resend if way.dedupes || (peer_call_input.task.reply.is_some() && way.lists) => {
                self.take(peer_call_input, arguments);
            }
            TaskActionKind::Resend => return Err(failure(PeerFailureKind::Unknown)),
            TaskActionKind::Ask | TaskActionKind::Cancel => {}
        }
        let Some(remote) = self.tasks.values_mut().find(|remote| remote.call == peer_call_input.task.call_id) else {
            return Err(failure(PeerFailureKind::NotFound));
        };
        if what == TaskActionKind::Cancel && peer_call_input.task.remote_task_id.is_none() && !way.lists {
            return Err(failure(PeerFailureKind::NotFound));
        }
        remote.looked += u32::from(what == TaskActionKind::Ask);
        remote.stops += u32::from(what == TaskActionKind::Cancel);
        let state = match () {
            () if remote.stops > 0 => PeerState::Canceled,
            () if remote.looked <= way.slow => PeerState::Working,
            () if way.asks && remote.heard.is_empty() => PeerState::InputRequired,
            () if way.wants_login && remote.looked < way.slow + 3 => PeerState::AuthRequired,
            () => match way.end {
                End::Done => PeerState::Completed,
                End::Failed => PeerState::Failed,
                End::Rejected => PeerState::Rejected,
                End::Removed => return Err(failure(PeerFailureKind::Gone)),
                End::Forgotten => return Err(failure(PeerFailureKind::NotFound)),
                End::Never => PeerState::Working,
            },
        };
        Ok(PeerReport {
            state,
            remote_task_id: Some(format!("remote-{}", peer_call_input.task.call_id)),
            remote_context_id: None,
            message: None,
            form: None,
            question: None,
            subject: None,
            output: json!({ "did": arguments["x"] }),
            patience_ms: None,
        })
    }

    fn knows(&self, peer_call_input: &PeerCallInput) -> bool {
        let message = peer_call_input.task.message_id.as_str();
        self.tasks.contains_key(message) || self.tasks.values().any(|remote| remote.heard.contains(message))
    }

    /// How often the agent accepted a call's message.
    pub fn begun(&self, call: &CallId) -> usize {
        self.tasks.values().filter(|remote| remote.call == *call).map(|remote| 1 + remote.twice).sum()
    }
}

fn failure(kind: PeerFailureKind) -> PeerFailure {
    PeerFailure::new(kind, "the agent is away")
}
