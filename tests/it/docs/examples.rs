//! The example client runs against a server.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::support::app::App;
use crate::support::http::soon;
use crate::support::wire::{Step, Wire, answer, end, event_stream};

/// The client's output for a person who types `said`.
async fn client(server: SocketAddr, query: &str, said: &str) -> Output {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/client.py");
    let mut command = Command::new("python3");
    command.arg(example).arg(query).env("PES_URL", format!("http://{server}")).env("no_proxy", "*");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("there is python3");
    child.stdin.take().unwrap().write_all(said.as_bytes()).await.unwrap();
    soon(child.wait_with_output()).await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn the_client_shows_the_steps_asks_and_shows_the_answer() {
    let app = App::with(|config| config.models.demo.script = None).await;
    let output = client(app.address, "Send the team an invitation to the dinner.", "yes\n").await;
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    assert!(printed.contains("? Send the e-mail “Team dinner on Friday” to team@example.com?"), "{printed}");
    assert!(printed.contains("- Send the invitation to team@example.com: completed"), "{printed}");
    assert!(printed.contains("The invitation to the team dinner was written, approved"), "{printed}");
    assert!(printed.ends_with("= completed\n"), "{printed}");
    let runs = app.get("/threads/example/runs").await.expect(200);
    assert_eq!(runs["items"][0]["toolCalls"], 1, "{runs:#}");
}

fn accepted() -> Vec<Step> {
    answer("202 Accepted", "content-type: application/json\r\n", r#"{"runId": "run_1"}"#)
}

fn refused(status: &str, title: &str) -> Vec<Step> {
    answer(status, "retry-after: 0\r\n", &format!(r#"{{"title": "{title}", "detail": "It is so."}}"#))
}

fn frame(name: &str, data: &str) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

#[tokio::test]
async fn the_client_goes_on_where_its_stream_was_cut_inside_a_chunk() {
    let step = |seq| {
        let data =
            format!(r#"{{"seq": {seq}, "runId": "run_1", "type": "ITEM_STATUS_CHANGE", "title": "step {seq}"}}"#);
        Step::Chunk(frame("observation", &data))
    };
    let run = r#"{"status": "completed", "result": {"response": {"content": "Done."}}}"#;
    let half_a_chunk = Step::Raw(b"40\r\nevent: observation\nda".to_vec());
    let mut server = Wire::serve(vec![
        accepted(),
        vec![event_stream(), step(1), half_a_chunk, Step::Cut],
        refused("503 Service Unavailable", "Stopping"),
        vec![event_stream(), step(2), Step::Chunk(frame("run", run)), end()],
    ])
    .await;
    let output = client(server.address, "hello", "").await;
    assert_eq!(text(&output.stdout), "- step 1\n- step 2\n\nDone.\n= completed\n", "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stderr),
        "(the connection is lost; trying again)\n(the server answers 503; trying again)\n"
    );
    assert!(output.status.success());
    assert!(server.request().await.line.starts_with("POST /threads/example/process "));
    for after in [0, 1, 1] {
        let line = format!("GET /threads/example/events?after={after}&until=run_1 ");
        let asked = server.request().await.line;
        assert!(asked.starts_with(&line), "{asked}");
    }
}

#[tokio::test]
async fn the_client_ends_when_its_stream_is_refused() {
    let server = Wire::serve(vec![accepted(), refused("404 Not Found", "Not found")]).await;
    let output = client(server.address, "hello", "").await;
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("", "Not found: It is so.\n"));
    assert_eq!(output.status.code(), Some(1));
}
