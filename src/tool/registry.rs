//! All tools by name, and the judgement of every call before it may start.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::args::Schema;
use super::policy::{self, Ruling};
use super::{Approval, Tool, answer, builtin};
use crate::config::Environment;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{FeedbackSchema, InputType, Suspension};
use crate::domain::settings::{PolicyAction, RunSettings};
use crate::domain::tool::{ToolError, ToolSpec, Verdict};
use crate::engine::Toolbox;

/// The tools of this server.
pub struct Registry {
    tools: BTreeMap<String, Entry>,
    environment: Environment,
}

struct Entry {
    tool: Arc<dyn Tool>,
    spec: Arc<ToolSpec>,
    arguments: Schema,
}

impl Registry {
    /// Refuses two tools of one name, a name that no provider takes, and a schema that cannot be compiled.
    pub fn new(tools: Vec<Arc<dyn Tool>>, environment: Environment) -> Result<Self, Fault> {
        let mut registry = Self { tools: BTreeMap::new(), environment };
        for tool in tools {
            let spec = tool.spec();
            let refuse = |why: &str| Err(Fault::new(Code::Invalid, format!("The tool `{}` {why}.", spec.name)));
            if !is_name(&spec.name) {
                return refuse("needs a name of 1 to 64 characters of a-z, A-Z, 0-9, _ and -");
            }
            if registry.tools.contains_key(&spec.name) {
                return refuse("is registered twice");
            }
            let arguments = match Schema::compile(&spec.input_schema) {
                Ok(schema) => schema,
                Err(why) => return refuse(&format!("has an input schema that cannot be used: {why}")),
            };
            registry.tools.insert(spec.name.clone(), Entry { tool, spec, arguments });
        }
        Ok(registry)
    }

    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| entry.tool.clone())
    }

    /// In order of their names.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.tools.values().map(|entry| entry.spec.clone()).collect()
    }

    fn rule(&self, settings: &RunSettings, entry: &Entry) -> (Ruling, bool) {
        match policy::explicit(&settings.tool_policy, &entry.spec.name) {
            Some(ruling) => (ruling, true),
            None => (policy::by_class(self.environment, &entry.spec, builtin::is_own(&entry.spec.name)), false),
        }
    }
}

impl Toolbox for Registry {
    fn offered(&self, settings: &RunSettings) -> Vec<Arc<ToolSpec>> {
        self.tools.values().map(|entry| &entry.spec).filter(|spec| is_enabled(settings, &spec.name)).cloned().collect()
    }

    fn judge(&self, settings: &RunSettings, tool: &str, arguments: &Value) -> Verdict {
        let Some(entry) = self.tools.get(tool) else {
            return refuse("unknown_tool", format!("There is no tool `{tool}`."));
        };
        if !is_enabled(settings, tool) {
            return refuse("disabled_tool", format!("The tool `{tool}` is not enabled for this thread."));
        }
        if let Err(error) = entry.arguments.check_call(arguments) {
            return Verdict::Refuse(error);
        }
        let (ruling, is_explicit) = self.rule(settings, entry);
        if ruling.action == PolicyAction::Deny {
            return refuse("denied", format!("Policy denies `{tool}` ({}).", ruling.rule));
        }
        if let Some((message, schema)) = entry.tool.question(arguments) {
            return match answer::check_form(&schema) {
                Ok(()) => Verdict::Input { message, schema },
                Err(error) => Verdict::Refuse(error),
            };
        }
        let own_wish = entry.tool.approval(arguments);
        match (ruling.action, own_wish) {
            (PolicyAction::Ask, wish) => ask(&entry.spec, ruling.rule, wish),
            (PolicyAction::Auto, Some(wish)) if !is_explicit => {
                ask(&entry.spec, "the tool asks".to_owned(), Some(wish))
            }
            (PolicyAction::Auto | PolicyAction::Deny, _) => {
                Verdict::Run { class: entry.spec.class, idempotent: entry.spec.idempotent }
            }
        }
    }

    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), Fault> {
        match self.tools.get(tool) {
            Some(entry) => entry.arguments.check_member("/modifiedArgs", arguments),
            None => Err(Fault::new(Code::Invalid, format!("There is no tool `{tool}` any more; reject the call."))),
        }
    }

    fn check_answer(&self, suspension: &Suspension, value: &Value) -> Result<(), Fault> {
        answer::check(&suspension.feedback_schema, value)
    }
}

fn ask(spec: &ToolSpec, rule: String, wish: Option<Approval>) -> Verdict {
    let (message, risk) = match wish {
        Some(wish) => (wish.message, wish.risk.or(spec.risk_level)),
        None => (format!("May `{}` run with these arguments?", spec.name), spec.risk_level),
    };
    let schema = FeedbackSchema {
        input_type: InputType::Confirm,
        prompt: message.clone(),
        options: Vec::new(),
        allow_modify_args: true,
        custom_schema: None,
    };
    Verdict::Ask { class: spec.class, idempotent: spec.idempotent, message, schema, risk, rule }
}

fn refuse(code: &str, message: String) -> Verdict {
    Verdict::Refuse(ToolError { code: code.to_owned(), message, pointer: None })
}

fn is_enabled(settings: &RunSettings, tool: &str) -> bool {
    settings.enabled_tools.as_ref().is_none_or(|names| names.iter().any(|name| policy::matches(name, tool)))
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
