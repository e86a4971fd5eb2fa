//! Schemas and values that are small to send and slow to process are refused at the entry.

use std::time::{Duration, Instant};

use pes::domain::hitl::{FeedbackSchema, InputType, SelectOption};
use pes::domain::tool::Verdict;
use pes::tool::answer;
use serde_json::{Map, Value, json};

use crate::support::app::App;

/// 4 KB that cause 2^40 checks of one value.
fn bomb() -> Value {
    let mut defs = Map::new();
    for at in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/l{}", at + 1) });
        defs.insert(format!("l{at}"), json!({ "allOf": [next.clone(), next] }));
    }
    defs.insert("l40".to_owned(), json!({ "type": "object" }));
    json!({ "type": "object", "$ref": "#/$defs/l0", "$defs": defs })
}

#[tokio::test]
async fn a_schema_bomb_is_refused_at_every_door() {
    let app = App::start().await;
    let unevaluated = json!({ "type": "object", "properties": { "a": { "unevaluatedProperties": false } } });
    for (schema, place) in [(bomb(), ""), (unevaluated, "/properties/a/unevaluatedProperties")] {
        let tool = json!({ "name": "t", "description": "d", "inputSchema": schema });
        let ask = json!({ "query": "hello", "options": { "clientTools": [tool] } });
        let problem = app.post("/threads/t1/process", ask).await.problem("invalid");
        assert_eq!(
            problem["errors"][0]["pointer"],
            format!("/options/clientTools/0/inputSchema{place}"),
            "{problem:#}"
        );
        let tool = |schema: &Value| json!({ "name": "h", "description": "d", "url": "https://example.com/", "inputSchema": schema });
        let problem = app.post("/http-tools", tool(&schema)).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], format!("/inputSchema{place}"));
        let mut output = tool(&json!({ "type": "object" }));
        app.post("/http-tools", output.clone()).await.expect(201);
        output["outputSchema"] = schema;
        let problem = app.ask("PUT", "/http-tools/h").json(&output).send().await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], format!("/outputSchema{place}"));
        app.ask("DELETE", "/http-tools/h").send().await;
    }
}

#[tokio::test]
async fn many_tools_of_a_caller_are_bounded_together() {
    let app = App::start().await;
    let wide: Map<String, Value> = (0..500).map(|at| (format!("p{at}"), json!({ "type": "string" }))).collect();
    let tool =
        |at: usize| json!({ "name": format!("t{at}"), "description": "d", "inputSchema": { "properties": wide } });
    let ask = |tools: usize| json!({ "query": "hello", "options": { "clientTools": (0..tools).map(tool).collect::<Vec<_>>() } });
    app.post("/threads/t1/process", ask(3)).await.expect(202);
    let problem = app.post("/threads/t2/process", ask(4)).await.problem("invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/options/clientTools/3/inputSchema");
}

#[test]
fn a_model_cannot_ask_with_a_schema_bomb() {
    let asked = json!({ "question": "?", "inputType": "custom", "schema": bomb() });
    let tools = crate::tool::everything(pes::config::Environment::Development);
    let verdict = crate::tool::judge(&tools, &crate::tool::settings(None, &[]), "ask_user", &asked);
    let Verdict::Refuse(error) = verdict else { panic!("{verdict:?}") };
    assert_eq!(error.code, "invalid_arguments");
}

#[test]
fn a_selection_takes_no_longer_than_it_is_long() {
    let options: Vec<SelectOption> =
        (0..20_000).map(|at| SelectOption { value: at.into(), label: at.to_string() }).collect();
    let form = FeedbackSchema {
        input_type: InputType::Multiselect,
        prompt: "?".to_owned(),
        options,
        allow_modify_args: false,
        custom_schema: None,
    };
    let began = Instant::now();
    answer::check(&form, &(0..20_000).rev().collect::<Vec<_>>().into()).unwrap();
    // Comparing each pair takes a hundred times as long.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    answer::check(&form, &json!([1, 2, 1])).unwrap_err();
    answer::check(&form, &json!([1, 20_000])).unwrap_err();
}
