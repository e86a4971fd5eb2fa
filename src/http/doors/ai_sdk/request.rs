//! The request of `useChat`: the whole conversation, of which the last message is used.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::KnownCall;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::run::OnBusy;
use crate::domain::settings::CallOptions;
use crate::http::app_state::AppState;
use crate::http::ids::new_thread_id;

/// The body of a request. Members that are not listed here belong to the page and are ignored.
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

/// Options for this server.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Pes {
    pub(super) user_id: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) on_busy: Option<OnBusy>,
    pub(super) options: CallOptions,
}

/// A validated request.
#[derive(Debug)]
pub(super) struct AiSdkRequest {
    pub(super) thread: ThreadId,
    pub(super) action: MessageAction,
    pub(super) pes: Pes,
}

/// What the last message does.
#[derive(Debug)]
pub(super) enum MessageAction {
    Query(LastMessage),
    /// Sends an earlier message again, unchanged or edited.
    Rewind(RewindRequest),
    Answers(Answers),
}

/// An earlier message is sent again. Everything after it is superseded.
#[derive(Debug)]
pub(super) struct RewindRequest {
    /// The client's id of that message: one of the user's messages, or the agent's answer to it. `None` means the last
    /// one.
    pub(super) message: Option<String>,
    /// Another answer is wanted, to the message as the client shows it; else that message was edited.
    pub(super) is_regenerated: bool,
    /// The last message, if it is the user's. It may never have reached the server.
    pub(super) last: Option<LastMessage>,
}

/// The user's message at the end of what the client shows.
#[derive(Debug)]
pub(super) struct LastMessage {
    pub(super) query: ChatQuery,
    /// No message is shown before it.
    pub(super) is_first: bool,
    /// The id of the message before it.
    pub(super) previous_id: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct ChatQuery {
    pub(super) text: String,
    /// The client's own id.
    pub(super) message_id: Option<String>,
}

/// The agent's message, with the user's decisions and the results of the client's calls.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) given: Vec<PartAnswer>,
    pub(super) known: Vec<KnownCall>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PartAnswer {
    Decision { suspension: String, approved: bool, reason: Option<String> },
    Result { call: String, output: Value },
    Failure { call: String, why: String },
}

pub(super) fn read(app: &AppState, body: Body) -> Result<AiSdkRequest, Fault> {
    let thread = new_thread_id(&body.id, app.config.limits.id_length, "/id")?;
    let Some(last) = body.messages.last() else { return Err(Fault::invalid("/messages", "has no message")) };
    let place = format!("/messages/{}", body.messages.len() - 1);
    let parts =
        last["parts"].as_array().ok_or_else(|| Fault::invalid(&format!("{place}/parts"), "must be an array"))?;
    let is_regenerated = body.trigger == Trigger::RegenerateMessage;
    let action = match last["role"].as_str() {
        Some("user") => {
            let query = query(app, last, parts, &place)?;
            let previous = body.messages.len().checked_sub(2).map(|at| &body.messages[at]);
            let previous_id = previous.and_then(|previous| previous["id"].as_str()).map(str::to_owned);
            let last = LastMessage { query, is_first: previous.is_none(), previous_id };
            if is_regenerated || body.message_id.is_some() {
                MessageAction::Rewind(RewindRequest { message: body.message_id, is_regenerated, last: Some(last) })
            } else {
                MessageAction::Query(last)
            }
        }
        Some("assistant") if is_regenerated => {
            MessageAction::Rewind(RewindRequest { message: body.message_id, is_regenerated, last: None })
        }
        Some("assistant") => MessageAction::Answers(answers(parts, &place)?),
        Some(_) | None => return Err(Fault::invalid(&format!("{place}/role"), "must be `user` or `assistant`")),
    };
    Ok(AiSdkRequest { thread, action, pes: body.pes })
}

fn query(app: &AppState, message: &Value, parts: &[Value], place: &str) -> Result<ChatQuery, Fault> {
    let mut texts = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let place = format!("{place}/parts/{at}");
        match part["type"].as_str() {
            Some("text") => {
                let text =
                    part["text"].as_str().ok_or_else(|| Fault::invalid(&format!("{place}/text"), "must be text"))?;
                texts.push(text);
            }
            Some("file") => return Err(Fault::invalid(&place, "is a file; only text is taken")),
            // Parts that a page adds for itself.
            Some(_) => {}
            None => return Err(Fault::invalid(&format!("{place}/type"), "must be text")),
        }
    }
    let text = texts.join("\n");
    if text.trim().is_empty() {
        return Err(Fault::invalid(&format!("{place}/parts"), "must say something"));
    }
    let longest = app.config.limits.id_length;
    let fits = |id: &&str| (1..=longest).contains(&id.len()) && !id.contains(char::is_control);
    let message_id = message["id"].as_str().filter(fits).map(str::to_owned);
    Ok(ChatQuery { text, message_id })
}

impl ChatQuery {
    /// Stores the client's id with the message, so that a page that reloads finds the message under its own id.
    pub(super) fn metadata(&self) -> Option<Map<String, Value>> {
        self.message_id.as_ref().map(|id| Map::from_iter([(METADATA_KEY.to_owned(), json!({ "id": id }))]))
    }
}

/// The metadata member that holds the client's id of a message.
pub(super) const METADATA_KEY: &str = "aiSdk";

fn answers(parts: &[Value], place: &str) -> Result<Answers, Fault> {
    let calls = parts.iter().enumerate().filter(|(_, part)| is_call(part));
    let (mut given, mut known) = (Vec::new(), Vec::new());
    for (at, part) in calls {
        let place = format!("{place}/parts/{at}");
        let text = |value: &Value, name: &str| {
            let missing = || Fault::invalid(&format!("{place}/{name}"), "must be text");
            value.as_str().map(str::to_owned).ok_or_else(missing)
        };
        let id = text(&part["toolCallId"], "toolCallId")?;
        let state = text(&part["state"], "state")?;
        let is_own = part["providerExecuted"] != true;
        match state.as_str() {
            "approval-responded" => {
                let approval = &part["approval"];
                let undecided = || Fault::invalid(&format!("{place}/approval/approved"), "must be true or false");
                given.push(PartAnswer::Decision {
                    suspension: text(&approval["id"], "approval/id")?,
                    approved: approval["approved"].as_bool().ok_or_else(undecided)?,
                    reason: approval["reason"].as_str().map(str::to_owned),
                });
            }
            "output-available" if is_own => {
                given.push(PartAnswer::Result { call: id.clone(), output: part["output"].clone() });
            }
            "output-error" if is_own => {
                let why = part["errorText"].as_str().unwrap_or("The call failed.").to_owned();
                given.push(PartAnswer::Failure { call: id.clone(), why });
            }
            _ => {}
        }
        known.push(KnownCall { id, state });
    }
    if given.is_empty() {
        return Err(Fault::invalid(place, "is the agent's, and answers nothing that it asked"));
    }
    Ok(Answers { given, known })
}

fn is_call(part: &Value) -> bool {
    part["type"].as_str().is_some_and(|kind| kind == "dynamic-tool" || kind.starts_with("tool-"))
}
