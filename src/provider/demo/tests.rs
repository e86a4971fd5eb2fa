use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Map, Value, json};

use super::*;
use crate::domain::fault::Code;
use crate::domain::model::{CallContext, Delta, FailureKind, ModelFailure, ModelRequest, Phase, StopReason, Usage};
use crate::domain::prompt::PromptMessage;
use crate::provider::ChatModel;

fn request(line: &str, query: &str, iteration: u32) -> ModelRequest {
    ModelRequest {
        provider: PROVIDER.into(),
        model: MODEL.into(),
        phase: Phase::Planning,
        messages: vec![PromptMessage::System { content: format!("{line}\nYou plan.") }],
        tools: Vec::new(),
        response_schema: None,
        params: Map::new(),
        trace_id: "trace".into(),
        trace: Default::default(),
        context: CallContext { query: query.into(), iteration, attempt: 1, ..CallContext::default() },
    }
}

/// Text, calls by name and arguments, and the stop reason.
async fn ask(
    script: Script,
    request: ModelRequest,
) -> Result<(String, Vec<(String, String)>, StopReason), ModelFailure> {
    let mut stream = Demo::new(script, Duration::ZERO).call(request).await?;
    let (mut text, mut calls) = (String::new(), Vec::<(String, String)>::new());
    while let Some(delta) = stream.next().await {
        match delta? {
            Delta::Text(piece) => text.push_str(&piece),
            Delta::ToolCall { name: Some(name), .. } => calls.push((name, String::new())),
            Delta::ToolCall { index, arguments, .. } => calls[index as usize].1.push_str(&arguments),
            Delta::Stop(stop) => return Ok((text, calls, stop)),
            Delta::Thinking(_) | Delta::WasThinking | Delta::Replay(_) | Delta::Usage(_) => {}
        }
    }
    panic!("the stream ended without a stop")
}

#[tokio::test]
async fn every_item_of_the_offered_plans_can_be_worked_on() {
    let script = Script::builtin();
    for (prompt, line) in script.prompts.iter().zip(["planning", "planning", "refinement"]) {
        let (plan, _, stop) = ask(script.clone(), request(&format!("Phase: {line}"), prompt, 1)).await.unwrap();
        assert_eq!(stop, StopReason::EndTurn);
        let plan: Value = serde_json::from_str(&plan).unwrap();
        let items = plan["todoList"].as_array().unwrap();
        assert!(!items.is_empty(), "{prompt}");
        for item in items {
            let id = item["id"].as_str().unwrap();
            let first = ask(script.clone(), request(&format!("Phase: execution {id}"), prompt, 1)).await.unwrap();
            let required = item["requiredTools"].as_array().cloned().unwrap_or_default();
            let called: Vec<Value> = first.1.iter().map(|(name, _)| json!(name)).collect();
            assert_eq!(called, required, "{id}");
            first.1.iter().for_each(|(_, arguments)| drop(serde_json::from_str::<Value>(arguments).unwrap()));
            let last = ask(script.clone(), request(&format!("Phase: execution {id}"), prompt, 3)).await.unwrap();
            assert!(last.1.is_empty() && !last.0.contains("demo model"), "{id} never ends");
        }
        let (answer, ..) = ask(script.clone(), request("Phase: synthesis", prompt, 1)).await.unwrap();
        assert!(answer.contains("<mainContent>"), "{prompt}");
    }
}

#[tokio::test]
async fn anything_else_is_answered_honestly() {
    let (plan, ..) = ask(Script::builtin(), request("Phase: planning", "What is love?", 1)).await.unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["todoList"], json!([]));
    let answer = plan["answer"].as_str().unwrap();
    assert!(answer.contains("OPENAI_API_KEY") && answer.contains(&Script::builtin().prompts[0]));
}

const SCRIPT: &str = r#"
[[reply]]
when = { phase = "execution", item = "a", attempt = [1, 2] }
text = "one two three"
fail = { kind = "retry", status = 503, retry_after_ms = 40, after = 2 }

[[reply]]
when = { phase = "execution", item = "/^b/" }
fail = { kind = "refused", message = "no" }

[[reply]]
when = { phase = "execution", item = "c" }
text = "never ends"
hang = true

[[reply]]
when = { phase = "execution", item = "d", tool_result = '/"sum":\s*3/' }
text = "{{item}}: {{tool_result/output/sum}} of {{query}} {{unknown}}"

[[reply]]
when = { phase = "planning", message = "msg_1" }
calls = [{ tool = "broken", arguments = "{\"a\": ", id = "x" }]
usage = { input = 7, output = 9 }
stop = "max_tokens"

[[admission]]
model = "demo-busy"
code = "provider_saturated"
detail = "later"
retry_after_ms = 900
"#;

