//! A scenario with each client. The client asks this side for each fault of connection or server, and waits until it
//! has happened.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::breaking_proxy::BreakingProxy;
use crate::support::demo;
use crate::support::http::soon;
use crate::support::process::{Place, Server};

/// Runs a scenario, which writes a command per line and reads an answer: `break N` (connections break after about N
/// bytes, with 0 none does; the answer is how many did), `kill` (answered once the process is dead; then another one
/// starts). `done` ends it.
async fn tell(program: &str, arguments: &[&str]) {
    let place = Place::sqlite(demo::SCRIPT);
    let mut server = Server::start(&place, None).await;
    let proxy = BreakingProxy::to(server.address.socket_addr()).await;
    let mut command = Command::new(program);
    command.args(arguments).arg(format!("http://{}", proxy.address)).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.env("no_proxy", "*").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut story = command.spawn().expect("it is installed");
    let mut orders = BufReader::new(story.stdout.take().expect("it is piped")).lines();
    let mut answers = story.stdin.take().expect("it is piped");
    loop {
        let order = soon(orders.next_line()).await.expect("text").expect("it says `done` at its end");
        match order.split_once(' ') {
            Some(("break", bytes)) => {
                let broke = proxy.breaks_after(bytes.parse().expect("a number"));
                answers.write_all(format!("{broke}\n").as_bytes()).await.expect("it reads");
            }
            None if order == "kill" => {
                proxy.leads_to(None);
                server.kill().await;
                answers.write_all(b"killed\n").await.expect("it reads");
                server = Server::start(&place, None).await;
                proxy.leads_to(Some(server.address.socket_addr()));
            }
            None if order == "done" => break,
            _ => panic!("{order}"),
        }
    }
    assert!(soon(story.wait()).await.expect("it ends").success());
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the client below target/peers: scripts/test --peers"]
async fn the_client_in_typescript_is_a_peer() {
    tell("node", &["--experimental-websocket", "target/peers/our-ts/built/our_client.mjs"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the client below target/peers: scripts/test --peers"]
async fn the_client_in_python_is_a_peer() {
    tell("target/peers/our-py/bin/python", &["-B", "tests/peers/our_client.py"]).await;
}
