//! Questions that a tool asks while it keeps running: the run stays `running`, and the stream ends with an interrupt.

use serde_json::{Value, json};

use super::{all, ask, input, interrupts, text, told, user, with};
use crate::mcp::bed::asking_app;

#[tokio::test]
async fn a_running_tools_question_is_an_interrupt_and_its_answer_continues_the_run() {
    let (app, _folder) = asking_app().await;
    let connect = |run: &str| app.ask("POST", "/agui/connect").json(&input("t", run, &[]));
    let first = ask(&app, &input("t", "r1", &[user("ask")])).events().await.all().await;
    let events: Vec<Value> = first.iter().map(|event| event.data.clone()).collect();
    let [interrupt] = interrupts(&events) else { panic!("{events:#?}") };
    assert_eq!(
        (&interrupt["reason"], &interrupt["message"]),
        (&json!("input_required"), &json!("evil__elicit asks: Your colour?"))
    );
    assert_eq!(interrupt["toolCallId"], all(&events, "TOOL_CALL_START")[0]["toolCallId"]);
    let run = &app.get("/threads/t/runs").await.expect(200)["items"][0];
    assert_eq!(run["status"], "running");
    // A client that connects, or sends the same request again, gets the open question as well.
    let connected = told(connect("r2")).await;
    assert_eq!(interrupts(&connected), std::slice::from_ref(interrupt));
    let again = told(ask(&app, &input("t", "r1", &[user("ask")]))).await;
    assert_eq!(interrupts(&again), std::slice::from_ref(interrupt));
    // The rest of a cut stream has the same end.
    let last = first.len() - 1;
    let id = first[last - 1].mark.as_deref().expect("every event has an id");
    let rest = connect("r1").header("last-event-id", id).events().await.all().await;
    let rest: Vec<Value> = rest.into_iter().map(|event| event.data).collect();
    assert_eq!(rest, [events[last].clone()]);
    let red = json!({ "value": { "colour": "red" } });
    let resume = json!([{ "interruptId": interrupt["id"], "status": "resolved", "payload": red }]);
    let done = told(ask(&app, &with(input("t", "r3", &[]), "resume", resume))).await;
    let result: Value = serde_json::from_str(all(&done, "TOOL_CALL_RESULT")[0]["content"].as_str().unwrap()).unwrap();
    assert_eq!(result, json!({ "action": "accept", "content": { "colour": "red" } }));
    assert_eq!(text(&done), "All done.");
    assert_eq!(done.last().unwrap()["outcome"], json!({ "type": "success" }));
}

/// The answered question does not end the stream of a client that connects afterwards.
#[tokio::test]
async fn who_connects_after_the_answer_gets_the_rest_of_the_run() {
    let (app, _folder) = asking_app().await;
    let asked = told(ask(&app, &input("t", "r1", &[user("ask")]))).await;
    let id = &interrupts(&asked)[0]["id"];
    let red = json!({ "suspensionId": id, "value": { "colour": "red" } });
    let resume = app.ask("POST", "/threads/t/resume").header("prefer", "wait=30").json(&red);
    assert_eq!(resume.send().await.expect(200)["metadata"]["status"], "success");
    let again = told(ask(&app, &input("t", "r1", &[user("ask")]))).await;
    assert_eq!((text(&again), interrupts(&again)), ("All done.".to_owned(), &[][..]));
}
