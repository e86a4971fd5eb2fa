//! The AI SDK's own client, versions 6 and 7, runs a whole scenario and checks every chunk by its own schema.

use std::path::Path;
use std::process::Output;

use tokio::process::Command;

use crate::support::app::App;

/// Runs the scenario against a new server; the program prints `done` at its end.
async fn tell(version: &str) {
    let app = App::start().await;
    let mut command = Command::new("node");
    command.args(["target/peers/ai-sdk/story.mjs", version, &format!("http://{}", app.address)]);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).kill_on_drop(true);
    let Output { status, stdout, stderr } = command.output().await.expect("it is installed");
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && said.trim_end().ends_with("done"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the AI SDK below target/peers: scripts/test --peers"]
async fn version_6_of_the_client_is_a_peer() {
    tell("6").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the AI SDK below target/peers: scripts/test --peers"]
async fn version_7_of_the_client_is_a_peer() {
    tell("7").await;
}
