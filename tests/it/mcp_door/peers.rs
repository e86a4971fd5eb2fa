//! The published client libraries of the protocol. `scripts/test --peers` installs them into `target/peers`.

use std::path::PathBuf;
use std::process::Output;

use tokio::process::Command;

use crate::support::app::App;

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

async fn run(program: PathBuf, arguments: &[PathBuf]) {
    let app = App::start().await;
    let mut command = Command::new(program);
    command.args(arguments).arg(format!("http://{}/mcp", app.address)).kill_on_drop(true);
    let Output { status, stdout, stderr } = command.output().await.expect("it is installed");
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && said.contains(" 0 failed"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs mcp below target/peers: scripts/test --peers"]
async fn the_client_library_for_python_is_a_peer() {
    run(here("target/peers/mcp/bin/python"), &["-B".into(), here("tests/peers/mcp_client.py")]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs @modelcontextprotocol/client below target/peers: scripts/test --peers"]
async fn the_client_libraries_for_javascript_are_peers() {
    run_script("mcp_client.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs @modelcontextprotocol/ext-tasks below target/peers: scripts/test --peers"]
async fn the_client_library_for_tasks_is_a_peer() {
    run_script("mcp_tasks.mjs").await;
}

/// Modules are resolved relative to the script.
async fn run_script(name: &str) {
    let script = here("target/peers/mcp-js").join(name);
    std::fs::copy(here("tests/peers").join(name), &script).expect("they are installed");
    run("node".into(), &[script]).await;
}
