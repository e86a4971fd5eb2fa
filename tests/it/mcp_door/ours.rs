//! Two servers of ours: one uses the other as an MCP server, through rmcp's client.

use pes::config::McpServer;
use serde_json::{Value, json};

use super::host::{ALL, NEW, text};
use crate::support::app::App;

const SCRIPT: &str = r#"
[[reply]]
when = { query = "count there", phase = "planning" }
json = { title = "C", intent = "C", plan = "C", todoList = [
    { id = "far", description = "Have it counted", stepType = "tool", requiredTools = ["agent__ask"] },
] }
[[reply]]
when = { query = "send there", phase = "planning" }
json = { title = "S", intent = "S", plan = "S", todoList = [
    { id = "mail", description = "Have it sent", stepType = "tool", requiredTools = ["agent__ask"] },
] }
[[reply]]
when = { item = "far", phase = "execution", iteration = 1 }
calls = [{ tool = "agent__ask", arguments = { query = "count" } }]
[[reply]]
when = { item = "mail", phase = "execution", iteration = 1 }
calls = [{ tool = "agent__ask", arguments = { query = "send" } }]
[[reply]]
when = { phase = "execution" }
text = "Done there."
[[reply]]
when = { phase = "synthesis" }
text = "All done."
"#;

/// A server whose tools are those of `agent`.
async fn host(agent: &App) -> App {
    let url = Some(format!("http://{}/mcp", agent.address));
    let app = App::scripted(SCRIPT, |config| {
        config.egress.allow.push("127.0.0.1".to_owned());
        config.mcp.servers.insert("agent".to_owned(), McpServer { url, ..McpServer::default() });
    })
    .await;
    app.offers("agent__ask").await;
    let config = json!({ "toolPolicy": { "*": "auto" } });
    app.post("/threads", json!({ "threadId": "t1", "config": config })).await.expect(201);
    app
}

async fn output(app: &App) -> Value {
    app.observed("t1", "TOOL_EXECUTION").await[0]["content"].clone()
}

#[tokio::test]
async fn a_server_of_ours_uses_another_by_its_tools() {
    let agent = App::start().await;
    let app = host(&agent).await;
    app.finish("t1", "count there").await;
    let output = output(&app).await;
    assert_eq!(output["output"]["answer"], "Two and two are four.", "{output:#}");
    let (near, far) = (app.get("/runs").await.expect(200), agent.get("/runs").await.expect(200));
    assert_eq!(far["items"][0]["status"], "completed");
    assert_eq!(far["items"][0]["traceId"], near["items"][0]["traceId"], "both are one trace");
}

/// The nesting depth is passed from call to call: an agent may be its own tool.
#[tokio::test]
async fn calls_inside_one_another_come_to_an_end() {
    let app = App::start().await;
    for host in ALL {
        for tool in ["ask", "start"] {
            let call = async |state: &str| {
                let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
                let meta = json!({ "traceparent": parent, "tracestate": state });
                let params = json!({ "name": tool, "arguments": { "query": "hello" }, "_meta": meta });
                host.say(&app, "tools/call", params).await["result"].clone()
            };
            assert_eq!(call("a=b,pes=4").await["isError"], false);
            let refused = call("a=b,pes=5").await;
            assert!(refused["isError"] == true && text(&refused).contains("too often"), "{refused:#}");
        }
    }
    assert_eq!(app.get("/runs").await.expect(200)["items"].as_array().unwrap().len(), 6);
}

/// The question goes to the person of the calling server.
#[tokio::test]
async fn what_the_other_asks_is_asked_here() {
    let agent = App::start().await;
    let app = host(&agent).await;
    let receipt = app.post("/threads/t1/process", json!({ "query": "send there" })).await.expect(202);
    let question = app.asked("t1").await;
    assert_eq!(question["toolName"], "agent__ask");
    assert!(question["message"].as_str().unwrap().contains("demo_send_email"), "{question:#}");
    let answer = json!({ "suspensionId": question["suspensionId"], "value": { "approved": true } });
    app.post("/threads/t1/resume", answer).await.expect(202);
    let run = format!("/runs/{}?wait=30", receipt["runId"].as_str().unwrap());
    assert_eq!(app.get(&run).await.expect(200)["status"], "completed");
    let output = output(&app).await;
    assert_eq!(output["output"]["answer"], "The mail is dealt with.", "{output:#}");
    let asked = agent.get("/suspensions?status=all").await.expect(200);
    assert_eq!(asked["items"][0]["resolution"]["decision"], "approved");
    let over = NEW.call(&agent, "status", json!({ "runId": asked["items"][0]["runId"] })).await;
    assert_eq!(text(&over), "The mail is dealt with.");
}
