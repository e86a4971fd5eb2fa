//! A toolset: the tools that one tenant may call, and the judgement of every call before it starts.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::policy::{self, Policy};
use super::schema::{MOST_SCHEMAS, Schema, why};
use super::{Approval, Nature, Tool, ToolOutput, answer, broke, builtin};
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault, Pointed};
use crate::domain::forecast::ToolForecast;
use crate::domain::hitl::{FeedbackSchema, InputType, Suspension};
use crate::domain::ids::ThreadId;
use crate::domain::policy::{RuleScope, Ruling};
use crate::domain::settings::{PolicyAction, RunSettings};
use crate::domain::task;
use crate::domain::thread::Limits;
use crate::domain::tool::{ClientTool, Judgement, Proposal, ToolClass, ToolError, ToolOutcome, ToolSpec, Verdict};
use crate::engine::Toolbox;

/// Where edited arguments stand in an answer.
const EDITED: &str = "/modifiedArgs";
/// What a call is refused as that policy denies.
const DENIED: &str = "denied";

/// The tools that one tenant's agents may call: the server's own and those of the tenant's sources.
pub struct Toolset {
    tools: BTreeMap<String, Arc<Entry>>,
    policy: Arc<Policy>,
}

/// A tool with what is prepared once for all of its calls.
pub(super) struct Entry {
    tool: Arc<dyn Tool>,
    spec: Arc<ToolSpec>,
    arguments: Schema,
    output: Option<Schema>,
}

impl Entry {
    /// Refuses a name that no provider takes and a schema that cannot be compiled.
    pub(super) fn new(tool: Arc<dyn Tool>) -> Result<Self, Fault> {
        let spec = tool.spec();
        let refuse = |why: &str| Fault::new(Code::Invalid, format!("The tool `{}` {why}.", spec.name));
        if !is_name(&spec.name) {
            return Err(refuse("needs a name of 1 to 64 characters of a-z, A-Z, 0-9, _ and -"));
        }
        let arguments = Schema::compile(&spec.input_schema)
            .map_err(|no| refuse(&format!("has an input schema that cannot be used: {}", why(&no))))?;
        let output = spec.output_schema.as_ref().map(Schema::compile).transpose();
        let output = output.map_err(|no| refuse(&format!("has an output schema that cannot be used: {}", why(&no))))?;
        metrics::counter!("pes_tool_schemas_compiled_total").increment(1);
        Ok(Self { tool, spec, arguments, output })
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether the tool wants a person's yes whatever its arguments are.
    fn wishes(&self, nothing: &Value) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.tool.approval(nothing))).is_ok_and(|wish| wish.is_some())
    }
}

impl Toolset {
    pub(super) fn new(tools: BTreeMap<String, Arc<Entry>>, policy: Arc<Policy>) -> Self {
        Self { tools, policy }
    }

    /// The same tools under another policy.
    pub fn under(&self, policy: Arc<Policy>) -> Self {
        Self { tools: self.tools.clone(), policy }
    }

    pub(super) fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The same tools and those of `sources`, earlier sources first. What cannot be used or would hide another tool is
    /// left out and logged. Tools that `last` held already are not prepared again.
    pub(super) fn joined(&self, sources: &[Arc<[Arc<dyn Tool>]>], last: Option<&Toolset>) -> Self {
        let mut tools = self.tools.clone();
        for tool in sources.iter().flat_map(|tools| tools.iter()) {
            let entry = match last.and_then(|last| last.holding(tool)) {
                Some(entry) => entry,
                None => match Entry::new(tool.clone()) {
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
        Self::new(tools, self.policy.clone())
    }

    fn holding(&self, tool: &Arc<dyn Tool>) -> Option<Arc<Entry>> {
        let entry = self.tools.get(&tool.spec().name)?;
        Arc::ptr_eq(&entry.tool, tool).then(|| entry.clone())
    }

    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| entry.tool.clone())
    }

    /// In order of their names.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.tools.values().map(|entry| entry.spec.clone()).collect()
    }

    /// What a call comes to: what it brought back, if that is within bounds and what its tool declares.
    pub fn kept(&self, tool: &str, answer: Result<ToolOutput, ToolError>, most_bytes: usize) -> ToolOutcome {
        let declared = self.tools.get(tool).and_then(|entry| entry.output.as_ref());
        let kept = answer.and_then(|brought| {
            brought.check_bounds(most_bytes)?;
            declared.map_or(Ok(()), |schema| schema.check_output(&brought.output))?;
            Ok(brought)
        });
        match kept {
            Ok(ToolOutput { output, metadata, state_patch }) => {
                ToolOutcome { result: Ok(output), metadata, state_patch, duration_ms: 0, executed: None }
            }
            Err(error) => ToolOutcome::failed(error),
        }
    }

