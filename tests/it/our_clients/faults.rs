//! Each client against small servers that its program makes itself, and which fail as a real one may.

use std::process::Stdio;

use tokio::process::Command;

use crate::support::http::soon;

async fn tell(program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env("no_proxy", "*").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = soon(command.output()).await.expect("it is installed");
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "after {printed}{errors}");
}

#[tokio::test]
#[ignore = "needs the client below target/peers: scripts/test --peers"]
async fn the_client_in_typescript_is_a_peer_of_servers_that_fail() {
    tell("node", &["target/peers/our-ts/built/our_client_faults.mjs"]).await;
}

/// As two major versions of TypeScript write them.
#[tokio::test]
#[ignore = "needs the client below target/peers: scripts/test --peers"]
async fn the_client_in_typescript_is_a_peer_of_commonjs_programs() {
    for compiler in ["typescript", "typescript7"] {
        tell("node", &[&format!("target/peers/our-ts/built/{compiler}/our_client_commonjs.cjs")]).await;
    }
}

#[tokio::test]
#[ignore = "needs the client below target/peers: scripts/test --peers"]
async fn the_client_in_python_is_a_peer_of_servers_that_fail() {
    tell("target/peers/our-py/bin/python", &["-B", "tests/peers/our_client_faults.py"]).await;
}
