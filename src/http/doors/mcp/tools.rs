//! The tools of this server: one fixed set, whatever the agent can do. Models choose better among few tools, and hosts
//! limit their number.

use serde_json::{Value, json};

use crate::config::A2a;
use crate::domain::caller::{Caller, Scope};
use crate::domain::run::RunStatus;

/// The default wait of a call in seconds. Hosts give up after a minute.
pub(super) const DEFAULT_WAIT_SECS: u64 = 45;
pub(super) const MAX_ASK_WAIT_SECS: u64 = 300;
pub(super) const MAX_STATUS_WAIT_SECS: u64 = 45;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Ask,
    Start,
    Status,
    Cancel,
    /// Only for callers that may approve.
    Answer,
}

impl Tool {
    const ALL: [Tool; 5] = [Tool::Ask, Tool::Start, Tool::Status, Tool::Cancel, Tool::Answer];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Ask => "ask",
            Tool::Start => "start",
            Tool::Status => "status",
            Tool::Cancel => "cancel",
            Tool::Answer => "answer",
        }
    }

    pub(super) fn scope(self) -> Scope {
        match self {
            Tool::Ask | Tool::Start | Tool::Cancel => Scope::Run,
            Tool::Status => Scope::Read,
            Tool::Answer => Scope::Approve,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Tool::Ask => "Ask the agent",
            Tool::Start => "Give the agent work",
            Tool::Status => "See how the work stands",
            Tool::Cancel => "Stop the work",
            Tool::Answer => "Hand over a person's answer",
        }
    }

    fn description(self, agent: &A2a) -> String {
        match self {
            Tool::Ask => {
                let skills = agent.skills.iter().map(|skill| format!("\n- {}: {}", skill.name, skill.description));
                format!(
                    "{} Waits for the answer, for `wait` seconds at most; then the work goes on, and `status` tells how it \
                     stands. It can do:{}",
                    agent.description,
                    skills.collect::<String>()
                )
            }
            Tool::Start => {
                "Gives the agent something to do and returns at once, with the runId that `status` takes. For work \
                            that takes long."
                    .to_owned()
            }
            Tool::Status => "Tells how a run stands: its plan, what it asks a person, its answer.".to_owned(),
            Tool::Cancel => "Stops a run. What was done stays done.".to_owned(),
            Tool::Answer => "Hands over what a person said to a question of a run. Never decide for the person: ask, and pass on \
                             the words. An approval takes `approved`, what is in doubt `action`, any other question `value`."
                .to_owned(),
        }
    }

    fn input(self) -> Value {
        let query =
            json!({ "type": "string", "minLength": 1, "description": "What is to be done, in full sentences." });
        let thread = json!({ "type": "string",
            "description": "A threadId, to go on with a conversation; without it a new one begins." });
        let key = json!({ "type": "string", "minLength": 1,
            "description": "Any text. The same call again with it is the same run, and not another one." });
        let run = json!({ "type": "string" });
        let wait = |default: u64, most: u64| {
            json!({ "type": "integer", "minimum": 0, "maximum": most, "default": default,
                "description": "How many seconds to wait at most." })
        };
        let (properties, required) = match self {
            Tool::Ask => (
                json!({ "query": query, "thread": thread, "wait": wait(DEFAULT_WAIT_SECS, MAX_ASK_WAIT_SECS), "idempotencyKey": key }),
                json!(["query"]),
            ),
            Tool::Start => (json!({ "query": query, "thread": thread, "idempotencyKey": key }), json!(["query"])),
            Tool::Status => (json!({ "runId": run, "wait": wait(0, MAX_STATUS_WAIT_SECS) }), json!(["runId"])),
            Tool::Cancel => (json!({ "runId": run }), json!(["runId"])),
            Tool::Answer => (answer(), json!(["suspensionId"])),
        };
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    fn annotations(self) -> Value {
        let (read_only, destructive, idempotent) = match self {
            Tool::Ask | Tool::Start => (false, false, false),
            Tool::Status => (true, false, true),
            Tool::Cancel => (false, true, true),
            Tool::Answer => (false, true, false),
        };
        json!({
            "title": self.title(),
            "readOnlyHint": read_only, "destructiveHint": destructive, "idempotentHint": idempotent,
            "openWorldHint": matches!(self, Tool::Ask | Tool::Start),
        })
    }
}

/// The body of `POST /threads/{thread}/resume`.
fn answer() -> Value {
    json!({
        "suspensionId": { "type": "string" },
        "approved": { "type": "boolean" },
        "value": { "description": "Of the form that the question has." },
        "modifiedArgs": { "type": "object", "description": "What is approved instead." },
        "reason": { "type": "string" },
        "action": { "type": "string", "enum": ["retry", "done", "skip", "abort"] },
        "digest": { "type": "string", "description": "The question's, as the person saw it." },
    })
}

/// The tools that this caller may use.
pub(super) fn listed(agent: &A2a, caller: &Caller) -> Value {
    let usable = Tool::ALL.into_iter().filter(|tool| caller.may(tool.scope()));
    let shown = usable.map(|tool| {
        json!({
            "name": tool.name(),
            "title": tool.title(),
            "description": tool.description(agent),
            "inputSchema": tool.input(),
            "outputSchema": output(),
            "annotations": tool.annotations(),
        })
    });
    shown.collect()
}

/// The output schema of every tool.
fn output() -> Value {
    let text = || json!({ "type": "string" });
    let statuses = RunStatus::ALL.map(RunStatus::as_str);
    json!({
        "type": "object",
        "required": ["runId", "threadId", "status"],
        "properties": {
            "runId": text(),
            "threadId": text(),
            "status": { "type": "string", "enum": statuses },
            "answer": { "type": "string", "description": "Once it is completed." },
            "error": { "type": "object", "properties": { "code": text(), "message": text() } },
            "plan": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id", "description", "status"],
                    "properties": { "id": text(), "description": text(), "status": text() },
                },
            },
            "suspensions": {
                "type": "array",
                "description": "What a person is asked.",
                "items": {
                    "type": "object",
                    "required": ["suspensionId", "kind", "message"],
                    "properties": { "suspensionId": text(), "kind": text(), "message": text(), "url": text() },
                },
            },
        },
    })
}
