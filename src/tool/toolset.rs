//! A toolset: the tools that one tenant may call. It judges every call before it starts.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::entry::{ToolEntry, is_name};
use super::policy::{self, Policy};
use super::schema::{MAX_SCHEMAS, Schema, describe};
use super::{Approval, Nature, OffTool, Tool, ToolOutput, answer, builtin, panic_error};
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault, Pointed};
use crate::domain::forecast::ToolForecast;
use crate::domain::hitl::{FeedbackSchema, InputType, Question, Suspension};
use crate::domain::ids::ThreadId;
use crate::domain::policy::{RuleScope, Ruling};
use crate::domain::settings::{PolicyAction, RunSettings};
use crate::domain::task;
use crate::domain::thread::Limits;
use crate::domain::tool::{
    CallCode, ClientTool, Judgement, Proposal, ToolClass, ToolError, ToolOutcome, ToolSpec, Verdict,
};
use crate::engine::Toolbox;

/// The member of an answer that holds edited arguments.
const EDITED: &str = "/modifiedArgs";

/// The tools that one tenant's agents may call: the server's own and those of the tenant's sources.
pub struct Toolset {
    tools: BTreeMap<String, Arc<ToolEntry>>,
    off: Arc<[OffTool]>,
    policy: Arc<Policy>,
}

impl Toolset {
    pub(super) fn new(tools: BTreeMap<String, Arc<ToolEntry>>, policy: Arc<Policy>) -> Self {
        Self { tools, off: Arc::default(), policy }
    }

    /// The same tools under another policy.
    pub(crate) fn with_policy(&self, policy: Arc<Policy>) -> Self {
        Self { tools: self.tools.clone(), off: self.off.clone(), policy }
    }

    pub(super) fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The same tools and those of `sources`, earlier sources first. Tools that are invalid or would hide another are
    /// left out and logged. Tools that `last` already contains are not prepared again. The sources do not offer those that
    /// are `off`.
    pub(super) fn with_sources(
        &self,
        sources: &[Arc<[Arc<dyn Tool>]>],
        off: Vec<OffTool>,
        last: Option<&Toolset>,
    ) -> Self {
        let mut tools = self.tools.clone();
        for tool in sources.iter().flat_map(|tools| tools.iter()) {
            let entry = match last.and_then(|last| last.prepared(tool)) {
                Some(entry) => entry,
                None => match ToolEntry::new(tool.clone()) {
                    Ok(entry) => Arc::new(entry),
                    Err(fault) => {
                        tracing::warn!(tool = tool.spec().name, why = fault.detail, "a tool is left out");
                        continue;
                    }
                },
            };
            if tools.contains_key(entry.name()) {
                tracing::warn!(tool = entry.name(), "a tool is left out: another has its name")
            } else {
                drop(tools.insert(entry.name().to_owned(), entry))
            }
        }
        Self { tools, off: off.into(), policy: self.policy.clone() }
    }

