//! What a socket's client may say: each op is the twin of a REST call, with the same checks and the same codes.

use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ask::Subscribe;
use super::socket::SocketSession;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::http::caller::permit;
use crate::http::follow::absolute;
use crate::http::idempotency::{IdempotencyKey, Settled};
use crate::http::json::{JsonBody, Nothing, fingerprint, parse, typed};
use crate::http::problem::{ProblemContext, document};
use crate::http::routes::{cancel, pause, process, resume};
use crate::http::trace::TraceId;
use crate::service::feed::FeedAsk;
use crate::service::runs::Receipt;

/// What is to be done about a frame.
pub(super) enum Op {
    /// Nothing more than to say this.
    Answered(String),
    /// This is under way, and ends in what to say.
    Begun(Pin<Box<dyn Future<Output = String> + Send>>),
    Subscribe(OpId, FeedAsk),
}

/// How the client named the op; it finds its answer by that.
#[derive(Clone, Debug)]
pub(super) struct OpId(Value);

impl OpId {
    pub(super) fn ack(&self, mut data: Map<String, Value>) -> String {
        data.insert("id".to_owned(), self.0.clone());
        json!({ "event": "ack", "data": data }).to_string()
    }

    pub(super) fn nack(&self, session: &SocketSession, fault: &Fault) -> String {
        let docs = format!("{}/docs", session.base);
        let instance = match &session.thread {
            Some(thread) => format!("/threads/{thread}/events"),
            None => "/events".to_owned(),
        };
        let problem = document(fault, &ProblemContext { docs: &docs, instance: &instance, trace_id: &session.trace.0 });
        json!({ "event": "nack", "data": { "id": self.0, "problem": problem } }).to_string()
    }
}

/// A frame taken apart: what every op has, and what is left for its own.
struct ParsedOp {
    op: String,
    id: OpId,
    key: Option<String>,
    trace: Option<TraceId>,
    body: Value,
}

pub(super) fn read(session: &SocketSession, text: &str) -> Op {
    let parsed = match parse(text.as_bytes(), session.app.config.limits.json_depth).and_then(take_apart) {
        Ok(parsed) => parsed,
        Err(fault) => return Op::Answered(OpId(Value::Null).nack(session, &fault)),
    };
    let id = parsed.id.clone();
    begin(session, parsed).unwrap_or_else(|fault| Op::Answered(id.nack(session, &fault)))
}

fn take_apart(value: Value) -> Result<ParsedOp, Fault> {
    let malformed = || Fault::new(Code::Malformed, "An op is an object `{\"op\": …, \"id\": …}`.");
    let Value::Object(mut members) = value else { return Err(malformed()) };
    let Some(Value::String(op)) = members.shift_remove("op") else { return Err(malformed()) };
    let id = OpId(members.shift_remove("id").unwrap_or_default());
    let key = text_of(&mut members, "idempotencyKey")?;
    let parent = text_of(&mut members, "traceparent")?;
    let state = text_of(&mut members, "tracestate")?;
    let trace = parent.map(|parent| TraceId::from_values(Some(&parent), state.as_deref()));
    Ok(ParsedOp { op, id, key, trace, body: Value::Object(members) })
}

fn text_of(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Fault> {
    let text = members.shift_remove(name);
    text.map(|text| typed(text).map_err(|fault| fault.at(format!("/{name}"), "must be text"))).transpose()
}

fn begin(session: &SocketSession, parsed: ParsedOp) -> Result<Op, Fault> {
    let ParsedOp { op, id, key, trace, body } = parsed;
    let scope = match op.as_str() {
        "ping" | "subscribe" => Scope::Read,
        "process" | "cancel" | "pause" => Scope::Run,
        "resume" => Scope::Approve,
        unknown => {
            let how = "must be process, resume, cancel, pause, ping or subscribe";
            return Err(Fault::new(Code::Invalid, format!("There is no op `{unknown}`.")).at("/op", how));
        }
    };
    permit(&session.caller, scope)?;
    session.app.rates.count(&session.caller, None)?;
    let Some(thread) = session.thread.clone() else {
        return match op.as_str() {
            "ping" => Ok(Op::Answered(id.pong())),
            _ => Err(Fault::new(Code::Invalid, "This socket shows all threads; open that of a thread for this op.")
                .at("/op", "must be ping")),
        };
    };
    let twin = format!("POST /threads/{thread}/{op}");
    let key = IdempotencyKey::of_op(key, twin)?;
    let session = session.clone();
    Ok(match op.as_str() {
        "ping" => Op::Answered(id.pong()),
        "subscribe" => Op::Subscribe(id, typed::<Subscribe>(body)?.ask()?),
        "process" => {
            let sent = sent(body)?;
            Op::Begun(Box::pin(async move {
                let trace = trace.unwrap_or_else(|| session.trace.clone());
                let done = process::accept(&session.app, &session.caller, &thread, sent, key, &trace, false).await;
                id.respond_with_receipt(&session, done.map(|(settled, _)| settled))
            }))
        }
        "resume" => {
            let sent = sent(body)?;
            Op::Begun(Box::pin(async move {
                let done = resume::accept(&session.app, &session.caller, &thread, sent, key).await;
                id.respond_with_receipt(&session, done)
            }))
        }
        "pause" => {
            let sent = sent(body)?;
            Op::Begun(Box::pin(async move {
                let done = pause::accept(&session.app, &session.caller, &thread, sent, key).await;
                id.respond_with_receipt(&session, done)
            }))
        }
        _cancel => {
            let sent = sent::<Nothing>(body)?;
            Op::Begun(Box::pin(async move {
                let done = cancel::accept(&session.app, &session.caller, &thread, sent, key).await;
                id.respond(&session, done.map(|settled| (members(&settled.value), settled.is_replay)))
            }))
        }
    })
}

fn sent<T: DeserializeOwned>(body: Value) -> Result<JsonBody<T>, Fault> {
    Ok(JsonBody { fingerprint: fingerprint(&body), value: typed(body)? })
}

impl OpId {
    fn pong(&self) -> String {
        json!({ "event": "pong", "data": { "id": self.0 } }).to_string()
    }

    fn respond_with_receipt(&self, session: &SocketSession, done: Result<Settled<Receipt>, Fault>) -> String {
        let data = |settled: Settled<Receipt>| (members(&absolute(&session.base, settled.value)), settled.is_replay);
        self.respond(session, done.map(data))
    }

    fn respond(&self, session: &SocketSession, done: Result<(Map<String, Value>, bool), Fault>) -> String {
        match done {
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