    /// Tools of the caller's own, declared for one run: none may hide another, and each must be usable.
    pub fn check_client_tools(&self, tools: &[ClientTool]) -> Result<(), Fault> {
        let mut schemas = 0;
        for (at, tool) in tools.iter().enumerate() {
            let place = format!("/options/clientTools/{at}");
            if tools[..at].iter().any(|other| other.name == tool.name) {
                return Err(unfit(&tool.name, &place, "name", "is declared twice".to_owned()));
            }
            schemas += self.check(&tool.spec(), &place)?;
            if schemas > MOST_SCHEMAS {
                let why = format!("and those before it have more than {MOST_SCHEMAS} schemas within their schemas");
                return Err(unfit(&tool.name, &place, "inputSchema", why));
            }
        }
        Ok(())
    }

    /// A tool that is to be offered beside these.
    pub fn check_new(&self, spec: &ToolSpec) -> Result<(), Fault> {
        self.check(spec, "").map(drop)
    }

    /// What a tool that is offered already is to be from now on.
    pub fn check_changed(spec: &ToolSpec) -> Result<(), Fault> {
        schemas_fit(spec, "").map(drop)
    }

    /// How many schemas stand within the tool's.
    fn check(&self, spec: &ToolSpec, place: &str) -> Result<usize, Fault> {
        let refuse = |member: &str, why: String| Err(unfit(&spec.name, place, member, why));
        if !is_name(&spec.name) {
            return refuse("name", "needs a name of 1 to 64 characters of a-z, A-Z, 0-9, _ and -".to_owned());
        }
        if self.tools.contains_key(&spec.name) {
            return refuse("name", "has the name of another tool".to_owned());
        }
        schemas_fit(spec, place)
    }

    /// What policy and the tool itself make of a call with arguments that fit; `None`: there is no such tool.
    pub fn ruling(&self, call: &Proposal<'_>) -> Option<Ruling> {
        if call.settings.client_tool(call.tool).is_some() {
            return Some(self.ruled_of_client(call));
        }
        let entry = self.tools.get(call.tool)?;
        Some(self.ruled(entry, entry.tool.nature(call.arguments), call).0)
    }

    fn ruled(&self, entry: &Entry, nature: Nature, call: &Proposal<'_>) -> (Ruling, Option<Approval>) {
        let default = self.policy.of_class(nature.class, builtin::is_own(&entry.spec.name));
        let ruling = self.policy.decide(call, default);
        let wish = entry.tool.approval(call.arguments);
        (if wish.is_some() { wished(ruling) } else { ruling }, wish)
    }

    /// What the caller's own program carries out needs no class: only a rule about it holds it back.
    fn ruled_of_client(&self, call: &Proposal<'_>) -> Ruling {
        self.policy.decide(call, default_of_clients())
    }

    /// Every mistake at its place. Where there is no schema to fit, the judgement says so.
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
            Err(no) => {
                return refuse("invalid_arguments", format!("The tool's schema cannot be used: {}", why(&no))).into();
            }
        }
        let ruling = self.ruled_of_client(call);
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

/// How many schemas stand within a tool's, or which member is refused and why.
pub fn check_schemas(spec: &ToolSpec) -> Result<usize, (&'static str, Pointed)> {
    let mut schemas = 0;
    for (member, schema) in [("inputSchema", Some(&spec.input_schema)), ("outputSchema", spec.output_schema.as_ref())] {
        if let Some(schema) = schema {
            schemas += Schema::compile(schema).map_err(|no| (member, no))?.cost().schemas;
        }
    }
    Ok(schemas)
}