    fn prepared(&self, tool: &Arc<dyn Tool>) -> Option<Arc<ToolEntry>> {
        let entry = self.tools.get(&tool.spec().name)?;
        Arc::ptr_eq(&entry.tool, tool).then(|| entry.clone())
    }

    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| entry.tool.clone())
    }

    /// Sorted by name.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.tools.values().map(|entry| entry.spec.clone()).collect()
    }

    /// The outcome of a call: its output, if that is within bounds and fits the declared schema.
    pub fn outcome(&self, tool: &str, answer: Result<ToolOutput, ToolError>, most_bytes: usize) -> ToolOutcome {
        let declared = self.tools.get(tool).and_then(|entry| entry.output.as_ref());
        let checked = answer.and_then(|output| {
            output.check_bounds(most_bytes)?;
            declared.map_or(Ok(()), |schema| schema.check_output(&output.output))?;
            Ok(output)
        });
        match checked {
            Ok(ToolOutput { output, metadata, state_patch }) => {
                ToolOutcome { result: Ok(output), metadata, state_patch, duration_ms: 0, executed: None }
            }
            Err(error) => ToolOutcome::failed(error),
        }
    }

    /// Checks tools that a caller declares for one run: none may hide another, and each must be usable.
    pub fn check_client_tools(&self, tools: &[ClientTool]) -> Result<(), Fault> {
        let mut schemas = 0;
        for (at, tool) in tools.iter().enumerate() {
            let place = format!("/options/clientTools/{at}");
            if tools[..at].iter().any(|other| other.name == tool.name) {
                return Err(invalid_tool(&tool.name, &place, "name", "is declared twice".to_owned()));
            }
            schemas += self.check(&tool.spec(), &place)?;
            if schemas > MAX_SCHEMAS {
                let why = format!("and those before it have more than {MAX_SCHEMAS} schemas within their schemas");
                return Err(invalid_tool(&tool.name, &place, "inputSchema", why));
            }
        }
        Ok(())
    }

    /// Checks a tool that is to be added to these.
    pub fn check_new(&self, spec: &ToolSpec) -> Result<(), Fault> {
        self.check(spec, "").map(drop)
    }

    /// Checks the new definition of a tool that already exists.
    pub fn check_changed(spec: &ToolSpec) -> Result<(), Fault> {
        count_schemas(spec, "").map(drop)
    }

    /// The number of subschemas of the tool.
    fn check(&self, spec: &ToolSpec, place: &str) -> Result<usize, Fault> {
        let refuse = |member: &str, why: String| Err(invalid_tool(&spec.name, place, member, why));
        if !is_name(&spec.name) {
            return refuse("name", "needs a name of 1 to 64 characters of a-z, A-Z, 0-9, _ and -".to_owned());
        }
        if self.tools.contains_key(&spec.name) {
            return refuse("name", "has the name of another tool: rename it, or leave it out".to_owned());
        }
        count_schemas(spec, place)
    }

    /// What policy and the tool itself decide about a call with valid arguments; `None`: there is no such tool.
    pub fn ruling(&self, call: &Proposal<'_>) -> Option<Ruling> {
        if call.settings.client_tool(call.tool).is_some() {
            return Some(self.client_ruling(call));
        }
        let entry = self.tools.get(call.tool)?;
        Some(self.rule_entry(entry, entry.tool.nature(call.arguments), call).0)
    }

    /// Why policy denies a call with valid arguments; `None`: it does not.
    pub fn denial(&self, call: &Proposal<'_>) -> Option<ToolError> {
        let ruling = self.ruling(call).filter(|ruling| ruling.action == PolicyAction::Deny)?;
        Some(ToolError { ruling: Some(Box::new(ruling.clone())), ..denial(call.tool, &ruling) })
    }

    fn rule_entry(&self, entry: &ToolEntry, nature: Nature, call: &Proposal<'_>) -> (Ruling, Option<Approval>) {
        let default = self.policy.class_default(nature.class, builtin::is_own(&entry.spec.name));
        let ruling = self.policy.decide(call, default);
        let wish = entry.tool.approval(call.arguments);
        (if wish.is_some() { ask_by_default(ruling) } else { ruling }, wish)
    }

    /// The caller's own program executes these calls, so they have no class: they run unless a rule applies.
    fn client_ruling(&self, call: &Proposal<'_>) -> Ruling {
        self.policy.decide(call, client_default())
    }

    /// Reports every error with its pointer. Where there is no schema, the judgement reports that.
    fn check_edited(&self, call: &Proposal<'_>) -> Result<(), Fault> {
        if let Some(tool) = call.settings.client_tool(call.tool) {
            let schema = Schema::compile(&tool.input_schema).ok();
            return schema.map_or(Ok(()), |schema| schema.check_member(EDITED, call.arguments));
        }
        self.tools.get(call.tool).map_or(Ok(()), |entry| entry.arguments.check_member(EDITED, call.arguments))
    }

    fn judge_client(&self, tool: &ClientTool, call: &Proposal<'_>) -> Judgement {
        let fits = Schema::compile(&tool.input_schema).map(|schema| schema.check_call(call.arguments));
        match fits {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Verdict::Refuse(error).into(),
            Err(error) => {
                return refuse(
                    CallCode::InvalidArguments,
                    format!("The tool's schema cannot be used: {}", describe(&error)),
                )
                .into();
            }
        }
        let ruling = self.client_ruling(call);
        let verdict = match ruling.action {
            PolicyAction::Deny => denied(&tool.name, &ruling),
            PolicyAction::Ask => {
                ask(&tool.spec(), Nature { class: ToolClass::External, idempotent: false }, None, false)
            }
            PolicyAction::Auto => Verdict::Client,
        };
        Judgement { verdict, ruling: Some(ruling) }
    }
}

