//! `GET /threads/{thread}/export` and `POST /imports`

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::app::App;
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
