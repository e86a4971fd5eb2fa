//! Scripted tools and replies.

use std::collections::HashMap;
use std::sync::Arc;

use pes_engine::domain::Millis;
use pes_engine::domain::fault::Fault;
use pes_engine::domain::forecast::ToolForecast;
use pes_engine::domain::hitl::{FeedbackSchema, InputType, RiskLevel, Suspension};
use pes_engine::domain::ids::ThreadId;
use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest, RawToolCall, StopReason, Usage};
use pes_engine::domain::policy::{RuleScope, Ruling};
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::settings::{PolicyAction, RunSettings};
use pes_engine::domain::thread::Limits;
use pes_engine::domain::tool::{Judgement, Proposal, ToolClass, ToolError, ToolOutcome, ToolSpec, Verdict};
use pes_engine::domain::usage::Price;
use pes_engine::{ModelBook, Toolbox};
use serde::Serialize;
use serde_json::{Value, json};

/// Every model has the same price, if any.
#[derive(Default)]
pub struct Book {
    pub price: Option<Price>,
    pub window: Option<u64>,
    pub max_output: Option<u64>,
}

impl ModelBook for Book {
    fn window(&self, _: &str, _: &str) -> Option<u64> {
        self.window
    }

    fn max_output(&self, _: &str, _: &str) -> Option<u64> {
        self.max_output
    }

    fn price(&self, _: &str, _: &str) -> Option<Price> {
        self.price
    }
}

/// What a person or a policy decides about these names: `read` and `write` run, `sum` is answered at once, `gated` asks
/// (and would otherwise be answered at once), `peer` is delegated and `gated_peer` both, `form` is a question, `denied`
/// is refused, `client` is carried out by the caller and offered if `has_client`, any other name is unknown. Only
/// `read`, `fetch`, `sum` and `current_time` (which runs as `read` does, and is not offered) are idempotent, and `gated`
/// if it is declared `safe`. `look`, which is declared and not offered either, only reads and is not idempotent.
#[derive(Default)]
pub struct Tools {
    /// Remaining errors, by tool.
    pub failures: std::sync::Mutex<HashMap<String, u32>>,
    /// Retry delays of these errors.
    pub retry_after_ms: Option<Millis>,
    /// Their code; by default `failed`.
    pub failure_code: Option<&'static str>,
    /// The calls that ran, with their arguments.
    pub ran: std::sync::Mutex<Vec<(String, Value)>>,
    pub output: Option<Value>,
    /// The rule that decides.
    pub ruling: Option<Ruling>,
    /// The declaration of each tool.
    pub risk: Option<RiskLevel>,
    /// Whether the caller has a tool of its own.
    pub has_client: bool,
    /// A tool that a rule denies by now.
    pub denies: Option<&'static str>,
    /// Why every unknown tool is off.
    pub why_off: Option<&'static str>,
}

impl Tools {
    pub fn run(&self, name: &str, arguments: Value, _attempt: u32) -> ToolOutcome {
        self.ran.lock().unwrap().push((name.to_owned(), arguments.clone()));
        let fails = self.failures.lock().unwrap().get_mut(name).is_some_and(|left| {
            let fails = *left > 0;
            *left = left.saturating_sub(1);
            fails
        });
        let result = if fails {
            let error = ToolError::new(self.failure_code.unwrap_or("failed"), "it broke");
            Err(ToolError { retry_after_ms: self.retry_after_ms, ..error })
        } else {
            Ok(self.output.clone().unwrap_or_else(|| json!({ "tool": name, "of": arguments.clone() })))
        };
        let is_patched = name == "set_agent_state" || arguments.get("patch").is_some();
        let state_patch = is_patched.then(|| json!({ "k": 1 }));
        ToolOutcome { result, metadata: None, state_patch, duration_ms: 3, executed: None }
    }
}