/// The number of subschemas of a tool, or which member is rejected and why.
pub fn check_schemas(spec: &ToolSpec) -> Result<usize, (&'static str, Pointed)> {
    let mut schemas = 0;
    for (member, schema) in [("inputSchema", Some(&spec.input_schema)), ("outputSchema", spec.output_schema.as_ref())] {
        if let Some(schema) = schema {
            schemas += Schema::compile(schema).map_err(|error| (member, error))?.cost().schemas;
        }
    }
    Ok(schemas)
}

/// The verdict on a call under this ruling.
fn verdict(entry: &ToolEntry, nature: Nature, ruling: &Ruling, wish: Option<Approval>, arguments: &Value) -> Verdict {
    if ruling.action == PolicyAction::Deny {
        return denied(&entry.spec.name, ruling);
    }
    if let Some(Question { message, form }) = entry.tool.question(arguments) {
        return match answer::check_form(&form) {
            Ok(()) => Verdict::Input { message, schema: form },
            Err(error) => Verdict::Refuse(error),
        };
    }
    let delegates = entry.spec.name == task::TOOL;
    match ruling.action {
        PolicyAction::Ask => ask(&entry.spec, nature, wish, delegates),
        PolicyAction::Auto | PolicyAction::Deny if delegates => Verdict::Delegate,
        PolicyAction::Auto | PolicyAction::Deny => Verdict::Run { class: nature.class, idempotent: nature.idempotent },
    }
}

impl Toolbox for Toolset {
    fn offered(&self, settings: &RunSettings) -> Vec<Arc<ToolSpec>> {
        // A tool that was added after the run was accepted does not replace a client tool of the same name.
        let is_offered = |name: &str| is_enabled(settings, name) && settings.client_tool(name).is_none();
        let enabled = self.tools.values().map(|entry| &entry.spec).filter(|spec| is_offered(&spec.name));
        enabled.cloned().chain(settings.client_tools.iter().map(|tool| Arc::new(tool.spec()))).collect()
    }

    fn declared(&self, settings: &RunSettings, tool: &str) -> Option<Arc<ToolSpec>> {
        match settings.client_tool(tool) {
            Some(client) => Some(Arc::new(client.spec())),
            None => self.tools.get(tool).map(|entry| entry.spec.clone()),
        }
    }

    fn judge(&self, call: &Proposal<'_>) -> Judgement {
        if let Some(tool) = call.settings.client_tool(call.tool) {
            return self.judge_client(tool, call);
        }
        let Some(entry) = self.tools.get(call.tool) else {
            let message = match self.why_off(call.tool) {
                Some(why) => format!("The tool `{}` is off: {why}.", call.tool),
                None => format!("There is no tool `{}`.", call.tool),
            };
            return refuse(CallCode::UnknownTool, message).into();
        };
        if !is_enabled(call.settings, call.tool) {
            return refuse(CallCode::DisabledTool, format!("The tool `{}` is not enabled for this thread.", call.tool))
                .into();
        }
        if let Err(error) = entry.arguments.check_call(call.arguments) {
            return Verdict::Refuse(error).into();
        }
        let nature = entry.tool.nature(call.arguments);
        let (ruling, wish) = self.rule_entry(entry, nature, call);
        Judgement { verdict: verdict(entry, nature, &ruling, wish, call.arguments), ruling: Some(ruling) }
    }

    fn why_off(&self, tool: &str) -> Option<&str> {
        let off = self.off.iter().find(|off| policy::matches(&off.name, tool));
        off.filter(|_| !self.tools.contains_key(tool)).map(|off| off.why.as_str())
    }

    fn at_once(&self, tool: &str, arguments: &Value, now: Millis, limits: &Limits) -> Option<ToolOutcome> {
        let entry = self.tools.get(tool)?;
        let answer = catch_unwind(AssertUnwindSafe(|| entry.tool.at_once(arguments, now)));
        let answer = answer.unwrap_or_else(|panic| Some(Err(panic_error(&*panic))))?;
        Some(self.outcome(tool, answer, limits.tool_output_bytes))
    }

    fn check_value(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let schema =
            Schema::compile(schema).map_err(|error| format!("The schema cannot be used: {}", describe(&error)))?;
        schema.check_answer(value).map_err(|error| error.message)
    }