/// What becomes of a call by this ruling.
fn verdict(entry: &Entry, nature: Nature, ruling: &Ruling, wish: Option<Approval>, arguments: &Value) -> Verdict {
    if ruling.action == PolicyAction::Deny {
        return denied(&entry.spec.name, ruling);
    }
    if let Some((message, schema)) = entry.tool.question(arguments) {
        return match answer::check_form(&schema) {
            Ok(()) => Verdict::Input { message, schema },
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
        // A tool that came after the run was accepted does not take the place of the caller's.
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
            return refuse("unknown_tool", format!("There is no tool `{}`.", call.tool)).into();
        };
        if !is_enabled(call.settings, call.tool) {
            return refuse("disabled_tool", format!("The tool `{}` is not enabled for this thread.", call.tool)).into();
        }
        if let Err(error) = entry.arguments.check_call(call.arguments) {
            return Verdict::Refuse(error).into();
        }
        let nature = entry.tool.nature(call.arguments);
        let (ruling, wish) = self.ruled(entry, nature, call);
        Judgement { verdict: verdict(entry, nature, &ruling, wish, call.arguments), ruling: Some(ruling) }
    }

    fn at_once(&self, tool: &str, arguments: &Value, now: Millis, limits: &Limits) -> Option<ToolOutcome> {
        let entry = self.tools.get(tool)?;
        let answer = catch_unwind(AssertUnwindSafe(|| entry.tool.at_once(arguments, now)));
        let answer = answer.unwrap_or_else(|panic| Some(Err(broke(&*panic))))?;
        Some(self.kept(tool, answer, limits.tool_output_bytes))
    }

    fn check_value(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let schema = Schema::compile(schema).map_err(|no| format!("The schema cannot be used: {}", why(&no)))?;
        schema.check_answer(value).map_err(|error| error.message)
    }

    fn judge_edited(&self, call: &Proposal<'_>) -> Result<Judgement, Fault> {
        self.check_edited(call)?;
        let judgement = self.judge(call);
        let Verdict::Refuse(error) = judgement.verdict else { return Ok(judgement) };
        let way_out = match error.code.as_str() {
            DENIED => "Send other arguments, or reject the call.",
            _ => "Reject the call.",
        };
        Err(Fault::new(Code::Invalid, format!("{} {way_out}", error.message)).at(EDITED, error.message))
    }

    fn foresee(&self, thread: &ThreadId, settings: &RunSettings, tool: &str) -> Option<ToolForecast> {
        let nothing = Value::Object(Map::new());
        let call = Proposal { thread, settings, tool, arguments: &nothing };
        let (spec, default, wishes) = match (settings.client_tool(tool), self.tools.get(tool)) {
            (Some(client), _) => (Arc::new(client.spec()), default_of_clients(), false),
            (None, Some(entry)) if is_enabled(settings, tool) => {
                let default = self.policy.of_class(entry.spec.class, builtin::is_own(tool));
                (entry.spec.clone(), default, entry.wishes(&nothing))
            }
            (None, _) => return None,
        };
        let policy::Foreseen { ruling, conditions, has_more } = self.policy.foresee(&call, default);
        Some(ToolForecast {
            tool_name: spec.name.clone(),
            class: spec.class,
            idempotent: spec.idempotent,
            risk_level: spec.risk_level,
            policy: if wishes { wished(ruling) } else { ruling },
            conditions,
            more_conditions: has_more,
        })
    }

    fn check_answer(&self, suspension: &Suspension, value: &Value) -> Result<(), Fault> {
        answer::check(&suspension.feedback_schema, value)
    }
}

/// What is left to the default, as the tool itself wants a person's yes.
fn wished(ruling: Ruling) -> Ruling {
    match (ruling.action, ruling.scope) {
        (PolicyAction::Auto, RuleScope::Default) => Ruling::new(PolicyAction::Ask, "the tool asks", RuleScope::Default),
        (PolicyAction::Auto | PolicyAction::Ask | PolicyAction::Deny, _) => ruling,
    }
}

fn default_of_clients() -> Ruling {
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

/// How many schemas stand within the tool's, if all can be used.
fn schemas_fit(spec: &ToolSpec, place: &str) -> Result<usize, Fault> {
    check_schemas(spec).map_err(|(member, no)| {
        let why = format!("has a schema that cannot be used: {}", why(&no));
        unfit(&spec.name, place, &format!("{member}{}", no.pointer), why)
    })
}

fn unfit(tool: &str, place: &str, member: &str, why: String) -> Fault {
    Fault::new(Code::Invalid, format!("The tool `{tool}` {why}.")).at(format!("{place}/{member}"), why)
}

fn denied(tool: &str, ruling: &Ruling) -> Verdict {
    let why = ruling.reason.as_ref().map_or_else(String::new, |reason| format!(" {reason}"));
    refuse(DENIED, format!("Policy denies `{tool}` ({}).{why}", ruling.rule))
}

fn refuse(code: &str, message: String) -> Verdict {
    Verdict::Refuse(ToolError::new(code, message))
}

/// Delegating is one more thing that can be switched off.
fn is_enabled(settings: &RunSettings, tool: &str) -> bool {
    if tool == task::TOOL && !settings.execution.enable_a2a_delegation {
        return false;
    }
    settings.enabled_tools.as_ref().is_none_or(|names| names.iter().any(|name| policy::matches(name, tool)))
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
