//! OpenAI's own library against this server: a whole story, in which each object and event is what the library says.

use std::process::Output;

use tokio::process::Command;

use crate::support::app::App;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs openai below target/peers: scripts/test --peers"]
async fn the_library_of_openai_in_python_is_a_peer() {
    let app = App::start().await;
    let mut command = Command::new("target/peers/openai/bin/python");
    command.args(["-B", "tests/peers/openai_client.py"]).arg(format!("http://{}", app.address));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).kill_on_drop(true);
    let Output { status, stdout, stderr } = command.output().await.expect("it is installed");
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && said.trim_end().ends_with("done"), "{said}");
}
