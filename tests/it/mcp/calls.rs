//! How a server's tools are offered, and what a call returns.

use pes::config::McpServer;
use pes::domain::tool::ToolClass;
use pes::mcp::{Health, ToolStanding, ToolView};
use serde_json::{Value, json};

use super::bed::Bed;
use crate::support::http::soon;
use crate::support::tool::context;

#[tokio::test]
async fn a_tool_is_named_after_its_server_and_classed_by_what_it_declares() {
    let bed = Bed::new(|server| {
        server.class.insert("fa*".to_owned(), ToolClass::External);
    })
    .await;
    let spec = bed.tool("evil__echo").await.spec();
    assert_eq!((spec.class, spec.idempotent, spec.timeout_ms), (ToolClass::Read, true, 60_000));
    let class = async |name: &str| {
        let spec = bed.tool(name).await.spec();
        (spec.class, spec.idempotent)
    };
    assert_eq!(class("evil__hang").await, (ToolClass::Write, false));
    assert_eq!(class("evil__once").await, (ToolClass::Write, true));
    assert_eq!(class("evil__changing").await, (ToolClass::Irreversible, false));
    assert_eq!(class("evil__change").await, (ToolClass::External, false));
    assert_eq!(class("evil__fail").await, (ToolClass::External, false), "overruled by the operator");
}

#[tokio::test]
async fn a_call_carries_its_key_and_its_trace() {
    let bed = Bed::new(|_| ()).await;
    let output = bed.call("echo", json!({ "a": [1] })).await.unwrap().output;
    let said: Value = serde_json::from_str(output.as_str().unwrap()).unwrap();
    assert_eq!(said["arguments"], json!({ "a": [1] }));
    assert_eq!(said["meta"]["pes/idempotencyKey"], "t/call_1");
    let trace = said["meta"]["traceparent"].as_str().unwrap();
    assert_eq!(trace, context().trace.parent);
    assert!(trace.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && trace.len() == 55, "{trace}");
}

#[tokio::test]
async fn structured_content_comes_before_text_and_pictures_are_referred_to() {
    let bed = Bed::new(|_| ()).await;
    assert_eq!(bed.call("structured", json!({})).await.unwrap().output, json!({ "n": 1 }));
    let picture = bed.call("picture", json!({})).await.unwrap();
    let shown = "Here:\n[image: metadata.content.0]\n[resource: metadata.content.1; name: x; uri: file:///x]";
    assert_eq!(picture.output, shown);
    let content = &picture.metadata.unwrap()["content"];
    assert_eq!(content[0], json!({ "type": "image", "mimeType": "image/png", "data": "aGVsbG8=" }));
    assert_eq!(content[1]["uri"], "file:///x");
    let gallery = bed.call("gallery", json!({})).await.unwrap();
    let shown = |index| json!({ "type": "image", "mimeType": "image/png", "data": format!("[image: metadata.content.{index}]") });
    assert_eq!(gallery.output, json!({ "pictures": [shown(0), shown(1)], "n": 2 }));
    assert_eq!(gallery.metadata.unwrap()["content"][1]["data"], "d29ybGQ=");
    let error = bed.call("fail", json!({})).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("failed", "no such thing"));
}

/// Only a call that failed is ordered again.
#[tokio::test]
async fn a_call_whose_result_cannot_be_read_has_not_failed() {
    let bed = Bed::new(|_| ()).await;
    let booked = bed.call("nameless_link", json!({})).await.unwrap();
    let link = "[resource: metadata.content.0; name: shop:///17; uri: shop:///17]";
    assert_eq!(booked.output, format!("booked 17\n{link}"));
    let error = bed.call("no_result", json!({})).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.is_lost()), ("invalid_output", false), "{error:?}");
    let error = bed.call("makes_a_task", json!({})).await.unwrap_err();
    assert_eq!((error.is_lost(), error.retry_after_ms), (true, None), "its work goes on: {error:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    let bed = Bed::new(|_| ()).await;
    let hanging = bed.tool("evil__hang").await;
    {
        let mut call = std::pin::pin!(hanging.call(json!({}), context()));
        // Until it is sent: calls are answered in order.
        tokio::select! {
            ended = &mut call => panic!("{ended:?}"),
            echoed = bed.call("echo", json!({})) => drop(echoed.unwrap()),
        }
    }
    let cancelled = async {
        loop {
            let said = bed.call("cancelled", json!({})).await.unwrap().output;
            if said != "" {
                return said;
            }
        }
    };
    assert_eq!(soon(cancelled).await, "one");
    bed.until(|view| view.health == Health::Ready && view.restarts == 0).await;
}