impl Toolbox for Tools {
    fn offered(&self, _: &RunSettings) -> Vec<Arc<ToolSpec>> {
        ["read", "write", "sum", "fetch", "gated", "form", "set_agent_state", "peer", "gated_peer", "denied"]
            .into_iter()
            .chain(self.has_client.then_some("client"))
            .map(|name| Arc::new(ToolSpec { risk_level: self.risk, ..spec(name) }))
            .collect()
    }

    fn declared(&self, settings: &RunSettings, tool: &str) -> Option<Arc<ToolSpec>> {
        let offered = self.offered(settings).into_iter().find(|spec| spec.name == tool);
        offered.or_else(|| (tool == "look").then(|| Arc::new(spec(tool))))
    }

    fn why_off(&self, _: &str) -> Option<&str> {
        self.why_off
    }

    fn judge(&self, call: &Proposal<'_>) -> Judgement {
        let error = |code: &str| ToolError::new(code, code).at("/x");
        if call.arguments.get("bad").is_some() {
            return Verdict::Refuse(error("invalid_arguments")).into();
        }
        let schema = FeedbackSchema {
            input_type: InputType::Text,
            prompt: "?".into(),
            options: Vec::new(),
            allow_modify_args: true,
            custom_schema: None,
        };
        let class = ToolClass::Write;
        let verdict = match call.tool {
            tool if self.denies == Some(tool) => Verdict::Refuse(error("denied")),
            "read" | "sum" | "current_time" => Verdict::Run { class: ToolClass::Read, idempotent: true },
            "look" => Verdict::Run { class: ToolClass::Read, idempotent: false },
            "write" | "set_agent_state" => Verdict::Run { class, idempotent: false },
            "fetch" => Verdict::Run { class: ToolClass::External, idempotent: true },
            "peer" => Verdict::Delegate,
            "gated" | "gated_peer" => Verdict::Ask {
                class: if call.arguments["safe"] == true { ToolClass::Read } else { class },
                idempotent: call.arguments["safe"] == true,
                message: "may it?".into(),
                schema,
                risk: None,
                delegates: call.tool == "gated_peer",
            },
            "form" => Verdict::Input { message: "what?".into(), schema },
            "client" => Verdict::Client,
            "denied" => Verdict::Refuse(error("denied")),
            _ => Verdict::Refuse(error("unknown_tool")),
        };
        Judgement { verdict, ruling: self.ruling.clone() }
    }

    fn at_once(&self, tool: &str, arguments: &Value, _: Millis, _: &Limits) -> Option<ToolOutcome> {
        matches!(tool, "sum" | "gated").then(|| ToolOutcome { duration_ms: 0, ..self.run(tool, arguments.clone(), 1) })
    }

    /// Only the required members of a schema are checked.
    fn check_value(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        match required.into_iter().find(|name| value.get(name).is_none()) {
            Some(name) => Err(format!("`{name}` is missing.")),
            None => Ok(()),
        }
    }

    fn judge_edited(&self, call: &Proposal<'_>) -> Result<Judgement, Fault> {
        match call.arguments.get("bad") {
            Some(_) => Err(Fault::new(pes_engine::domain::fault::Code::Invalid, "bad").at("/modifiedArgs/bad", "bad")),
            None => Ok(self.judge(call)),
        }
    }

    fn foresee(&self, _: &ThreadId, _: &RunSettings, tool: &str) -> Option<ToolForecast> {
        let class = match tool {
            "read" | "sum" => ToolClass::Read,
            "peer" | "gated_peer" => ToolClass::External,
            "write" | "gated" | "form" | "set_agent_state" | "denied" => ToolClass::Write,
            _ => return None,
        };
        let action = match tool {
            "gated" | "gated_peer" => PolicyAction::Ask,
            "denied" => PolicyAction::Deny,
            _ => PolicyAction::Auto,
        };
        Some(ToolForecast {
            tool_name: tool.into(),
            class,
            idempotent: matches!(tool, "read" | "sum"),
            risk_level: (tool == "gated").then_some(RiskLevel::High),
            policy: Ruling::new(action, "scripted", RuleScope::Default),
            conditions: Vec::new(),
            more_conditions: false,
        })
    }

