//! The ops that a socket's client may send. Each op corresponds to a REST call, with the same checks and the same error
//! codes.

use std::pin::Pin;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ask::Subscribe;
use super::socket::SocketSession;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::request_trace::RequestTrace;
use crate::http::caller::permit;
use crate::http::follow::absolute;
use crate::http::idempotency::{IdempotencyKey, ReplyValue};
use crate::http::json::{KeyedBody, Nothing, parse, typed};
use crate::http::problem::{ProblemContext, document};
use crate::http::routes::{cancel, pause, process, resume};
use crate::service::feed::FeedAsk;
use crate::service::runs::Receipt;

/// What to do about an incoming message.
pub(super) enum Op {
    /// Send this reply.
    Reply(String),
    /// Run this, and send its result as the reply.
    Start(OpId, Pin<Box<dyn Future<Output = String> + Send>>),
    Subscribe(OpId, FeedAsk),
}

/// What an op asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpKind {
    Process,
    Resume,
    Cancel,
    Pause,
    Ping,
    Subscribe,
}

impl OpKind {
    const ALL: [OpKind; 6] =
        [OpKind::Process, OpKind::Resume, OpKind::Cancel, OpKind::Pause, OpKind::Ping, OpKind::Subscribe];

    fn as_str(self) -> &'static str {
        match self {
            OpKind::Process => "process",
            OpKind::Resume => "resume",
            OpKind::Cancel => "cancel",
            OpKind::Pause => "pause",
            OpKind::Ping => "ping",
            OpKind::Subscribe => "subscribe",
        }
    }

    fn parse(op: &str) -> Result<Self, Fault> {
        OpKind::ALL.into_iter().find(|kind| kind.as_str() == op).ok_or_else(|| {
            let how = "must be process, resume, cancel, pause, ping or subscribe";
            Fault::new(Code::Invalid, format!("There is no op `{op}`.")).at("/op", how)
        })
    }

    /// The scope that the caller needs.
    fn scope(self) -> Scope {
        match self {
            OpKind::Ping | OpKind::Subscribe => Scope::Read,
            OpKind::Process | OpKind::Cancel | OpKind::Pause => Scope::Run,
            OpKind::Resume => Scope::Approve,
        }
    }
}

/// The client's id of the op, which the reply repeats.
#[derive(Clone, Debug)]
pub(super) struct OpId(Value);

impl OpId {
    pub(super) fn ack(&self, mut data: Map<String, Value>) -> String {
        data.insert("id".to_owned(), self.0.clone());
        json!({ "event": "ack", "data": data }).to_string()
    }

    pub(super) fn nack(&self, session: &SocketSession, fault: &Fault) -> String {
        let docs = format!("{}/docs", session.preferences.base);
        let instance = match &session.thread {
            Some(thread) => format!("/threads/{thread}/events"),
            None => "/events".to_owned(),
        };
        let problem = document(
            fault,
            &ProblemContext { docs: &docs, instance: &instance, trace_id: &session.preferences.trace.id },
        );
        json!({ "event": "nack", "data": { "id": self.0, "problem": problem } }).to_string()
    }
}

/// A parsed message: the members that every op has, and the remaining body.
struct ParsedOp {
    op: String,
    id: OpId,
    key: Option<String>,
    trace: Option<RequestTrace>,
    body: Value,
}

pub(super) fn read(session: &SocketSession, text: &str) -> Op {
    let (id, members) = match parse(text.as_bytes(), session.app.config.limits.json_depth) {
        Ok(Value::Object(mut members)) => (OpId(members.shift_remove("id").unwrap_or_default()), Ok(members)),
        Ok(_) => (OpId(Value::Null), Err(malformed())),
        Err(fault) => (OpId(Value::Null), Err(fault)),
    };
    let begun = members.and_then(|members| take_apart(id.clone(), members)).and_then(|parsed| begin(session, parsed));
    begun.unwrap_or_else(|fault| Op::Reply(id.nack(session, &fault)))
}

fn malformed() -> Fault {
    Fault::new(Code::Malformed, "An op is an object `{\"op\": …, \"id\": …}`.")
}