#[tokio::test]
async fn a_server_gets_no_model_call_out_of_us() {
    let bed = Bed::new(|_| ()).await;
    let refused = bed.call("sample", json!({})).await.unwrap().output;
    let refused: serde_json::Value = serde_json::from_str(refused.as_str().unwrap()).unwrap();
    let words = "This client makes no model calls for servers.";
    assert_eq!((&refused["code"], &refused["message"]), (&json!(-32601), &json!(words)));
}

#[tokio::test]
async fn two_names_that_would_be_one_are_one_tool_the_first() {
    let bed = Bed::new(|_| ()).await;
    assert_eq!(bed.call("odd_name", json!({})).await.unwrap().output, "odd.name");
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert_eq!(Bed::standing(&view, "odd_name"), ToolStanding::Shadowed);
    assert_eq!(Bed::standing(&view, "denied"), ToolStanding::Denied);
    assert!(bed.find("evil__denied").is_none());
}

#[tokio::test]
async fn a_tool_that_is_excluded_takes_no_other_ones_name() {
    let bed = Bed::new(|server| server.deny.push("odd.name".to_owned())).await;
    assert_eq!(bed.call("odd_name", json!({})).await.unwrap().output, "odd_name");
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert_eq!(Bed::standing(&view, "odd.name"), ToolStanding::Denied);
}

/// The tool stands behind many others.
#[tokio::test]
async fn only_tools_that_are_allowed_count() {
    let allow_one = |server: &mut McpServer| server.allow = vec!["respell".to_owned()];
    let bed = Bed::with(allow_one, |mcp| mcp.tools_per_server = 1).await;
    bed.call("respell", json!({ "order": "alone" })).await.unwrap();
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert!(!view.has_more_tools && view.tools.len() == 2, "the other shows that it is denied: {view:?}");
}

#[tokio::test]
async fn it_is_told_why_a_tool_is_off() {
    let bed = Bed::new(|_| ()).await;
    let is_trusted = |tool: &ToolView| tool.tool == "echo" && tool.standing == ToolStanding::Offered;
    let view = bed.until(|view| view.tools.iter().any(is_trusted)).await;
    let excluded = "the settings of its server exclude it (`allow`, `deny`)";
    assert_eq!(bed.why_off("evil__denied").await.as_deref(), Some(excluded));
    assert_eq!(bed.why_off("evil__unreadable").await.as_deref(), Some("missing field `inputSchema`"));
    assert_eq!(bed.why_off("evil__odd_name").await, None, "it is the name of an offered one");
    let reason = |name: &str| view.tools.iter().find(|tool| tool.tool == name).unwrap().reason.clone();
    assert_eq!(reason("odd_name").as_deref(), Some("its server lists another that is offered under this name"));
    assert_eq!(reason("denied").as_deref(), Some(excluded));
    assert_eq!(reason("echo"), None);
}

/// The server is up, and knows the tools that it listed before.
#[tokio::test]
async fn a_server_that_does_not_list_its_tools_again_stays_up() {
    let bed = Bed::new(|_| ()).await;
    bed.call("unlist", json!({})).await.unwrap();
    let asked_again = async { while bed.call("cancelled", json!({})).await.unwrap().output != "unlisted" {} };
    soon(asked_again).await;
    assert!(bed.call("echo", json!({})).await.is_ok());
    assert_eq!(bed.until(|view| view.health == Health::Ready).await.restarts, 0);
}

#[tokio::test]
async fn a_tool_whose_schema_is_refused_is_not_offered_and_it_is_said_why() {
    let mut bed = Bed::new(|_| ()).await;
    for _ in 0..2 {
        let view = bed.until(|view| view.health == Health::Ready).await;
        let refused = [
            ("bomb", "inputSchema/unevaluatedProperties"),
            ("deep", "nests deeper"),
            ("task_only", "as a task only"),
            ("unreadable", "missing field `inputSchema`"),
        ];
        for (name, why) in refused {
            let shown = view.tools.iter().find(|tool| tool.tool == name).unwrap();
            assert_eq!(shown.standing, ToolStanding::Refused);
            assert!(shown.reason.as_ref().unwrap().contains(why), "{shown:?}");
            assert!(bed.find(&format!("evil__{name}")).is_none());
        }
        assert!(bed.find("evil__echo").is_some());
        bed.restart();
    }
}
