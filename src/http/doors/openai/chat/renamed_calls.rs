//! Calls that a client names by ids of its own, as some clients do that number the calls of a conversation themselves.
//! They are recognised by their names and arguments, which the client sends back.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::domain::hitl::{Suspension, SuspensionKind};
use crate::domain::ids::SuspensionId;
use crate::http::doors::is_suspension_id;

/// A call in a message of the agent, as the client sends it back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SentCall {
    pub(super) id: String,
    pub(super) name: String,
    /// `Null` if they are no JSON.
    pub(super) arguments: Value,
}

impl SentCall {
    /// `id` is that of the call in the message.
    pub(super) fn of(id: String, call: &Value) -> Self {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().unwrap_or_default();
        Self {
            id,
            name: function["name"].as_str().unwrap_or_default().to_owned(),
            arguments: serde_json::from_str(arguments).unwrap_or_default(),
        }
    }

    fn is_call_of(&self, open: &Suspension) -> bool {
        let no_arguments = Value::Object(Map::new());
        open.kind == SuspensionKind::ClientTool
            && open.tool_name.as_deref() == Some(self.name.as_str())
            && *open.tool_input.as_ref().unwrap_or(&no_arguments) == self.arguments
    }
}

/// The results by the suspension ids of the open calls. A result under another id is that of the open call with the same
/// name and arguments, if there is exactly one and no other such result is for it; else it stays as it is.
pub(super) fn by_suspension_id(
    results: &HashMap<String, String>,
    called: &[SentCall],
    open: &[Suspension],
) -> HashMap<String, String> {
    let fitting = |id: &str| {
        let call = called.iter().rev().find(|call| call.id == id).filter(|_| !is_suspension_id(id))?;
        let mut fitting = open.iter().filter(|open| call.is_call_of(open));
        fitting.next().filter(|_| fitting.next().is_none())
    };
    let mut by_id = results.clone();
    let mut renamed: HashMap<&SuspensionId, Vec<&String>> = HashMap::new();
    for id in results.keys() {
        if let Some(open) = fitting(id) {
            renamed.entry(&open.suspension_id).or_default().push(id);
        }
    }
    for (suspension, ids) in renamed {
        if let [id] = ids[..]
            && let Some(text) = by_id.remove(id)
        {
            by_id.insert(suspension.to_string(), text);
        }
    }
    by_id
}
