//! OpenAI's own libraries, and others that speak its wire, each run a whole scenario against this server, and every
//! object and event has the type that the library declares.

use std::process::Output;

use tokio::process::Command;

use crate::support::app::App;

/// Runs the scenario against a new server; the program prints `done` at its end.
async fn tell(program: &str, arguments: &[&str]) {
    let app = App::start().await;
    let mut command = Command::new(program);
    command.args(arguments).arg(format!("http://{}", app.address));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).kill_on_drop(true);
    let Output { status, stdout, stderr } = command.output().await.expect("it is installed");
    let said = format!("{}{}", String::from_utf8_lossy(&stderr), String::from_utf8_lossy(&stdout));
    assert!(status.success() && said.trim_end().ends_with("done"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs openai below target/peers: scripts/test --peers"]
async fn the_library_of_openai_in_python_is_a_peer() {
    tell("target/peers/openai/bin/python", &["-B", "tests/peers/openai_client.py"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs openai below target/peers: scripts/test --peers"]
async fn the_library_of_openai_in_javascript_is_a_peer() {
    tell("node", &["target/peers/openai-js/openai_client.mjs"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs openai-agents below target/peers: scripts/test --peers"]
async fn the_agents_sdk_of_openai_is_a_peer() {
    tell("target/peers/openai-agents/bin/python", &["-B", "tests/peers/openai_agents.py"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs @ai-sdk/openai below target/peers: scripts/test --peers"]
async fn the_provider_of_the_ai_sdk_is_a_peer() {
    for version in ["6", "7"] {
        tell("node", &["target/peers/openai-js/ai_openai.mjs", version]).await;
    }
}
