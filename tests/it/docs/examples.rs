//! The example client runs against a server.

use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::support::app::App;
use crate::support::http::soon;

/// The client's output for a person who types `said`.
async fn client(app: &App, query: &str, said: &str) -> String {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/client.py");
    let mut command = Command::new("python3");
    command.arg(example).arg(query).env("PES_URL", format!("http://{}", app.address)).env("no_proxy", "*");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("there is python3");
    child.stdin.take().unwrap().write_all(said.as_bytes()).await.unwrap();
    let output = soon(child.wait_with_output()).await.unwrap();
    let (printed, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{printed}{errors}");
    printed
}

#[tokio::test]
async fn the_client_shows_the_steps_asks_and_shows_the_answer() {
    let app = App::with(|config| config.models.demo.script = None).await;
    let query = "Send the team an invitation to the dinner.";
    let printed = client(&app, query, "yes\n").await;
    assert!(printed.contains("? Send the e-mail “Team dinner on Friday” to team@example.com?"), "{printed}");
    assert!(printed.contains("- Send the invitation to team@example.com: completed"), "{printed}");
    assert!(printed.contains("The invitation to the team dinner was written, approved"), "{printed}");
    assert!(printed.ends_with("= completed\n"), "{printed}");
    let runs = app.get("/threads/example/runs").await.expect(200);
    assert_eq!(runs["items"][0]["toolCalls"], 1, "{runs:#}");
}
