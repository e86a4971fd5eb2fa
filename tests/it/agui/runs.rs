//! Runs over AG-UI: their events, the interrupts that they end with, and the requests that answer these.

use serde_json::{Value, json};

use super::{all, ask, input, interrupts, text, told, user, with};
use crate::openai::beside::LOCATES;
use crate::support::app::App;
use crate::support::wire::{Wire, end, event, event_stream};

#[tokio::test]
async fn two_turns_are_one_conversation() {
    let app = App::start().await;
    let answer = ask(&app, &input("t", "r1", &[user("count")])).send().await;
    for (name, value) in [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-pes-thread", "t")] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let events = told(ask(&app, &input("t", "r1", &[user("count")]))).await;
    assert_eq!(events[0], json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r1", "protocolVersion": "1.0" }));
    assert_eq!(text(&events), "Two and two are four.", "the same id is the same run");
    let end = events.last().unwrap();
    assert_eq!((&end["runId"], &end["outcome"]["type"]), (&json!("r1"), &json!("success")));
    assert_eq!(
        (&end["result"]["content"], &end["result"]["status"]),
        (&json!("Two and two are four."), &json!("success"))
    );
    assert!(end["usage"][0]["totalTokens"].as_u64().unwrap() > 0);
    let steps: Vec<&Value> = all(&events, "STEP_STARTED").iter().map(|step| &step["stepName"]).collect();
    assert_eq!(steps, ["planning", "sum", "synthesis"]);
    assert_eq!(all(&events, "STEP_FINISHED").len(), 3);
    let deltas = all(&events, "STATE_DELTA");
    assert!(!deltas.is_empty() && deltas.iter().all(|delta| delta["timestamp"].is_i64()), "{deltas:#?}");
    let second = told(ask(&app, &input("t", "r2", &[user("count"), user("hello")]))).await;
    assert_eq!(text(&second), "Hello again.");
    let runs = app.get("/threads/t/runs").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_interrupt_is_resumed() {
    let app = App::start().await;
    let asked = told(ask(&app, &input("t", "r1", &[user("send")]))).await;
    let outcome = asked.last().unwrap()["outcome"].clone();
    let interrupt = &outcome["interrupts"][0];
    assert_eq!((&outcome["type"], &interrupt["reason"]), (&json!("interrupt"), &json!("tool_call")));
    assert_eq!(interrupt["toolCallId"], all(&asked, "TOOL_CALL_START")[0]["toolCallId"]);
    assert_eq!(all(&asked, "STATE_SNAPSHOT").last().unwrap()["snapshot"]["isPaused"], true);
    // New input does not cancel the question.
    let pending = told(ask(&app, &input("t", "r2", &[user("hello")]))).await;
    assert_eq!((&pending[1]["type"], &pending[1]["code"]), (&json!("RUN_ERROR"), &json!("thread_busy")));
    let resume = |id: &Value, payload: Value| {
        with(input("t", "r3", &[]), "resume", json!([{ "interruptId": id, "status": "resolved", "payload": payload }]))
    };
    let wrong = told(ask(&app, &resume(&interrupt["id"], json!({ "approved": "perhaps" })))).await;
    assert_eq!((&wrong[1]["type"], &wrong[1]["code"]), (&json!("RUN_ERROR"), &json!("invalid")));
    let yes = resume(&interrupt["id"], json!({ "approved": true }));
    let done = told(ask(&app, &yes)).await;
    assert_eq!(all(&done, "TOOL_CALL_RESULT")[0]["toolCallId"], interrupt["toolCallId"]);
    assert!(all(&done, "TOOL_CALL_START").is_empty(), "the client has the call");
    assert_eq!(all(&done, "STATE_SNAPSHOT")[0]["snapshot"]["title"], "Send");
    assert_eq!(text(&done), "The mail is dealt with.");
    // The same run id of the client is the same run; another one has nothing to answer.
    let again = told(ask(&app, &yes)).await;
    assert_eq!(text(&again), text(&done));
    assert_eq!(all(&again, "TOOL_CALL_RESULT").len(), 1, "{again:#?}");
    assert!(all(&again, "TOOL_CALL_START").is_empty(), "the client has the call");
    let other = told(ask(&app, &with(yes, "runId", json!("r4")))).await;
    assert_eq!(other[1]["code"], "already_resolved");
    assert_eq!(app.observed("t", "AGENT_RESUMED").await.len(), 1);
}

#[tokio::test]
async fn an_interrupt_that_is_given_up_is_refused() {
    let app = App::start().await;
    let asked = told(ask(&app, &input("t", "r1", &[user("send")]))).await;
    let interrupt = &asked.last().unwrap()["outcome"]["interrupts"][0];
    let resumes = |resumes: Value| with(input("t", "r2", &[]), "resume", resumes);
    let cancelled = json!({ "interruptId": interrupt["id"], "status": "cancelled" });
    let unknown = json!({ "interruptId": "sus_none", "status": "cancelled" });
    let refused = told(ask(&app, &resumes(json!([unknown])))).await;
    assert_eq!(refused[1]["code"], "already_resolved");
    // The result of a call that waits for an approval does not answer it either.
    let result = json!({ "id": "m", "role": "tool", "toolCallId": interrupt["toolCallId"], "content": "It was sent." });
    let forged = told(ask(&app, &input("t", "r3", &[result]))).await;
    assert_eq!(forged[1]["code"], "thread_busy");
    assert_eq!(app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().len(), 1);
    // A further answer, to a question that is not open, is ignored.
    told(ask(&app, &resumes(json!([unknown, cancelled])))).await;
    assert_eq!(app.observed("t", "AGENT_RESUMED").await[0]["content"]["decision"], "rejected");
}

#[tokio::test]
async fn a_query_that_is_sent_again_is_told_what_it_asks() {
    let app = App::start().await;
    let sent = input("t", "r1", &[user("send")]);
    let (first, again) = (told(ask(&app, &sent)).await, told(ask(&app, &sent)).await);
    assert_eq!(interrupts(&first).len(), 1);
    assert_eq!(interrupts(&again), interrupts(&first));
    assert_eq!(app.get("/threads/t/runs").await.expect(200)["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn of_two_answers_the_one_that_fits_is_taken() {
    let app = App::start().await;
    let asked = told(ask(&app, &input("t", "r1", &[user("two mails")]))).await;
    let ids: Vec<Value> = interrupts(&asked).iter().map(|interrupt| interrupt["id"].clone()).collect();
    let [first, second] = &ids[..] else { panic!("{asked:#?}") };
    let resumes = |run: &str, payload: Value| {
        let yes = json!({ "interruptId": first, "status": "resolved", "payload": { "approved": true } });
        let other = json!({ "interruptId": second, "status": "resolved", "payload": payload });
        with(input("t", run, &[]), "resume", json!([yes, other]))
    };
    let half = told(ask(&app, &resumes("r2", json!({ "approved": true, "editedArgs": 1 })))).await;
    let left: Vec<&Value> = interrupts(&half).iter().map(|interrupt| &interrupt["id"]).collect();
    assert_eq!(left, [second], "{half:#?}");
    // The accepted answer may be sent again with it.
    let done = told(ask(&app, &resumes("r3", json!({ "approved": true })))).await;
    assert_eq!(text(&done), "The mails are dealt with.");
}

#[tokio::test]
async fn a_pause_that_is_given_up_stays() {
    let app = App::start().await;
    let asked = told(ask(&app, &input("t", "r1", &[user("send")]))).await;
    app.post("/threads/t/pause", json!({})).await.expect(202);
    let open = app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().clone();
    let pause = &open.iter().find(|open| open["kind"] == "pause").unwrap()["suspensionId"];
    let given_up = json!({ "interruptId": pause, "status": "cancelled" });
    let yes = |id: &Value| json!({ "interruptId": id, "status": "resolved", "payload": { "approved": true } });
    let resumes = |run: &str, resumes: Value| with(input("t", run, &[]), "resume", resumes);
    let both = json!([yes(&interrupts(&asked)[0]["id"]), given_up]);
    for (run, said) in [("r2", both), ("r3", json!([given_up]))] {
        let stream = told(ask(&app, &resumes(run, said))).await;
        let left: Vec<&Value> = interrupts(&stream).iter().map(|interrupt| &interrupt["id"]).collect();
        assert_eq!(left, [pause], "{run}: {stream:#?}");
    }
    let done = told(ask(&app, &resumes("r4", json!([yes(pause)])))).await;
    assert_eq!(text(&done), "The mail is dealt with.");
}

/// Text that a person types is text, even if it could be JSON.
#[tokio::test]
async fn a_question_for_text_is_answered_by_a_number() {
    let app = App::start().await;
    let asked = told(ask(&app, &input("t", "r1", &[user("ask")]))).await;
    let call = &interrupts(&asked)[0]["toolCallId"];
    let answer = json!({ "id": "m", "role": "tool", "toolCallId": call, "content": "42" });
    let sent = input("t", "r2", &[answer]);
    let done = told(ask(&app, &sent)).await;
    assert_eq!(text(&done), "You were asked.", "{done:#?}");
    assert_eq!(text(&told(ask(&app, &sent)).await), "You were asked.", "what is sent again is told again");
    assert_eq!(app.observed("t", "TOOL_EXECUTION").await[0]["content"]["output"], "42");
}

#[tokio::test]
async fn a_question_with_options_is_answered_by_json() {
    let app = App::start().await;
    let asked = told(ask(&app, &input("t", "r1", &[user("choose")]))).await;
    let answer = |message: &str| {
        let asks = |interrupt: &&Value| interrupt["message"] == message;
        let interrupt = interrupts(&asked).iter().find(asks).unwrap_or_else(|| panic!("{asked:#?}"));
        let content = if message == "How many?" { "1" } else { r#"["a","b"]"# };
        json!({ "id": message, "role": "tool", "toolCallId": interrupt["toolCallId"], "content": content })
    };
    let done = told(ask(&app, &input("t", "r2", &[answer("Which letters?"), answer("How many?")]))).await;
    assert_eq!(text(&done), "You have chosen.", "{done:#?}");
    let log = app.observed("t", "TOOL_EXECUTION").await;
    let output = |item: &Value| item["content"]["output"].clone();
    let outputs: Vec<Value> = log.iter().map(output).collect();
    assert!(outputs.contains(&json!(["a", "b"])) && outputs.contains(&json!(1)), "{outputs:#?}");
}

/// The two calls of the client's tool that a run waits for, once the call beside them was approved.
async fn calls_left(app: &App, tools: &Value) -> Vec<Value> {
    let sent = with(input("t", "r1", &[user("locate")]), "tools", tools.clone());
    let asked = told(ask(app, &sent)).await;
    let interrupts = asked.last().unwrap()["outcome"]["interrupts"].as_array().unwrap().clone();
    assert_eq!(interrupts.len(), 3, "beside an approval they are interrupts, too");
    let approval = interrupts.iter().find(|it| it["metadata"]["pes"]["kind"] == "approval").unwrap();
    app.ask("POST", "/threads/t/resume")
        .json(&json!({ "suspensionId": approval["id"], "approved": true }))
        .header("prefer", "wait=30")
        .send()
        .await
        .expect(202);
    let connected = told(app.ask("POST", "/agui/connect").json(&input("t", "r2", &[]))).await;
    let pending = connected.last().unwrap()["outcome"]["pendingToolCallIds"].as_array().unwrap().clone();
    assert_eq!(pending.len(), 2);
    pending
}

#[tokio::test]
async fn calls_of_the_client_alone_are_left_to_it() {
    let app = App::start().await;
    let tools = json!([{ "name": "get_location", "description": "Where.", "parameters": { "type": "object" } }]);
    let pending = calls_left(&app, &tools).await;
    let older = with(input("t", "r2", &[]), "protocolVersion", json!("0.1"));
    let older = told(app.ask("POST", "/agui/connect").json(&older)).await;
    let end = older.last().unwrap();
    assert_eq!((&end["type"], end.get("outcome")), (&json!("RUN_FINISHED"), None), "no `success`: calls are left");
    assert_eq!(all(&older, "MESSAGES_SNAPSHOT").len(), 1, "only that of the connection: {older:#?}");
    let result = |(call, content): (&Value, &str)| json!({ "id": format!("m-{call}"), "role": "tool", "toolCallId": call, "content": content });
    let results: Vec<Value> = pending.iter().zip(["\"Rome\"", "1.10"]).map(result).collect();
    let one = told(ask(&app, &with(input("t", "r3", &results[..1]), "tools", tools.clone()))).await;
    let call = pending[1].as_str().unwrap();
    let lacks =
        format!("The run waits for the result of the call `{call}` of `get_location`; send all results together.");
    assert_eq!((&one[1]["code"], &one[1]["message"]), (&json!("thread_busy"), &json!(lacks)));
    let done = told(ask(&app, &with(input("t", "r4", &results), "tools", tools))).await;
    assert_eq!(text(&done), "You are here.");
    assert_eq!(all(&done, "TOOL_CALL_RESULT"), [&Value::Null; 0], "the client has their messages");
    // JSON is read, and no digit of a number changes.
    for (call, output) in pending.iter().zip(["Rome", "1.10"]) {
        let call = app.get(&format!("/threads/t/tool-calls/{}", call.as_str().unwrap())).await.expect(200);
        assert_eq!(call["result"]["output"], output, "{call:#}");
    }
}

/// CopilotKit and assistant-ui put each result behind its call.
#[tokio::test]
async fn results_are_found_among_the_calls_of_the_agent() {
    let app = App::start().await;
    let tools = json!([{ "name": "get_location", "description": "Where.", "parameters": { "type": "object" } }]);
    let mut messages = vec![user("locate")];
    for call in calls_left(&app, &tools).await {
        let function = json!({ "name": "get_location", "arguments": "{}" });
        let calls = json!([{ "id": call, "type": "function", "function": function }]);
        messages.push(json!({ "id": call, "role": "assistant", "toolCalls": calls }));
        messages.push(json!({ "id": format!("m-{call}"), "role": "tool", "toolCallId": call, "content": "Rome" }));
    }
    let done = told(ask(&app, &with(input("t", "r3", &messages), "tools", tools))).await;
    assert_eq!(text(&done), "You are here.");
}

/// As the client of Microsoft's Agent Framework sends them.
#[tokio::test]
async fn names_in_snake_case_are_taken_as_well() {
    let app = App::scripted(LOCATES, |_| {}).await;
    let tools = json!([{ "name": "get_location", "description": "Where.", "parameters": { "type": "object" } }]);
    let sent = |run: &str, messages: &[Value], name: &str, value: Value| {
        let sent = json!({ "thread_id": "t", "run_id": run, "protocol_version": "1.0", "messages": messages });
        with(with(sent, "tools", tools.clone()), name, value)
    };
    let reviewed = json!({ "pes": { "executionConfig": { "planReview": "always" } } });
    let asked = told(ask(&app, &sent("r1", &[user("where")], "forwarded_props", reviewed))).await;
    assert_eq!(interrupts(&asked).len(), 1, "{asked:#?}");
    let approved = json!([{
        "interrupt_id": interrupts(&asked)[0]["id"], "status": "resolved", "payload": { "approved": true },
    }]);
    let asked = told(ask(&app, &sent("r2", &[user("where")], "resume", approved))).await;
    let call = asked.last().unwrap()["outcome"]["pendingToolCallIds"][0].clone();
    let result = json!({ "id": "m", "role": "tool", "tool_call_id": call, "content": "Rome" });
    let done = told(ask(&app, &sent("r3", &[user("where"), result], "context", json!([])))).await;
    assert_eq!(text(&done), "You are in Rome.", "{done:#?}");
    assert_eq!(all(&done, "TOOL_CALL_RESULT"), [&Value::Null; 0], "the client has its message");
}

#[tokio::test]
async fn who_connects_is_shown_the_conversation_and_what_goes_on() {
    let app = App::start().await;
    let connect = |run: &str| app.ask("POST", "/agui/connect").json(&input("t", run, &[]));
    let nothing = told(connect("r0")).await;
    assert_eq!((nothing.len(), &nothing[1]["messages"]), (3, &json!([])));
    told(ask(&app, &input("t", "r1", &[user("hello")]))).await;
    let shown = told(connect("r2")).await;
    let messages = &shown[1]["messages"];
    assert_eq!((&messages[0]["id"], &messages[1]["content"]), (&json!("mine-hello"), &json!("Hello there.")));
    let mut left = ask(&app, &input("t", "r3", &[user("hang")])).events().await;
    left.next().await.unwrap();
    drop(left);
    let mut again = connect("r4").events().await;
    again.next().await.unwrap();
    app.post("/threads/t/cancel", json!({})).await.expect(202);
    let rest: Vec<Value> = again.all().await.into_iter().map(|event| event.data).collect();
    assert_eq!(rest.last().unwrap()["outcome"], json!({ "type": "cancelled" }));
}

#[tokio::test]
async fn versions_before_1_are_told_what_they_know() {
    let app = App::start().await;
    let older = |run: &str, text: &str| {
        let mut sent = input("t", run, &[user(text)]);
        sent.as_object_mut().unwrap().remove("protocolVersion");
        sent
    };
    let mut hung = ask(&app, &older("r1", "hang")).events().await;
    assert_eq!(hung.next().await.unwrap().data, json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r1" }));
    app.post("/threads/t/cancel", json!({})).await.expect(202);
    let end = hung.all().await.pop().unwrap().data;
    assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!("cancelled")));
    let failed = told(ask(&app, &with(older("r2", "fail"), "threadId", json!("u")))).await;
    let end = failed.last().unwrap();
    assert!(end["type"] == "RUN_ERROR" && end["message"].as_str().unwrap().contains("Not mine"), "{end}");
}

#[tokio::test]
async fn what_the_page_shows_beside_the_chat_is_told_to_the_model() {
    let said = json!({ "title": "t", "intent": "i", "plan": "p", "answer": "Noted.", "todoList": [] }).to_string();
    let chunk = |choice: Value| event(json!({ "choices": [choice] }));
    let steps = vec![
        event_stream(),
        chunk(json!({ "delta": { "content": said } })),
        chunk(json!({ "delta": {}, "finish_reason": "stop" })),
        end(),
    ];
    let mut wire = Wire::serve(vec![steps]).await;
    let url = wire.url();
    let app = App::with(|config| {
        config.models.openai.base_url = Some(url);
        config.models.choice = vec!["openai:small".parse().unwrap()];
    })
    .await;
    // Front ends send JSON, and templates of their own.
    let context = json!([{ "description": "The open document", "value": r#"{"t":"Hello {{name}}"}"# }]);
    told(ask(&app, &with(input("t", "r", &[user("hello")]), "context", context))).await;
    let prompt = wire.request().await.body["messages"].to_string();
    assert!(prompt.contains(r#"The open document: {\"t\":\"Hello {{name}}\"}"#), "{prompt}");
}