    fn check_answer(&self, _: &Suspension, value: &Value) -> Result<(), Fault> {
        if value.is_string() {
            Ok(())
        } else {
            Err(Fault::new(pes_engine::domain::fault::Code::Invalid, "text").at("/value", "text is needed"))
        }
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: name.into(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        class: if matches!(name, "read" | "sum" | "look") { ToolClass::Read } else { ToolClass::Write },
        idempotent: matches!(name, "read" | "sum"),
        timeout_ms: 1000,
        risk_level: None,
    }
}

/// A scripted model's reply, or its failure.
pub type Reply = Result<ModelReply, ModelFailure>;

pub fn says(text: impl Into<String>) -> Result<ModelReply, ModelFailure> {
    Ok(ModelReply {
        text: text.into(),
        thinking: String::new(),
        tool_calls: Vec::new(),
        replay: None,
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        stop: StopReason::EndTurn,
        provider: "demo".into(),
        model: "m".into(),
        time_to_first_token_ms: Some(1),
        queued_ms: None,
        total_ms: 2,
        fit: None,
        prompt_digest: None,
    })
}

/// A reply with native calls.
pub fn calls(calls: &[(&str, Value)]) -> Result<ModelReply, ModelFailure> {
    let raw = |(at, (name, arguments)): (usize, &(&str, Value))| RawToolCall {
        id: Some(format!("p{at}")),
        name: (*name).to_owned(),
        arguments: arguments.to_string(),
    };
    Ok(ModelReply {
        tool_calls: calls.iter().enumerate().map(raw).collect(),
        stop: StopReason::ToolUse,
        ..says("").unwrap()
    })
}

pub fn fails(kind: FailureKind) -> Result<ModelReply, ModelFailure> {
    Err(ModelFailure { http_status: Some(503), ..ModelFailure::new(kind, "the model is away") })
}

/// A plan with these items: id, dependencies, required tools.
pub fn plan(items: &[(&str, &[&str], &[&str])]) -> Result<ModelReply, ModelFailure> {
    let items: Vec<Value> = items
        .iter()
        .map(|(id, dependencies, tools)| {
            json!({ "id": id, "description": format!("do {id}"), "dependencies": dependencies, "requiredTools": tools })
        })
        .collect();
    says(json!({ "title": "A title", "intent": "an intent", "plan": "a plan", "todoList": items }).to_string())
}

pub fn first_line(request: &ModelRequest) -> String {
    match &request.messages[0] {
        PromptMessage::System { content } => content.lines().next().unwrap_or_default().to_owned(),
        other => panic!("the first message is {other:?}"),
    }
}

/// Providers refuse a prompt that ends with the model's own words.
pub fn check_prompt(request: &ModelRequest) {
    let last = request.messages.last();
    let is_asked = matches!(last, Some(PromptMessage::User { .. } | PromptMessage::Tool { .. }));
    assert!(is_asked, "{} ends with {last:?}", which(request));
}

/// Which call it is: `planning`, `refinement`, `repair`, `synthesis`, or `a.2` for the second call of item a.
pub fn which(request: &ModelRequest) -> String {
    let line = first_line(request);
    match &request.context.item_id {
        Some(item) => format!("{item}.{}", request.context.iteration),
        None => line.trim_start_matches("Phase: ").to_owned(),
    }
}

/// A plan of these items.
pub fn todo(items: impl Serialize) -> Reply {
    says(json!({ "title": "t", "intent": "i", "plan": "p", "todoList": items }).to_string())
}

/// The last message of a prompt, which is one of the user.
pub fn last_words(request: &ModelRequest) -> &str {
    match request.messages.last() {
        Some(PromptMessage::User { content }) => content,
        other => panic!("{other:?}"),
    }
}

/// The texts of a prompt.
pub fn all_text(request: &ModelRequest) -> String {
    let texts = request.messages.iter().map(|message| match message {
        PromptMessage::System { content }
        | PromptMessage::User { content }
        | PromptMessage::Assistant { content, .. }
        | PromptMessage::Tool { content, .. } => content.as_str(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
