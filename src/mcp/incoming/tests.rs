use rmcp::model::CallToolResult;

use super::*;

fn read(message: &Value) -> Option<Message> {
    Reader::new("far".into()).read(message.to_string().as_bytes()).ok()
}

/// The message as the library reads it.
fn shown(message: &Value) -> Value {
    read(message).map_or(Value::Null, |read| serde_json::to_value(read).unwrap())
}

/// The texts of a call's result that has this content.
fn texts(content: &Value) -> Vec<String> {
    let said = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": content } });
    let Some(JsonRpcMessage::Response(said)) = read(&said) else { panic!("it is a response") };
    let ServerResult::CallToolResult(CallToolResult { content, .. }) = said.result else { panic!("{said:?}") };
    content
        .into_iter()
        .map(|block| block.as_text().map_or_else(|| format!("{block:?}"), |text| text.text.clone()))
        .collect()
}

#[test]
fn what_can_be_read_of_a_result_is_read_and_the_rest_is_named() {
    let good = json!({ "type": "text", "text": "booked 17" });
    let annotated = json!({ "type": "text", "text": "paid", "annotations": { "audience": "everybody" } });
    let picture = json!({ "type": "image", "data": "AA==" });
    let resource = json!({ "type": "resource", "resource": { "uri": "shop:///1" } });
    let film = json!({ "type": "video", "data": "AA==" });
    let texts = texts(&json!([good, annotated, picture, resource, film, "said", 7]));
    assert_eq!(texts[..2], ["booked 17", "paid"]);
    assert_eq!(texts[2], "[image that cannot be read: missing field `mimeType`]");
    assert!(texts[3].starts_with("[resource that cannot be read: "), "{}", texts[3]);
    assert_eq!(texts[4..], ["[content of an unknown kind: video]", "said", "[content of an unknown kind]"]);
}

#[test]
fn a_link_without_a_name_is_called_by_its_address() {
    let link = json!({ "type": "resource_link", "uri": "shop:///17" });
    let said = shown(&json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [link] } }));
    assert_eq!(said["result"]["content"][0]["name"], "shop:///17", "{said}");
}

#[test]
fn content_that_is_missing_is_empty() {
    assert_eq!(texts(&Value::Null), [""; 0]);
}

/// The other tools of the list are not concerned.
#[test]
fn a_tool_that_cannot_be_read_says_why_and_one_with_odd_decorations_is_read() {
    let schema = json!({ "type": "object" });
    let tools = json!([
        { "name": "good", "inputSchema": schema, "_meta": { "pes/unreadable": "as its server says" } },
        { "name": "bare" },
        { "name": "hint", "inputSchema": schema, "annotations": { "readOnlyHint": "yes" } },
        { "name": "icon", "inputSchema": schema, "icons": [{ "mimeType": "image/png" }] },
        { "inputSchema": schema },
    ]);
    for result in [json!({ "tools": tools }), json!({ "tools": tools, "resultType": "complete", "ttlMs": 0 })] {
        let said = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
        let reader = Reader::new("far".into());
        let Ok(JsonRpcMessage::Response(said)) = reader.read(said.as_bytes()) else { panic!("it is a response") };
        let ServerResult::ListToolsResult(list) = said.result else { panic!("{said:?}") };
        let read = list.tools.iter().map(|tool| {
            let why = reader.why_unreadable(tool);
            (&*tool.name, why.unwrap_or_default().to_owned())
        });
        let read: Vec<(&str, String)> = read.collect();
        let hint = "annotations.readOnlyHint: invalid type: string \"yes\", expected a boolean";
        let expected = [
            ("good", ""),
            ("bare", "missing field `inputSchema`"),
            ("hint", hint),
            ("icon", ""),
            ("tools/4", "missing field `name`"),
        ];
        assert_eq!(read, expected.map(|(name, why)| (name, why.to_owned())));
    }
}

#[test]
fn an_answer_that_is_nearly_json_rpc_is_an_answer() {
    let good = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [] } });
    let with_null = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [] }, "error": null });
    let without_version = json!({ "id": 1, "result": { "content": [] } });
    for nearly in [with_null, without_version] {
        assert_eq!(shown(&nearly), shown(&good), "{nearly}");
    }
    let error =
        |error: Value| shown(&json!({ "jsonrpc": "2.0", "id": 1, "result": null, "error": error }))["error"].clone();
    assert_eq!(error(json!("no money")), json!({ "code": -32603, "message": "no money" }));
    assert_eq!(error(json!({ "code": "E7", "message": "no" })), json!({ "code": -32603, "message": "no" }));
    let without_message = error(json!({ "code": -3, "data": 1 }));
    assert_eq!((&without_message["code"], &without_message["data"]), (&json!(-3), &json!(1)));
}

/// A call without a result may have been carried out, so it is no error.
#[test]
fn an_answer_without_a_result_is_no_error() {
    let Some(JsonRpcMessage::Response(said)) = read(&json!({ "jsonrpc": "2.0", "id": 1, "result": null })) else {
        panic!("it is a response")
    };
    assert!(!matches!(said.result, ServerResult::CallToolResult(_)), "{said:?}");
}

#[test]
fn what_answers_nothing_stays_unread() {
    for other in [json!({ "id": 1 }), json!({ "result": {} }), json!({ "id": 1.5, "result": {} }), json!(["x"])] {
        assert!(read(&other).is_none(), "{other}");
    }
}
