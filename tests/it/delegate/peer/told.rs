//! What the agent was told, and how it is to behave.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The parameters of `SendMessage` calls, in order.
    pub sent: Vec<Value>,
    /// The ids of its tasks, by the ids of the messages that started them.
    pub begun: BTreeMap<String, String>,
    /// The ids of later messages, with their tasks' ids.
    pub replies: Vec<(String, String)>,
    pub asked: usize,
    pub cancelled: Vec<String>,
    /// The `Authorization` of the last call.
    pub authorization: Option<String>,
    /// How many messages it accepts without a response.
    pub silent: usize,
    /// Requests are to be retried after this many seconds.
    pub busy: Option<u32>,
    /// Its redirect target, and the address in its card.
    pub moved: Option<SocketAddr>,
    /// It accepts no key.
    pub locked: bool,
    /// How many requests it redirected or refused.
    pub refused: usize,
    pub elsewhere: Option<SocketAddr>,
    /// The status of all its tasks, as in 1.0 without the prefix.
    pub state: &'static str,
    /// Its card is answered with 404.
    pub has_no_card: bool,
    /// The `If-None-Match` headers of requests for its card.
    pub cards: Vec<Option<String>>,
    /// Streams of its tasks: all that were started, and those still open.
    pub streams: (usize, usize),
    /// It cannot call back, but streams its tasks.
    pub can_stream: bool,
    /// Its streams end after their first event.
    pub cuts: bool,
    /// How many responses to messages are lost, though the messages are accepted.
    pub loses: usize,
    /// The tenant that its card names: its tasks exist for no other.
    pub tenant: Option<&'static str>,
    /// How often its tasks were listed.
    pub listed: usize,
    /// Its tasks come without their history, which the protocol allows.
    pub has_no_history: bool,
    /// It asks something else after every answer.
    pub asks_on: bool,
    /// It takes no answer, but refuses it with this code and this reason.
    pub refuses_answers: Option<(i64, &'static str)>,
    /// It says its result while it works, and ends without another word.
    pub ends_without_a_word: bool,
    /// What it says of all its tasks.
    pub says: &'static str,
    /// It knows no task any more, and refuses messages with a push address: with a status and a message, as agents of 0.3 do.
    pub forgets: bool,
    pub takes_no_address: bool,
    /// The size of its results, if they are not a few words.
    pub result_bytes: usize,
}
