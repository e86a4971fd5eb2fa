//! `GET /threads/{thread}/export` and `POST /imports`

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::app::App;
use crate::support::exported::rewritten;
use crate::support::http::{Said, soon};

const LINES: &str = "application/x-ndjson";

async fn import(app: &App, query: &str, text: &str) -> Said {
    app.ask("POST", &format!("/imports{query}")).typed(LINES, text).send().await
}

#[tokio::test]
async fn a_thread_is_exported_and_imported() {
    let app = App::start().await;
    app.finish("t", "hello").await;
    let export = app.get("/threads/t/export").await;
    assert_eq!(export.status, 200);
    assert_eq!(export.header("content-type"), Some(LINES));
    let text = export.text();
    let dry = import(&app, "?threadId=copy&dryRun=true", &text).await.expect(200);
    assert_eq!((&dry["threadId"], &dry["dryRun"]), (&json!("copy"), &json!(true)), "{dry:#}");
    app.get("/threads/copy").await.problem("not_found");
    let made = import(&app, "?threadId=copy", &text).await;
    assert!(made.header("location").unwrap().ends_with("/threads/copy"));
    let thread = app.get("/threads/t").await.expect(200);
    let made = made.expect(201);
    assert_eq!((&made["lastSeq"], &made["minSeq"]), (&thread["lastSeq"], &json!(1)));
    let copy = app.get("/threads/copy").await.expect(200);
    assert_eq!((&copy["status"], &copy["title"], &copy["lastRun"]), (&json!("idle"), &thread["title"], &Value::Null));
    let same = |mut page: Value| {
        for item in page["items"].as_array_mut().unwrap() {
            item["threadId"] = Value::Null;
        }
        page["items"].take()
    };
    let messages = async |thread: &str| same(app.get(&format!("/threads/{thread}/messages")).await.expect(200));
    assert_eq!(messages("copy").await, messages("t").await);
    app.finish("copy", "hello").await;
}

#[tokio::test]
async fn what_cannot_be_imported_is_said() {
    let app = App::start().await;
    app.finish("t", "hello").await;
    let text = app.get("/threads/t/export").await.text();
    import(&app, "", &text).await.problem("thread_exists");
    import(&app, "?dryRun=true", &text).await.problem("thread_exists");
    let problem = import(&app, "?threadId=a%20b", &text).await.problem("invalid");
    assert_eq!(problem["errors"][0]["pointer"], "?threadId");
    import(&app, "?dryRun=perhaps", &text).await.problem("invalid");
    let changed = text.replacen("hello", "hullo", 1);
    let line = 1 + changed.lines().zip(text.lines()).position(|(is, was)| is != was).unwrap();
    let problem = import(&app, "?threadId=copy", &changed).await.problem("import_invalid");
    assert_eq!(problem["line"], line, "{problem:#}");
    assert_eq!(import(&app, "", "").await.problem("import_invalid")["line"], 1);
    app.post("/imports", json!({})).await.problem("unsupported_media_type");
    app.get("/threads/nobody/export").await.problem("not_found");
    app.get("/threads/t/export?after=1").await.problem("invalid");
}

/// The next caller gets the turn, and finds nothing.
#[tokio::test]
async fn of_a_file_whose_client_goes_away_nothing_is_stored() {
    let app = App::start().await;
    app.finish("t", "hello").await;
    let text = app.get("/threads/t/export").await.text();
    for sent in [0, text.len() / 2, text.len() - 1] {
        let mut client = TcpStream::connect(app.address).await.unwrap();
        let head = format!(
            "POST /imports?threadId=gone HTTP/1.1\r\nhost: {}\r\ncontent-type: {LINES}\r\ncontent-length: {}\r\n\r\n",
            app.address,
            text.len()
        );
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&text.as_bytes()[..sent]).await.unwrap();
        client.shutdown().await.unwrap();
        drop(client);
        let next = soon(import(&app, &format!("?threadId=next-{sent}"), &text)).await;
        next.expect(201);
        app.get("/threads/gone").await.problem("not_found");
    }
}

#[tokio::test]
async fn exporting_is_reading_and_importing_is_for_administrators() {
    let app = App::with_keys().await;
    let reader = "reader-0123456789abcdef0123456789";
    app.ask("POST", "/threads").key("key-a-0123456789abcdef0123456789").json(&json!({ "threadId": "t" })).send().await;
    let export = app.ask("GET", "/threads/t/export").key(reader).send().await;
    assert_eq!(export.status, 200);
    let refused = app.ask("POST", "/imports").key(reader).typed(LINES, &export.text()).send().await;
    assert_eq!(refused.problem("forbidden")["scope"], "admin");
    let path = "/imports?threadId=copy";
    let made = app.ask("POST", path).key("key-a-0123456789abcdef0123456789").typed(LINES, &export.text()).send().await;
    assert_eq!(made.expect(201)["lastSeq"], 0, "nothing ever happened in it");
}

