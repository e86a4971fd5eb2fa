//! Clients generated from `/openapi.json` by others' generators each run a whole scenario.

use std::path::{Path, PathBuf};
use std::process::Output;

use tokio::process::Command;

use crate::support::app::App;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs the scenario against a new server; the program prints `done` at its end.
async fn tell(program: &str, arguments: &[&str]) {
    let app = App::start().await;
    let mut command = Command::new(program);
    command.args(arguments).arg(format!("http://{}", app.address)).current_dir(here("")).kill_on_drop(true);
    let Output { status, stdout, stderr } = command.output().await.expect("it is installed");
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && said.trim_end().ends_with("done"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a client below target/peers: scripts/test --peers"]
async fn a_client_in_typescript_is_a_peer() {
    tell("node", &["target/peers/client-ts/built/client.js"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a client below target/peers: scripts/test --peers"]
async fn a_client_in_python_is_a_peer() {
    tell("target/peers/client-py/bin/python", &["-B", "tests/peers/client.py"]).await;
}
