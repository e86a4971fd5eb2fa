//! Reference servers from npm and PyPI, through the real engine. `scripts/test --peers` installs them into
//! `target/peers`.

use std::path::PathBuf;

use pes::config::McpServer;
use serde_json::{Value, json};

use crate::support::app::App;

const SCRIPT: &str = r#"
[[reply]]
when = { query = "everything", phase = "planning" }
json = { title = "E", intent = "E", plan = "E", todoList = [
    { id = "every", description = "Use everything", stepType = "tool",
      requiredTools = ["all__get-sum", "all__get-structured-content", "all__get-tiny-image"] },
] }
[[reply]]
when = { item = "every", phase = "execution", iteration = 1 }
calls = [
    { tool = "all__echo", arguments = { message = "over there" } },
    { tool = "all__get-sum", arguments = { a = 2, b = 40 } },
    { tool = "all__get-structured-content", arguments = { location = "Chicago" } },
    { tool = "all__get-tiny-image", arguments = {} },
    { tool = "all__get-env", arguments = {} },
]
[[reply]]
when = { query = "elicit", phase = "planning" }
json = { title = "A", intent = "A", plan = "A", todoList = [
    { id = "elicit", description = "Ask", stepType = "tool", requiredTools = ["all__trigger-elicitation-request"] },
] }
[[reply]]
when = { item = "elicit", phase = "execution", iteration = 1 }
calls = [{ tool = "all__trigger-elicitation-request", arguments = {} }]
[[reply]]
when = { query = "files", phase = "planning" }
json = { title = "F", intent = "F", plan = "F", todoList = [
    { id = "files", description = "Write and read", stepType = "tool",
      requiredTools = ["files__write_file", "files__read_text_file"] },
] }
[[reply]]
when = { item = "files", phase = "execution", iteration = 1 }
calls = [
    { tool = "files__write_file", arguments = { path = "{folder}/note", content = "kept" } },
    { tool = "files__read_text_file", arguments = { path = "{folder}/note" } },
    { tool = "files__read_text_file", arguments = { path = "/etc/passwd" } },
]
[[reply]]
when = { query = "time", phase = "planning" }
json = { title = "T", intent = "T", plan = "T", todoList = [
    { id = "time", description = "Convert", stepType = "tool", requiredTools = ["time__convert_time"] },
] }
[[reply]]
when = { item = "time", phase = "execution", iteration = 1 }
calls = [{ tool = "time__convert_time", arguments = { source_timezone = "UTC", time = "12:00", target_timezone = "Asia/Tokyo" } }]
[[reply]]
when = { phase = "execution" }
text = "Done."
[[reply]]
when = { phase = "synthesis" }
text = "All done."
"#;

fn peer(program: &str) -> McpServer {
    let peers = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/peers").join(program);
    McpServer { command: Some(peers.to_str().expect("a plain path").to_owned()), ..McpServer::default() }
}

/// A server with one peer; the folder is what the file server may access.
async fn app(name: &str, server: McpServer, tool: &str, folder: &str) -> App {
    let script = SCRIPT.replace("{folder}", folder);
    let app = App::scripted(&script, |config| _ = config.mcp.servers.insert(name.to_owned(), server)).await;
    app.offers(tool).await;
    app
}

/// The results of a run's calls, in the order of the calls: read-only calls end in any order.
async fn results(app: &App, query: &str) -> Vec<Value> {
    let config = json!({ "toolPolicy": { "*": "auto" } });
    app.post("/threads", json!({ "threadId": "t1", "config": config })).await.expect(201);
    let answer = app.finish("t1", query).await;
    assert_eq!(answer["metadata"]["threadId"], "t1", "{answer:#}");
    let events = app.observed("t1", "TOOL_CALL,TOOL_EXECUTION").await;
    let contents = |kind: &str| -> Vec<Value> {
        let events = events.iter();
        events.filter(|event| event["type"] == kind).map(|event| event["content"].clone()).collect()
    };
    let ended = contents("TOOL_EXECUTION");
    let calls = contents("TOOL_CALL")[0]["toolCalls"].as_array().expect("a list").clone();
    let result = |call: &Value| ended.iter().find(|result| result["callId"] == call["callId"]).cloned();
    calls.iter().filter_map(result).collect()
}

#[tokio::test]
#[ignore = "needs scripts/test --peers"]
async fn the_server_that_has_everything_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let app = app("all", peer("npm/node_modules/.bin/mcp-server-everything"), "all__echo", folder).await;
    let results = results(&app, "everything").await;
    assert_eq!(results.len(), 5, "{results:#?}");
    assert_eq!(results[0]["output"], "Echo: over there");
    assert!(results[1]["output"].as_str().unwrap().contains("42"));
    assert!(results[2]["output"]["temperature"].is_number(), "structured: {}", results[2]);
    assert!(results[3]["output"].as_str().unwrap().contains("[image: metadata.content.0]"));
    assert!(!results[4]["output"].as_str().unwrap().contains("CARGO"), "our environment is not handed on");
}

#[tokio::test]
#[ignore = "needs scripts/test --peers"]
async fn the_server_that_has_everything_asks_a_person_in_the_middle_of_a_call() {
    const TOOL: &str = "all__trigger-elicitation-request";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let app = app("all", peer("npm/node_modules/.bin/mcp-server-everything"), TOOL, folder).await;
    app.post("/threads", json!({ "threadId": "t1", "config": { "toolPolicy": { "*": "auto" } } })).await.expect(201);
    let receipt = app.post("/threads/t1/process", json!({ "query": "elicit" })).await.expect(202);
    let question = app.asked("t1").await;
    assert_eq!(question["toolName"], TOOL, "{question:#}");
    let answer = json!({ "suspensionId": question["suspensionId"], "value": { "name": "Ann", "check": true } });
    app.post("/threads/t1/resume", answer).await.expect(202);
    let run = format!("/runs/{}?wait=30", receipt["runId"].as_str().unwrap());
    assert_eq!(app.get(&run).await.expect(200)["status"], "completed");
    let call = question["callId"].as_str().unwrap();
    let call = app.get(&format!("/threads/t1/tool-calls/{call}")).await.expect(200);
    assert!(call["result"]["output"].to_string().contains("Ann"), "{call:#}");
}

#[tokio::test]
#[ignore = "needs scripts/test --peers"]
async fn the_file_server_writes_reads_and_keeps_to_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let mut server = peer("npm/node_modules/.bin/mcp-server-filesystem");
    server.args.push(folder.to_owned());
    let app = app("files", server, "files__write_file", folder).await;
    let results = results(&app, "files").await;
    assert!(results[1]["output"].to_string().contains("kept"), "{results:#?}");
    assert_eq!(results[2]["status"], "error", "an error of the server is an error here");
    assert_eq!(std::fs::read_to_string(format!("{folder}/note")).unwrap(), "kept");
}

#[tokio::test]
#[ignore = "needs scripts/test --peers"]
async fn the_time_server_converts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let app = app("time", peer("py/bin/mcp-server-time"), "time__convert_time", folder).await;
    let results = results(&app, "time").await;
    assert!(results[0]["output"].to_string().contains("21:00"), "{results:#?}");
}
