//! After a kill -9 in the middle of a stream, another process sends every event after the client's last event id.

use serde_json::{Value, json};

use super::{all, input, text, user, with};
use crate::support::http::{Event, Events};
use crate::support::process::{Place, Server};
use crate::support::slow_tool::{SCRIPT, Slow};

async fn begun(server: &Server, thread: &str, query: &str) -> Events {
    server.address.ask("POST", "/agui").json(&input(thread, "r1", &[user(query)])).events().await
}

async fn behind(server: &Server, id: Option<&String>) -> Events {
    let ask = server.address.ask("POST", "/agui/connect").json(&input("t", "r1", &[]));
    ask.header("last-event-id", id.expect("an event has an id")).events().await
}

/// The events until the tool is called.
async fn until_called(events: &mut Events) -> Vec<Event> {
    let mut heard = Vec::new();
    loop {
        let event = events.next().await.expect("it goes on");
        let is_called = event.data["type"] == "TOOL_CALL_END";
        heard.push(event);
        if is_called {
            return heard;
        }
    }
}

fn is_whole(events: &[Event]) {
    let events: Vec<Value> = events.iter().map(|event| event.data.clone()).collect();
    assert_eq!(text(&events), "All of it is done now.");
    for kind in ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_RESULT", "RUN_FINISHED"] {
        assert_eq!(all(&events, kind).len(), 1, "{kind}: {events:#?}");
    }
    let [started, finished] = ["STEP_STARTED", "STEP_FINISHED"].map(|kind| all(&events, kind).len());
    assert_eq!(started, finished, "{events:#?}");
}

#[tokio::test]
async fn a_stream_goes_on_after_a_crash() {
    let (place, mut slow) = Slow::on(Place::sqlite(SCRIPT)).await;
    let server = Server::start(&place, None).await;
    let mut events = begun(&server, "t", "work").await;
    let mut heard = until_called(&mut events).await;
    slow.is_called().await;
    server.kill().await;
    drop(events);
    let server = Server::start(&place, None).await;
    slow.is_called().await;
    let rest = behind(&server, heard.last().unwrap().mark.as_ref()).await;
    slow.ends();
    heard.extend(rest.all().await);
    is_whole(&heard);
    server.kill().await;
}

#[tokio::test]
async fn another_process_tells_the_rest_and_takes_the_answer() {
    let (place, mut slow) = Slow::on(Place::postgres(SCRIPT).await).await;
    let owner = Server::start(&place, None).await;
    let mut events = begun(&owner, "t", "work").await;
    let mut heard = until_called(&mut events).await;
    slow.is_called().await;
    let other = Server::start(&place, None).await;
    let rest = behind(&other, heard.last().unwrap().mark.as_ref()).await;
    owner.kill().await;
    drop(events);
    slow.is_called().await;
    slow.ends();
    heard.extend(rest.all().await);
    is_whole(&heard);

    // A question that one process has asked is answered at another.
    let asked = begun(&other, "u", "ask").await.all().await;
    let interrupt = &asked.last().unwrap().data["outcome"]["interrupts"][0];
    assert_eq!(interrupt["reason"], "input_required");
    let third = Server::start(&place, None).await;
    let payload = json!({ "value": "this one" });
    let resume = json!([{ "interruptId": interrupt["id"], "status": "resolved", "payload": payload }]);
    let sent = with(input("u", "r2", &[]), "resume", resume);
    let done = third.address.ask("POST", "/agui").json(&sent).events().await.all().await;
    let done: Vec<Value> = done.into_iter().map(|event| event.data).collect();
    assert_eq!(all(&done, "TOOL_CALL_RESULT")[0]["toolCallId"], interrupt["toolCallId"]);
    assert_eq!(text(&done), "All of it is done now.");
    third.kill().await;
    other.kill().await;
}
