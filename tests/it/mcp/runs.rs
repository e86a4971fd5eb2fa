//! Calls of MCP tools through the real engine: what a server's crash means for the run.

use serde_json::json;

use super::bed::evil;
use crate::support::app::App;

const SCRIPT: &str = r#"
[[reply]]
when = { query = "crash", phase = "planning" }
json = { title = "C", intent = "C", plan = "C", todoList = [
    { id = "crash", description = "Crash", stepType = "tool", requiredTools = ["evil__crash"] },
] }
[[reply]]
when = { item = "crash", phase = "execution", iteration = 1 }
calls = [{ tool = "evil__crash", arguments = {} }]
[[reply]]
when = { query = "once", phase = "planning" }
json = { title = "O", intent = "O", plan = "O", todoList = [
    { id = "once", description = "Once", stepType = "tool", requiredTools = ["evil__once"] },
] }
[[reply]]
when = { item = "once", phase = "execution", iteration = 1 }
calls = [{ tool = "evil__once", arguments = {} }]
[[reply]]
when = { phase = "execution" }
text = "Done."
[[reply]]
when = { phase = "synthesis" }
text = "All done."
"#;

async fn app(folder: &std::path::Path) -> App {
    let app = App::scripted(SCRIPT, |config| _ = config.mcp.servers.insert("evil".to_owned(), evil(folder))).await;
    app.offers("evil__echo").await;
    app
}

fn calls(folder: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn an_undeclared_call_whose_server_crashed_is_left_to_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(folder.path()).await;
    let asked = app.suspend("t1", "crash").await;
    assert_eq!(asked["kind"], "in_doubt", "{asked:#}");
    assert_eq!(calls(folder.path()).len(), 1, "it is not repeated");
    let answer = json!({ "suspensionId": asked["suspensionId"], "action": "done", "value": "it worked" });
    let ask = app.ask("POST", "/threads/t1/resume").header("prefer", "wait=30").json(&answer);
    assert_eq!(ask.send().await.expect(200)["metadata"]["status"], "success");
    assert_eq!(calls(folder.path()).len(), 1);
}

#[tokio::test]
async fn an_idempotent_call_whose_server_crashed_is_made_again_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(folder.path()).await;
    let answer = app.finish("t1", "once").await;
    assert_eq!(answer["metadata"]["status"], "success", "{answer:#}");
    let calls = calls(folder.path());
    assert_eq!(calls.len(), 2);
    assert!(calls[0].contains("t1") && calls[0] == calls[1], "{calls:?}");
}
