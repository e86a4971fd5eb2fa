//! What `useChat` sends: the whole conversation, of which the last message counts.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::KnownCall;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::run::OnBusy;
use crate::domain::settings::CallOptions;
use crate::http::app_state::AppState;
use crate::http::ids::new_thread_id;

/// Members that it does not name are the page's own.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body {
    id: String,
    messages: Vec<Value>,
    #[serde(default)]
    trigger: Trigger,
    message_id: Option<String>,
    #[serde(default)]
    pes: Pes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trigger {
    #[default]
    SubmitMessage,
    RegenerateMessage,
}

/// What the page asks of this server in particular.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Pes {
    pub(super) user_id: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) on_busy: Option<OnBusy>,
    pub(super) options: CallOptions,
}

/// A request, read.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) thread: ThreadId,
    pub(super) says: Says,
    pub(super) pes: Pes,
}

/// What is said.
#[derive(Debug)]
pub(super) enum Says {
    Query(Query),
    /// An earlier message, once more or in other words.
    Again(Again),
    Answers(Answers),
}

/// What was said before is said again, and all that followed it counts no more.
#[derive(Debug)]
pub(super) struct Again {
    /// Which message, by the client's id: one of the user's, or the agent's answer to it. `None`: the last one.
    pub(super) message: Option<String>,
    /// The last message, as it is now; `None`: as it was.
    pub(super) edited: Option<Query>,
    /// Where this is not known here, nothing followed it yet, and it is said now: what the client shows before it.
    pub(super) unsent: Option<Unsent>,
}

/// A message that the client shows and that may never have come here.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) query: Query,
    /// The id of the message before it.
    pub(super) behind: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) text: String,
    /// The client's own.
    pub(super) message_id: Option<String>,
}

/// The agent's message, with what was decided and found out.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) given: Vec<Given>,
    pub(super) known: Vec<KnownCall>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    Decision { suspension: String, approved: bool, reason: Option<String> },
    Result { call: String, output: Value },
    Failure { call: String, why: String },
}

pub(super) fn read(app: &AppState, body: Body) -> Result<Sent, Fault> {
    let thread = new_thread_id(&body.id, app.config.limits.id_length, "/id")?;
    let Some(last) = body.messages.last() else { return Err(invalid("/messages", "has no message")) };
    let place = format!("/messages/{}", body.messages.len() - 1);
    let parts = last["parts"].as_array().ok_or_else(|| invalid(&format!("{place}/parts"), "must be an array"))?;
    let is_regenerated = body.trigger == Trigger::RegenerateMessage;
    let says = match last["role"].as_str() {
        Some("user") => {
            let query = query(app, last, parts, &place)?;
            if is_regenerated || body.message_id.is_some() {
                let before = body.messages.len().checked_sub(2).and_then(|at| body.messages[at]["id"].as_str());
                let unsent = Unsent { query: query.clone(), behind: before.map(str::to_owned) };
                Says::Again(Again {
                    message: body.message_id,
                    edited: (!is_regenerated).then_some(query),
                    unsent: Some(unsent),
                })
            } else {
                Says::Query(query)
            }
        }
        Some("assistant") if is_regenerated => {
            Says::Again(Again { message: body.message_id, edited: None, unsent: None })
        }
        Some("assistant") => Says::Answers(answers(parts, &place)?),
        Some(_) | None => return Err(invalid(&format!("{place}/role"), "must be `user` or `assistant`")),
    };
    Ok(Sent { thread, says, pes: body.pes })
}

fn query(app: &AppState, message: &Value, parts: &[Value], place: &str) -> Result<Query, Fault> {
    let mut texts = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let place = format!("{place}/parts/{at}");
        match part["type"].as_str() {
            Some("text") => {
                let text = part["text"].as_str().ok_or_else(|| invalid(&format!("{place}/text"), "must be text"))?;
                texts.push(text);
            }
            Some("file") => return Err(invalid(&place, "is a file; only text is taken")),
            // Parts that a page adds for itself.
            Some(_) => {}
            None => return Err(invalid(&format!("{place}/type"), "must be text")),
        }
    }
    let text = texts.join("\n");
    if text.trim().is_empty() {
        return Err(invalid(&format!("{place}/parts"), "must say something"));
    }
    let longest = app.config.limits.id_length;
    let fits = |id: &&str| (1..=longest).contains(&id.len()) && !id.contains(char::is_control);
    let message_id = message["id"].as_str().filter(fits).map(str::to_owned);
    Ok(Query { text, message_id })
}

impl Query {
    /// What is kept with the message, so that a page that reloads finds it under its own id.
    pub(super) fn metadata(&self) -> Option<Map<String, Value>> {
        self.message_id.as_ref().map(|id| Map::from_iter([(KEPT.to_owned(), json!({ "id": id }))]))
    }
}

/// Where the client's own id of a message stands in its metadata.
pub(super) const KEPT: &str = "aiSdk";

fn answers(parts: &[Value], place: &str) -> Result<Answers, Fault> {
    let calls = parts.iter().enumerate().filter(|(_, part)| is_call(part));
    let (mut given, mut known) = (Vec::new(), Vec::new());
    for (at, part) in calls {
        let place = format!("{place}/parts/{at}");
        let text = |value: &Value, name: &str| {
            let missing = || invalid(&format!("{place}/{name}"), "must be text");
            value.as_str().map(str::to_owned).ok_or_else(missing)
        };
        let id = text(&part["toolCallId"], "toolCallId")?;
        let state = text(&part["state"], "state")?;
        let is_own = part["providerExecuted"] != true;
        match state.as_str() {
            "approval-responded" => {
                let approval = &part["approval"];
                let undecided = || invalid(&format!("{place}/approval/approved"), "must be true or false");
                given.push(Given::Decision {
                    suspension: text(&approval["id"], "approval/id")?,
                    approved: approval["approved"].as_bool().ok_or_else(undecided)?,
                    reason: approval["reason"].as_str().map(str::to_owned),
                });
            }
            "output-available" if is_own => {
                given.push(Given::Result { call: id.clone(), output: part["output"].clone() });
            }
            "output-error" if is_own => {
                let why = part["errorText"].as_str().unwrap_or("The call failed.").to_owned();
                given.push(Given::Failure { call: id.clone(), why });
            }
            _ => {}
        }
        known.push(KnownCall { id, state });
    }
    if given.is_empty() {
        return Err(invalid(place, "is the agent's, and answers nothing that it asked"));
    }
    Ok(Answers { given, known })
}

fn is_call(part: &Value) -> bool {
    part["type"].as_str().is_some_and(|kind| kind == "dynamic-tool" || kind.starts_with("tool-"))
}

pub(super) fn invalid(pointer: &str, how: &str) -> Fault {
    Fault::invalid(pointer, how)
}