/// Not every call of an imported thread has a record, and what it asks about itself is not in its log.
#[tokio::test]
async fn an_imported_thread_asks_before_it_repeats_a_call_as_the_exported_one_does() {
    let script = r#"
        [[reply]]
        when = { query = "/mail/", iteration = 1 }
        calls = [{ tool = "demo_send_email", arguments = { to = "a@example.com", subject = "s", body = "b" } }]

        [[reply]]
        when = { query = "mail and count", iteration = 2 }
        calls = [{ tool = "calculator", arguments = { expression = "1+1" } }]

        [[reply]]
        text = "Well."
    "#;
    let app = App::scripted(script, |config| config.agent.core = "react".to_owned()).await;
    let rule = |tool: &str, action: &str| json!({ "tool": tool, "action": action });
    let rules = json!({ "rules": [rule("demo_send_email", "auto"), rule("calculator", "ask")] });
    app.ask("PUT", "/policy").json(&rules).send().await.expect(200);
    let copy = async |thread: &str, id: &str| {
        let text = app.get(&format!("/threads/{thread}/export")).await.text();
        import(&app, &format!("?threadId={id}"), &text).await.expect(201);
    };
    let asks = |receipt: &Value| {
        assert_eq!(receipt["suspensions"][0]["toolName"], "demo_send_email", "{receipt:#}");
    };
    app.finish("t", "mail").await;
    app.finish("t", "hello").await;
    copy("t", "back").await;
    let body = json!({ "query": "mail", "after": "start" });
    let ask = app.ask("POST", "/threads/back/process").header("prefer", "wait=30");
    asks(&ask.json(&body).send().await.expect(202));

    // The imported thread asks itself.
    app.post("/threads/back/cancel", json!({})).await.expect(202);
    copy("back", "again").await;
    assert_eq!(app.suspend("again", "mail").await["toolName"], "demo_send_email");

    // What was called by the run that had not ended.
    assert_eq!(app.suspend("amid", "mail and count").await["toolName"], "calculator");
    copy("amid", "ended").await;
    assert_eq!(app.suspend("ended", "mail").await["toolName"], "demo_send_email");
}

/// Else no file of the thread could be imported any more, and the call would be made again unasked.
#[tokio::test]
async fn what_a_file_says_of_a_call_that_ran_is_not_believed_if_it_cannot_be() {
    let script = r#"
        [[reply]]
        when = { query = "mail", iteration = 1 }
        calls = [{ tool = "demo_send_email", arguments = { to = "a@example.com", subject = "s", body = "b" } }]

        [[reply]]
        text = "Well."
    "#;
    let app = App::scripted(script, |config| config.agent.core = "react".to_owned()).await;
    // A write asks by default.
    let approval = json!({ "suspensionId": app.suspend("t", "mail").await["suspensionId"], "approved": true });
    let resume = app.ask("POST", "/threads/t/resume").header("prefer", "wait=30");
    resume.json(&approval).send().await.expect(200);
    let rules = json!({ "rules": [{ "tool": "demo_send_email", "action": "auto" }] });
    app.ask("PUT", "/policy").json(&rules).send().await.expect(200);
    // Of a call of an earlier run the copy has only what the log tells.
    let next = app.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    next.json(&json!({ "query": "hello" })).send().await.expect(200);
    let file = rewritten(&app.get("/threads/t/export").await.text(), |lines| {
        let ran = lines.iter_mut().find(|line| line["observation"]["type"] == "TOOL_EXECUTION").unwrap();
        let digest = &mut ran["observation"]["content"]["executed"]["digest"];
        assert!(digest.is_string(), "what was approved ran");
        *digest = json!("x".repeat(5_000));
    });
    import(&app, "?threadId=copy", &file).await.expect(201);
    let ask = app.ask("POST", "/threads/copy/process").header("prefer", "wait=30");
    let receipt = ask.json(&json!({ "query": "mail", "after": "start" })).send().await.expect(202);
    assert_eq!(receipt["suspensions"][0]["toolName"], "demo_send_email", "{receipt:#}");
    let again = app.get("/threads/copy/export").await.text();
    import(&app, "?threadId=again", &again).await.expect(201);
}
