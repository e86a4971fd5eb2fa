//! The code in the clients' documents runs as it is printed, and so do the examples.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::support::app::App;
use crate::support::http::soon;

const QUERY: &str = "Send the team an invitation to the dinner.";
const ANSWER: &str = "The invitation to the team dinner was written, approved";

/// The program's output for a person who types `said`, against a server with the demo model.
async fn printed(app: &App, program: &str, arguments: &[&str], said: &str) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).kill_on_drop(true);
    command.env("PES_URL", format!("http://{}", app.address)).env("no_proxy", "*");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it is installed");
    child.stdin.take().expect("it is piped").write_all(said.as_bytes()).await.expect("it reads");
    let output = soon(child.wait_with_output()).await.expect("it ends");
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{errors}");
    printed.into_owned()
}

async fn demo() -> App {
    App::with(|config| config.models.demo.script = None).await
}

/// The first code block of a README as a file beside the client, with the address of `app` in place of its own.
fn shown(app: &App, readme: &str, file: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(readme)).expect("it is there");
    let block = text.split("```").nth(1).and_then(|block| block.split_once('\n')).expect("a block of code").1;
    let own = "http://127.0.0.1:7070";
    assert!(block.contains(own), "{block}");
    std::fs::write(root.join(file), block.replace(own, &format!("http://{}", app.address)))
        .expect("its folder is there");
}

/// The second program goes on with the thread of the first, whose question is answered.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the clients below target/peers: scripts/test --peers"]
async fn what_each_readme_shows_is_a_peer_twice() {
    for (readme, file, program, arguments) in [
        ("clients/typescript/README.md", "target/peers/our-ts/readme.mjs", "node", "--experimental-websocket"),
        ("clients/python/README.md", "target/peers/our-py/readme.py", "target/peers/our-py/bin/python", "-B"),
    ] {
        let app = demo().await;
        shown(&app, readme, file);
        let said = printed(&app, program, &[arguments, file], "").await;
        assert!(said.contains(ANSWER), "{said}");
        printed(&app, program, &[arguments, file], "").await;
        let runs = app.get("/threads/dinner/runs").await.expect(200);
        let runs: Vec<&Value> = runs["items"].as_array().expect("a list").iter().map(|run| &run["status"]).collect();
        assert_eq!(runs, ["completed", "completed"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the clients below target/peers: scripts/test --peers"]
async fn each_example_with_a_client_is_a_peer() {
    for (program, arguments) in [
        ("node", vec!["--experimental-websocket", "target/peers/our-ts/built/approve.mjs", QUERY]),
        ("target/peers/our-py/bin/python", vec!["-B", "examples/approve.py", QUERY]),
    ] {
        let app = demo().await;
        let said = printed(&app, program, &arguments, "yes\n").await;
        assert!(said.contains("? Send the e-mail “Team dinner on Friday” to team@example.com?"), "{said}");
        assert!(said.contains("- Send the invitation to team@example.com: completed"), "{said}");
        assert!(said.contains(ANSWER) && said.trim_end().ends_with("= completed"), "{said}");
    }
}
