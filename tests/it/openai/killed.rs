//! After a kill -9 in the middle of a response, a client that resumes at another process gets the missing events, under
//! the numbers that they would have had.

use serde_json::json;

use crate::support::http::{Event, Events};
use crate::support::process::{Place, Server};
use crate::support::slow_tool::{SCRIPT, Slow};

async fn begun(server: &Server) -> (String, Events, Vec<Event>) {
    let body = json!({ "model": "pes", "input": "work", "background": true, "stream": true });
    let mut events = server.address.ask("POST", "/v1/responses").json(&body).events().await;
    let first = events.next().await.expect("it begins");
    (first.data["response"]["id"].as_str().unwrap().to_owned(), events, vec![first])
}

async fn after(server: &Server, id: &str, query: &str) -> Events {
    server.address.ask("GET", &format!("/v1/responses/{id}?stream=true{query}")).events().await
}

fn is_whole(events: &[Event]) {
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event.data["sequence_number"], json!(at), "{events:#?}");
    }
    let last = events.last().expect("events");
    assert_eq!(last.event, "response.completed");
    let output = last.data["response"]["output"].as_array().unwrap();
    assert_eq!(output.last().unwrap()["content"][0]["text"], "All of it is done now.");
    assert!(output.iter().any(|item| item["type"] == "mcp_call" && item["name"] == "slow"), "{output:#?}");
}

#[tokio::test]
async fn a_response_goes_on_after_a_crash_where_its_reader_stopped() {
    let (place, mut slow) = Slow::on(Place::sqlite(SCRIPT)).await;
    let server = Server::start(&place, None).await;
    let (id, events, mut told) = begun(&server).await;
    slow.is_called().await;
    server.kill().await;
    told.extend(events.broken_off().await);
    let server = Server::start(&place, None).await;
    slow.is_called().await;
    let rest = after(&server, &id, &format!("&starting_after={}", told.len() - 1)).await;
    slow.ends();
    told.extend(rest.all().await);
    is_whole(&told);
    assert_eq!(after(&server, &id, "").await.all().await, told);
    server.kill().await;
}

#[tokio::test]
async fn another_process_tells_the_same_response() {
    let (place, mut slow) = Slow::on(Place::postgres(SCRIPT).await).await;
    let owner = Server::start(&place, None).await;
    let (id, events, mut told) = begun(&owner).await;
    slow.is_called().await;
    let other = Server::start(&place, None).await;
    let elsewhere = after(&other, &id, "").await;
    owner.kill().await;
    told.extend(events.broken_off().await);
    slow.is_called().await;
    slow.ends();
    let all = elsewhere.all().await;
    is_whole(&all);
    assert_eq!(all[..told.len()], told);
    assert_eq!(after(&other, &id, &format!("&starting_after={}", told.len() - 1)).await.all().await, all[told.len()..]);
    other.kill().await;
}