    fn judge_edited(&self, call: &Proposal<'_>) -> Result<Judgement, Fault> {
        self.check_edited(call)?;
        let judgement = self.judge(call);
        let Verdict::Refuse(error) = judgement.verdict else { return Ok(judgement) };
        let way_out =
            if error.has(CallCode::Denied) { "Send other arguments, or reject the call." } else { "Reject the call." };
        Err(Fault::new(Code::Invalid, format!("{} {way_out}", error.message)).at(EDITED, error.message))
    }

    fn foresee(&self, thread: &ThreadId, settings: &RunSettings, tool: &str) -> Option<ToolForecast> {
        let nothing = Value::Object(Map::new());
        let call = Proposal { thread, settings, tool, arguments: &nothing };
        let (spec, default, wishes) = match (settings.client_tool(tool), self.tools.get(tool)) {
            (Some(client), _) => (Arc::new(client.spec()), client_default(), false),
            (None, Some(entry)) if is_enabled(settings, tool) => {
                let default = self.policy.class_default(entry.spec.class, builtin::is_own(tool));
                (entry.spec.clone(), default, entry.always_wants_approval(&nothing))
            }
            (None, _) => return None,
        };
        let policy::PolicyForecast { ruling, conditions, has_more } = self.policy.foresee(&call, default);
        Some(ToolForecast {
            tool_name: spec.name.clone(),
            class: spec.class,
            idempotent: spec.idempotent,
            risk_level: spec.risk_level,
            policy: if wishes { ask_by_default(ruling) } else { ruling },
            conditions,
            more_conditions: has_more,
        })
    }

    fn check_answer(&self, suspension: &Suspension, value: &Value) -> Result<(), Fault> {
        answer::check(&suspension.feedback_schema, value)
    }
}

/// Where only the default applies, a tool that wants approval gets it.
fn ask_by_default(ruling: Ruling) -> Ruling {
    match (ruling.action, ruling.scope) {
        (PolicyAction::Auto, RuleScope::Default) => Ruling::new(PolicyAction::Ask, "the tool asks", RuleScope::Default),
        (PolicyAction::Auto | PolicyAction::Ask | PolicyAction::Deny, _) => ruling,
    }
}

fn client_default() -> Ruling {
    Ruling::new(PolicyAction::Auto, "the caller's own tool", RuleScope::Default)
}

fn ask(spec: &ToolSpec, nature: Nature, wish: Option<Approval>, delegates: bool) -> Verdict {
    let (message, risk) = match wish {
        Some(wish) => (wish.message, wish.risk.or(spec.risk_level)),
        None => (format!("May `{}` run with these arguments?", spec.name), spec.risk_level),
    };
    let schema = FeedbackSchema { allow_modify_args: true, ..FeedbackSchema::new(InputType::Confirm, message.clone()) };
    Verdict::Ask { class: nature.class, idempotent: nature.idempotent, message, schema, risk, delegates }
}

/// The number of subschemas of the tool, if all are usable.
fn count_schemas(spec: &ToolSpec, place: &str) -> Result<usize, Fault> {
    check_schemas(spec).map_err(|(member, error)| {
        let why = format!("has a schema that cannot be used: {}", describe(&error));
        invalid_tool(&spec.name, place, &format!("{member}{}", error.pointer), why)
    })
}

fn invalid_tool(tool: &str, place: &str, member: &str, why: String) -> Fault {
    Fault::new(Code::Invalid, format!("The tool `{tool}` {why}.")).at(format!("{place}/{member}"), why)
}

fn denied(tool: &str, ruling: &Ruling) -> Verdict {
    Verdict::Refuse(denial(tool, ruling))
}

fn denial(tool: &str, ruling: &Ruling) -> ToolError {
    let why = ruling.reason.as_ref().map_or_else(String::new, |reason| format!(" {reason}"));
    ToolError::new(CallCode::Denied, format!("Policy denies `{tool}` ({}).{why}", ruling.rule))
}

fn refuse(code: CallCode, message: String) -> Verdict {
    Verdict::Refuse(ToolError::new(code, message))
}

/// Delegation can also be switched off by a setting of its own.
fn is_enabled(settings: &RunSettings, tool: &str) -> bool {
    if tool == task::TOOL && !settings.execution.enable_a2a_delegation {
        return false;
    }
    settings.enabled_tools.as_ref().is_none_or(|names| names.iter().any(|name| policy::matches(name, tool)))
}
