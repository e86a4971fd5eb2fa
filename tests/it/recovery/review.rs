//! A plan review survives the process that asked it, and a crash right after its answer, on both databases.

use serde_json::{Value, json};

use crate::support::process::{Address, Place, Server};

const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "one", description = "Count", stepType = "tool", requiredTools = ["calculator"] },
] }

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [{ tool = "calculator", arguments = { expression = "1 + 1" } }]

[[reply]]
when = { phase = "execution" }
text = "Two."

[[reply]]
when = { phase = "synthesis" }
text = "It is two."
"#;

async fn inbox(address: Address) -> Vec<Value> {
    let inbox = address.ask("GET", "/suspensions").send().await.expect(200);
    let mut asked = inbox["items"].as_array().expect("a list").clone();
    // Each start has a port of its own.
    asked.iter_mut().for_each(|one| _ = one.as_object_mut().expect("a question").remove("url"));
    asked
}

async fn outlasts(place: Place) {
    let server = Server::start(&place, None).await;
    let options = json!({ "executionConfig": { "planReview": "always" } });
    let ask = server.address.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    let receipt = ask.json(&json!({ "query": "count", "options": options })).send().await.expect(202);
    let asked = inbox(server.address).await;
    assert_eq!((asked.len(), &asked[0]["kind"]), (1, &json!("plan_review")), "{receipt:#}");
    server.kill().await;
    let mut server = Server::start(&place, Some("resume.committed@1")).await;
    assert_eq!(inbox(server.address).await, asked, "the same question, with the same plan");
    let answer = json!({ "suspensionId": asked[0]["suspensionId"], "digest": asked[0]["digest"], "approved": true });
    let answer = server.address.ask("POST", "/threads/t/resume").json(&answer);
    tokio::select! {
        _ = answer.send() => panic!("it is held before it answers"),
        () = server.reached() => {}
    }
    server.kill().await;
    let server = Server::start(&place, None).await;
    assert_eq!(inbox(server.address).await, Vec::<Value>::new(), "it was answered once and for all");
    let run = receipt["runId"].as_str().expect("a run");
    let run = server.address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(
        (&run["status"], &run["result"]["metadata"]["status"]),
        (&json!("completed"), &json!("success")),
        "{run:#}"
    );
    server.kill().await;
}

#[tokio::test]
async fn a_plan_review_and_its_answer_outlast_crashes() {
    outlasts(Place::sqlite(SCRIPT)).await;
}

#[tokio::test]
async fn so_they_do_on_postgresql() {
    outlasts(Place::postgres(SCRIPT).await).await;
}