fn take_apart(id: OpId, mut members: Map<String, Value>) -> Result<ParsedOp, Fault> {
    let Some(Value::String(op)) = members.shift_remove("op") else { return Err(malformed()) };
    let key = text_of(&mut members, "idempotencyKey")?;
    let parent = text_of(&mut members, "traceparent")?;
    let state = text_of(&mut members, "tracestate")?;
    let trace = parent.map(|parent| RequestTrace::from_values(Some(&parent), state.as_deref()));
    Ok(ParsedOp { op, id, key, trace, body: Value::Object(members) })
}

fn text_of(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Fault> {
    match members.shift_remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::invalid(&format!("/{name}"), "must be text")),
    }
}

fn begin(session: &SocketSession, parsed: ParsedOp) -> Result<Op, Fault> {
    let ParsedOp { op, id, key, trace, body } = parsed;
    let kind = OpKind::parse(&op)?;
    permit(&session.caller, kind.scope())?;
    session.app.rates.count(&session.caller, None)?;
    let Some(thread) = session.thread.clone() else {
        if kind == OpKind::Ping {
            return pong(&id, body);
        }
        let detail = "This socket shows all threads; open that of a thread for this op.";
        return Err(Fault::new(Code::Invalid, detail).at("/op", "must be ping"));
    };
    let rest_call = format!("POST /threads/{thread}/{op}");
    let key = IdempotencyKey::of_op(key, rest_call)?;
    let (session, asked) = (session.clone(), id.clone());
    Ok(match kind {
        OpKind::Ping => pong(&id, body)?,
        OpKind::Subscribe => Op::Subscribe(id, typed::<Subscribe>(body)?.ask()?),
        OpKind::Process => {
            let sent = KeyedBody::of(body)?;
            start(asked, async move {
                let trace = trace.unwrap_or_else(|| session.preferences.trace.clone());
                let outcome = process::accept(&session.app, &session.caller, &thread, sent, key, &trace).await;
                id.respond_with_receipt(&session, outcome)
            })
        }
        OpKind::Resume => {
            let sent = KeyedBody::of(body)?;
            start(asked, async move {
                let outcome = resume::accept(&session.app, &session.caller, &thread, sent, key).await;
                id.respond_with_receipt(&session, outcome)
            })
        }
        OpKind::Pause => {
            let sent = KeyedBody::of(body)?;
            start(asked, async move {
                let outcome = pause::accept(&session.app, &session.caller, &thread, sent, key).await;
                id.respond_with_receipt(&session, outcome)
            })
        }
        OpKind::Cancel => {
            let sent = KeyedBody::of(body)?;
            start(asked, async move {
                let outcome = cancel::accept(&session.app, &session.caller, &thread, sent, key).await;
                id.respond(&session, outcome.map(|reply| (members(&reply.value), reply.is_replay)))
            })
        }
    })
}

fn pong(id: &OpId, body: Value) -> Result<Op, Fault> {
    let Nothing {} = typed(body)?;
    Ok(Op::Reply(id.pong()))
}

fn start(id: OpId, work: impl Future<Output = String> + Send + 'static) -> Op {
    Op::Start(id, Box::pin(work))
}

impl OpId {
    fn pong(&self) -> String {
        json!({ "event": "pong", "data": { "id": self.0 } }).to_string()
    }

    fn respond_with_receipt(&self, session: &SocketSession, outcome: Result<ReplyValue<Receipt>, Fault>) -> String {
        let data =
            |reply: ReplyValue<Receipt>| (members(&absolute(&session.preferences.base, reply.value)), reply.is_replay);
        self.respond(session, outcome.map(data))
    }

    fn respond(&self, session: &SocketSession, outcome: Result<(Map<String, Value>, bool), Fault>) -> String {
        match outcome {
            Ok((mut data, is_replay)) => {
                if is_replay {
                    data.insert("replayed".to_owned(), Value::Bool(true));
                }
                self.ack(data)
            }
            Err(fault) => self.nack(session, &fault),
        }
    }
}

fn members(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::new(),
    }
}
