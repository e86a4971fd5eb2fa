//! The public conformance kit and the protocol's own client library, run against this server.

use std::path::PathBuf;
use std::process::Output;

use tokio::process::Command;

use crate::support::app::App;

/// The server that the kit expects: it runs the scenarios at once, for any caller.
async fn app() -> App {
    App::with(|config| {
        config.models.demo.script = Some(here("examples/a2a-scenarios.toml"));
        config.egress.allow.push("127.0.0.1".to_owned());
        config.outbox.push_backoff_ms = vec![50];
        config.a2a.card_v03 = true;
    })
    .await
}

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

async fn run(python: PathBuf, script: &str, app: &App) {
    let mut command = Command::new(python);
    command.arg("-B").arg(here(script)).arg(format!("http://{}", app.address)).kill_on_drop(true);
    let Output { status, stdout, stderr } = command.output().await.expect("it is installed");
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && said.contains(" 0 failed"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checks_of_the_conformance_kit_find_nothing() {
    run("python3".into(), "tests/peers/a2a_conformance.py", &app().await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a2a-sdk below target/peers: scripts/test --peers"]
async fn the_client_library_of_the_protocol_is_a_peer() {
    run(here("target/peers/a2a/bin/python"), "tests/peers/a2a_client.py", &app().await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a2a-sdk 0.3 below target/peers: scripts/test --peers"]
async fn the_client_library_of_the_older_version_is_a_peer() {
    run(here("target/peers/a2a-0.3/bin/python"), "tests/peers/a2a_old_client.py", &app().await).await;
}