#[tokio::test]
async fn a_script_fails_when_it_says_so() {
    let script = Script::parse(SCRIPT).unwrap();
    let demo = Demo::new(script.clone(), Duration::ZERO);
    let said: Vec<_> = demo.call(request("Phase: execution a", "", 1)).await.unwrap().collect().await;
    assert_eq!(said[..2], [Ok(Delta::Text("one ".into())), Ok(Delta::Text("two ".into()))]);
    let failure = said[2].clone().unwrap_err();
    assert_eq!((said.len(), failure.kind), (3, FailureKind::Retry));
    assert_eq!((failure.http_status, failure.retry_after_ms), (Some(503), Some(40)));
    let refused = ask(script, request("Phase: execution b2", "", 1)).await.unwrap_err();
    assert_eq!((refused.kind, refused.message.as_str()), (FailureKind::Refused, "no"));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_reply_says_its_text_and_never_stops() {
    let demo = Demo::new(Script::parse(SCRIPT).unwrap(), Duration::from_millis(5));
    let mut stream = demo.call(request("Phase: execution c", "", 1)).await.unwrap();
    let said: Vec<_> = stream.by_ref().take(3).collect().await;
    assert!(matches!(&said[2], Ok(Delta::Usage(_))), "{said:?}");
    assert!(tokio::time::timeout(Duration::from_secs(3600), stream.next()).await.is_err());
}

#[tokio::test]
async fn a_reply_sees_what_its_tools_brought() {
    let mut asked = request("Phase: execution d", "the query", 2);
    asked.messages.push(PromptMessage::Assistant { content: String::new(), tool_calls: Vec::new(), replay: None });
    let content = "--- BEGIN x 1 ---\nchanged\n{\"output\": {\"sum\": 3}}\n--- END x 1 ---".to_owned();
    asked.messages.push(PromptMessage::Tool { tool_call_id: "1".into(), name: "calculator".into(), content });
    let (text, ..) = ask(Script::parse(SCRIPT).unwrap(), asked).await.unwrap();
    assert_eq!(text, "d: 3 of the query {{unknown}}");
}

#[tokio::test]
async fn calls_usage_and_stop_are_as_written() {
    let mut asked = request("Phase: planning", "", 1);
    asked.context.message_id = "msg_1".into();
    let demo = Demo::new(Script::parse(SCRIPT).unwrap(), Duration::ZERO);
    let said: Vec<Delta> = demo.call(asked.clone()).await.unwrap().map(Result::unwrap).collect().await;
    assert!(said.contains(&Delta::Usage(Usage { input_tokens: 7, output_tokens: 9, ..Usage::default() })));
    let (_, calls, stop) = ask(Script::parse(SCRIPT).unwrap(), asked).await.unwrap();
    assert_eq!((calls, stop), (vec![("broken".into(), "{\"a\": ".into())], StopReason::MaxTokens));
}

#[test]
fn admission_follows_the_script() {
    let demo = Demo::new(Script::parse(SCRIPT).unwrap(), Duration::ZERO);
    assert!(demo.admit(MODEL, &Map::new()).is_ok());
    let busy = demo.admit("demo-busy", &Map::new()).unwrap_err();
    assert_eq!((busy.code, busy.retry_after_ms), (Code::ProviderSaturated, Some(900)));
    assert_eq!(demo.admit("gpt-9", &Map::new()).unwrap_err().code, Code::Invalid);
}

#[tokio::test]
async fn the_examples_of_the_documentation_are_scripts() {
    let text = include_str!("../../../docs/DEMO_SCRIPT.md");
    let examples: Vec<&str> = text.split("```").filter_map(|block| block.strip_prefix("toml\n")).collect();
    assert_eq!(examples.len(), 2);
    let script = examples.into_iter().map(|text| Script::parse(text).unwrap()).reduce(Script::or).unwrap();
    let mut asked = request("Phase: execution sum", "add two numbers. ", 1);
    assert_eq!(ask(script.clone(), asked.clone()).await.unwrap_err().http_status, Some(503));
    asked.context.attempt = 2;
    assert_eq!(
        ask(script.clone(), asked).await.unwrap().1,
        [("calculator".into(), r#"{"expression":"1 + 2"}"#.into())]
    );
    let builtin = Script::builtin();
    let dinner = request("Phase: synthesis", &builtin.prompts[0], 1);
    let expected = ask(builtin.clone(), dinner.clone()).await.unwrap().0;
    assert_eq!(ask(script.or(builtin), dinner).await.unwrap().0, expected, "the other prompts keep their answers");
}

#[test]
fn a_script_that_cannot_be_read_says_where() {
    let unknown = Script::parse("[[reply]]\ntxt = \"a\"").unwrap_err();
    assert!(
        unknown.starts_with("line 2: unknown field `txt`, expected one of ") && !unknown.contains('\n'),
        "{unknown}"
    );
    assert!(Script::parse("[[reply]]\nwhen = { item = \"/(/\" }\ntext = \"a\"").is_err());
    assert!(Script::parse("[[reply]]\nwhen = { item = \"a\" }").unwrap_err().contains("says nothing"));
    for when in ["iteration = 0", "attempt = [0, 1]"] {
        let never = Script::parse(&format!("[[reply]]\nwhen = {{ {when} }}\ntext = \"a\"")).unwrap_err();
        assert_eq!(never, "reply 1 names a number that no call has: iterations and attempts count from 1");
    }
}

#[tokio::test]
async fn the_scenarios_of_the_conformance_kit_are_found_by_the_message_of_the_client() {
    let script = Script::parse(include_str!("../../../examples/a2a-scenarios.toml")).unwrap();
    let said = async |line: &str, id: Option<&str>| {
        let mut asked = request(line, "anything", 1);
        asked.context.a2a_message_id = id.map(str::to_owned);
        ask(script.clone().or(Script::builtin()), asked).await.unwrap().0
    };
    assert!(said("Phase: planning", Some("tck-complete-task-7f")).await.contains("Hello from TCK"));
    assert!(said("Phase: planning", Some("tck-reject-task-7f")).await.contains(r#""refuse":"rejected""#));
    assert!(said("Phase: synthesis", Some("tck-artifact-file-url-7f")).await.contains("https://example.com"));
    assert!(said("Phase: synthesis", Some("tck-artifact-file-7f")).await.contains("dGNr"));
    assert!(said("Phase: refinement", Some("whatever")).await.contains("Done: anything"));
    assert!(script.reused_message_ids().contains(&"tck-".to_owned()));
    // Other clients than A2A clients are not affected.
    assert!(said("Phase: planning", None).await.contains("demo model"));
}
