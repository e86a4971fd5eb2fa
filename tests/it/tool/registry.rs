//! The registry checks in this order whether a tool is known, enabled, valid and allowed.

use std::sync::Arc;

use async_trait::async_trait;
use pes::config::Environment;
use pes::domain::hitl::{InputType, RiskLevel};
use pes::domain::settings::PolicyAction;
use pes::domain::tool::{ClientTool, Proposal, ToolClass, ToolError, ToolSpec, Verdict};
use pes::engine::Toolbox;
use pes::tool::{Registry, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};

use super::{everything, judge, settings};
use crate::support::tool::spec;

fn refusal(verdict: Verdict) -> ToolError {
    match verdict {
        Verdict::Refuse(error) => error,
        Verdict::Run { .. } | Verdict::Ask { .. } | Verdict::Input { .. } | Verdict::Client | Verdict::Delegate => {
            panic!("not refused: {verdict:?}")
        }
    }
}

#[test]
fn each_failure_has_its_code_and_the_tool_does_not_start() {
    let tools = everything(Environment::Development);
    let all = settings(None, &[]);
    let good = json!({ "expression": "1" });

    assert_eq!(refusal(judge(&tools, &all, "calculate", &good)).code, "unknown_tool");
    let none = settings(Some(&["current_*"]), &[]);
    assert_eq!(refusal(judge(&tools, &none, "calculator", &good)).code, "disabled_tool");
    let denied = settings(None, &[("calc*", PolicyAction::Deny)]);
    let error = refusal(judge(&tools, &denied, "calculator", &good));
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("denied", "Policy denies `calculator` (toolPolicy calc* = deny).")
    );

    let error = refusal(judge(&tools, &all, "calculator", &json!({ "expression": 7 })));
    assert_eq!((error.code.as_str(), error.pointer.as_deref()), ("invalid_arguments", Some("/expression")));
    let error = refusal(judge(&tools, &all, "calculator", &json!({ "expression": "1", "more": 1 })));
    assert!(error.message.contains("more"), "{}", error.message);
    assert_eq!(refusal(judge(&tools, &all, "calculator", &json!("1"))).pointer.as_deref(), Some(""));

    assert_eq!(judge(&tools, &all, "calculator", &good), Verdict::Run { class: ToolClass::Read, idempotent: true });
}

#[test]
fn what_is_offered_is_what_is_enabled() {
    let tools = everything(Environment::Development);
    let names = |enabled: Option<&[&str]>| -> Vec<String> {
        tools.offered(&settings(enabled, &[])).iter().map(|spec| spec.name.clone()).collect()
    };
    assert!(names(None).contains(&"demo_send_email".to_owned()));
    assert_eq!(names(Some(&["c*"])), ["calculator", "current_time"]);
    assert_eq!(names(Some(&["ask_user", "nothing"])), ["ask_user"]);
    assert!(names(Some(&[])).is_empty());
}

#[test]
fn an_irreversible_tool_asks_unless_a_rule_says_otherwise() {
    let tools = everything(Environment::Development);
    let mail = json!({ "to": "a@example.com", "subject": "Hi", "body": "…" });
    let (all, thread) = (settings(None, &[]), "t".into());
    let call = Proposal { thread: &thread, settings: &all, tool: "demo_send_email", arguments: &mail };
    let judgement = tools.judge(&call);
    let Verdict::Ask { message, risk, schema, idempotent, .. } = judgement.verdict else {
        panic!("it must ask");
    };
    let rule = judgement.ruling.unwrap().rule;
    assert_eq!(message, "Send the e-mail “Hi” to a@example.com?");
    assert_eq!((risk, rule.as_str()), (Some(RiskLevel::High), "default for irreversible tools = ask"));
    assert!(schema.allow_modify_args && schema.input_type == InputType::Confirm && !idempotent);

    let auto = settings(None, &[("*", PolicyAction::Deny), ("demo_*", PolicyAction::Auto)]);
    assert!(matches!(judge(&tools, &auto, "demo_send_email", &mail), Verdict::Run { .. }));
    let ask = settings(None, &[("calculator", PolicyAction::Ask)]);
    assert!(matches!(judge(&tools, &ask, "calculator", &json!({ "expression": "1" })), Verdict::Ask { .. }));
}

#[test]
fn in_production_only_reading_and_own_tools_need_no_rule() {
    let tools = everything(Environment::Production);
    let mail = json!({ "to": "a@example.com", "subject": "Hi", "body": "…" });
    let all = settings(None, &[]);
    assert_eq!(refusal(judge(&tools, &all, "demo_send_email", &mail)).code, "denied");
    assert!(matches!(judge(&tools, &all, "calculator", &json!({ "expression": "1" })), Verdict::Run { .. }));
    assert!(matches!(judge(&tools, &all, "set_agent_state", &json!({ "patch": {} })), Verdict::Run { .. }));
    let ask = settings(None, &[("demo_send_email", PolicyAction::Ask)]);
    assert!(matches!(judge(&tools, &ask, "demo_send_email", &mail), Verdict::Ask { .. }));
}

#[test]
fn edited_arguments_are_checked_like_the_originals() {
    let tools = everything(Environment::Development);
    let (mut settings, thread) = (settings(None, &[("*time", PolicyAction::Deny)]), "t".into());
    let input_schema = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
    settings.client_tools = vec![ClientTool { name: "locate".into(), description: String::new(), input_schema }];
    let edited = |tool: &str, arguments: Value| {
        tools.judge_edited(&Proposal { thread: &thread, settings: &settings, tool, arguments: &arguments })
    };
    let fault = edited("calculator", json!({ "expression": 1 })).unwrap_err();
    assert_eq!(fault.errors[0].pointer, "/modifiedArgs/expression");
    assert!(edited("calculator", json!({ "expression": "1" })).unwrap().verdict.is_idempotent());
    assert_eq!(edited("locate", json!({ "n": "x" })).unwrap_err().errors[0].pointer, "/modifiedArgs/n");
    assert_eq!(edited("locate", json!({ "n": 1 })).unwrap().verdict, Verdict::Client);
    let gone = edited("gone", json!({})).unwrap_err();
    assert!(gone.detail.ends_with("Reject the call."), "{gone}");
    let denied = edited("current_time", json!({})).unwrap_err();
    assert_eq!((denied.code.as_str(), denied.errors[0].pointer.as_str()), ("invalid", "/modifiedArgs"));
    assert!(denied.detail.contains("toolPolicy *time = deny"), "{denied}");
}

struct Named(&'static str, Value);

#[async_trait]
impl Tool for Named {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec { input_schema: self.1.clone(), ..spec(self.0) })
    }
    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::default())
    }
}

#[test]
fn a_registry_with_a_defect_is_not_built() {
    let build = |tools: Vec<Named>| {
        let tools = tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>).collect();
        Registry::new(tools, Environment::Development).map(|_| ()).map_err(|fault| fault.detail)
    };
    assert!(build(vec![Named("a", json!({})), Named("b", json!({}))]).is_ok());
    assert!(build(vec![Named("a", json!({})), Named("a", json!({}))]).unwrap_err().contains("registered twice"));
    assert!(build(vec![Named("a b", json!({}))]).unwrap_err().contains("needs a name"));
    assert!(build(vec![Named("a", json!({ "type": "objekt" }))]).unwrap_err().contains("cannot be used"));
    assert!(build(vec![Named("a", json!({ "$ref": "http://127.0.0.1:1/x" }))]).unwrap_err().contains("cannot be used"));
}
