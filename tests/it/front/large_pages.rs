//! A page of a list whose entries are large ends early, and goes on at its cursor.

use serde_json::{Value, json};

use crate::support::app::App;

/// Four of them fit into a page.
const LONG: usize = 900_000;

/// A model that gives long answers, and shows long texts with a tool of the client's.
fn script() -> String {
    let long = "x".repeat(LONG);
    let plan = |phase: &str| {
        format!(
            r#"
[[reply]]
when = {{ query = "tell", phase = "{phase}" }}
json = {{ title = "Tell", intent = "Tell", plan = "Answer.", answer = "{long}", todoList = [] }}
"#
        )
    };
    let call = format!(
        r#"
[[reply]]
when = {{ query = "show", phase = "planning" }}
json = {{ title = "Show", intent = "Show", plan = "Show.", todoList = [
    {{ id = "page", description = "Show the page", stepType = "tool", requiredTools = ["show"] }},
] }}

[[reply]]
when = {{ item = "page", phase = "execution", iteration = 1 }}
calls = [{{ tool = "show", arguments = {{ text = "{long}" }} }}]
"#
    );
    plan("planning") + &plan("refinement") + &call
}

/// The ids of the entries of each page.
async fn pages(app: &App, list: &str, id: &str) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("{list}limit=1000{cursor}")).await.expect(200);
        let id_of = |entry: &Value| entry[id].as_str().unwrap().to_owned();
        pages.push(page["items"].as_array().unwrap().iter().map(id_of).collect());
        let Some(next) = page["nextCursor"].as_str() else { return pages };
        cursor = format!("&cursor={next}");
    }
}

fn lengths(pages: &[Vec<String>]) -> Vec<usize> {
    pages.iter().map(Vec::len).collect()
}

#[tokio::test]
async fn pages_of_runs_with_long_answers_and_of_their_messages_have_fewer_of_them() {
    let app = App::scripted(&script(), |config| config.agent.history_limit = 0).await;
    let mut runs = Vec::new();
    for _ in 0..6 {
        runs.push(app.finish("t1", "tell").await["metadata"]["runId"].as_str().unwrap().to_owned());
    }
    let of_thread = pages(&app, "/threads/t1/runs?", "runId").await;
    assert_eq!((lengths(&of_thread), of_thread.concat()), (vec![4, 2], runs.clone()));
    let of_tenant = pages(&app, "/runs?", "runId").await;
    runs.reverse();
    assert_eq!((lengths(&of_tenant), of_tenant.concat()), (vec![4, 2], runs));
    let messages = pages(&app, "/threads/t1/messages?", "role").await;
    assert_eq!(lengths(&messages), [9, 3]);
    assert_eq!(messages.concat(), ["USER", "AI"].repeat(6));
}

#[tokio::test]
async fn a_page_of_questions_about_large_calls_has_fewer_of_them() {
    let app = App::scripted(&script(), |config| config.agent.history_limit = 0).await;
    let mut asked = Vec::new();
    for n in 0..6 {
        let ask = app.ask("POST", &format!("/threads/t{n}/process")).header("prefer", "wait=30");
        let tool = json!({ "name": "show", "description": "Shows a text.", "inputSchema": { "type": "object" } });
        let query = json!({ "query": "show", "options": { "clientTools": [tool] } });
        let question = ask.json(&query).send().await.expect(202)["suspensions"][0].clone();
        assert_eq!(question["toolInput"]["text"].as_str().unwrap().len(), LONG);
        asked.push(question["suspensionId"].as_str().unwrap().to_owned());
    }
    for list in ["/suspensions?", "/suspensions?sort=expiresAt&"] {
        let open = pages(&app, list, "suspensionId").await;
        assert_eq!((lengths(&open), open.concat()), (vec![4, 2], asked.clone()), "{list}");
    }
    asked.reverse();
    let all = pages(&app, "/suspensions?status=all&", "suspensionId").await;
    assert_eq!((lengths(&all), all.concat()), (vec![4, 2], asked));
}
