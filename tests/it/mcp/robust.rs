//! Servers that crash, write garbage, flood and fork are restarted, and none of their processes remain.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use pes::config::env::Variables;
use pes::config::{McpServer, Reference};
use pes::domain::caller::{Caller, Scope};
use pes::mcp::Health;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::bed::{Bed, caller, evil};
use crate::support::http::soon;
use crate::support::process::{Place, Server};
use crate::support::tool::context;

/// A server that dies during a call: the call is lost, not "failed", and the next call finds the server again.
async fn goes_down_and_comes_back(tool: &str) {
    let bed = Bed::new(|_| ()).await;
    let error = bed.call(tool, json!({})).await.unwrap_err();
    assert!(error.is_lost() && !error.message.contains("last words"), "{error:?}");
    assert!(bed.call("echo", json!({})).await.is_ok());
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert_eq!(view.restarts, 1);
}

#[tokio::test]
async fn a_crash_loses_the_call_and_not_the_server() {
    goes_down_and_comes_back("crash").await;
}

/// Before the last of these calls, the pause would be longer than a call waits.
#[tokio::test]
async fn a_server_that_crashes_again_and_again_answers_as_long_as_it_answers_between() {
    let bed = Bed::new(|_| ()).await;
    for life in 0..6 {
        for _ in 0..3 {
            bed.call("echo", json!({})).await.unwrap_or_else(|error| panic!("in life {life}: {error:?}"));
        }
        assert!(bed.call("crash", json!({})).await.unwrap_err().is_lost());
    }
    assert!(bed.call("echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn half_a_line_loses_the_call_and_not_the_server() {
    goes_down_and_comes_back("half").await;
}

#[tokio::test]
async fn a_message_that_is_too_large_loses_the_call_and_not_the_server() {
    goes_down_and_comes_back("big").await;
}

/// A server that stops reading during a call, and so in the middle of the next one: both end, and it is restarted.
async fn loses_what_it_does_not_read(bed: Bed, tool: &str) {
    let (tool, echo) = (bed.tool(&format!("evil__{tool}")).await, bed.tool("evil__echo").await);
    // More than fits into the pipes.
    let long = json!({ "text": "x".repeat(512 << 10) });
    let calls = async { tokio::join!(tool.call(json!({}), context()), echo.call(long, context())) };
    let (first, second) = soon(calls).await;
    let (first, second) = (first.unwrap_err(), second.unwrap_err());
    assert!(first.is_lost(), "{first:?}");
    assert_eq!((second.code.as_str(), second.retry_after_ms), ("failed", Some(0)), "it only reads: {second:?}");
    bed.until(|view| view.health == Health::Ready && view.restarts == 1).await;
    assert!(bed.call("echo", json!({})).await.is_ok());
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_a_server_that_is_just_being_written_to() {
    loses_what_it_does_not_read(Bed::new(|_| ()).await, "big_unread").await;
}

#[tokio::test]
async fn a_server_that_does_not_read_a_call_within_its_time_is_restarted() {
    loses_what_it_does_not_read(Bed::new(|server| server.timeout_ms = 1_000).await, "deaf").await;
}

#[tokio::test]
async fn a_flood_of_complaints_holds_nothing_up() {
    let bed = Bed::new(|_| ()).await;
    assert_eq!(bed.call("flood", json!({})).await.unwrap().output, "still here");
}

#[tokio::test]
async fn a_server_that_cannot_be_started_says_why_and_holds_nothing_up() {
    let bed = Bed::new(|server| server.command = Some("/nonexistent/server".to_owned())).await;
    let view = bed.until(|view| view.health == Health::Down).await;
    assert!(view.reason.unwrap().contains("not found"), "it says what the shell said");
    let seen = bed.catalog.list(&Caller { scopes: vec![Scope::Admin], ..caller() });
    assert_eq!(seen[0].reason, None, "to the operator alone");
    assert!(view.tools.is_empty());
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_says_so_without_types_of_the_library() {
    let bed = Bed::new(|server| {
        server.command = None;
        server.args.clear();
        server.url = Some("http://127.0.0.1:1/mcp".to_owned());
    })
    .await;
    let view = bed.until(|view| view.health == Health::Down).await;
    assert_eq!(view.reason.unwrap(), "cannot reach 127.0.0.1:1: connection refused");
}

/// An endpoint that answers `initialize` with these members, and knows no other method.
async fn beginning(members: Value) -> String {
    let answer = async |State(members): State<Value>, Json(asked): Json<Value>| {
        let mut said = json!({ "error": { "code": -32601, "message": "no such method" } });
        if asked["method"] == "initialize" {
            said = members;
        }
        (said["jsonrpc"], said["id"]) = (json!("2.0"), asked["id"].clone());
        Json(said)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let routes = Router::new().route("/mcp", post(answer)).with_state(members);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}

/// The reason is shown in a list and logged at each attempt.
#[tokio::test]
async fn a_server_that_begins_with_something_else_is_told_of_in_few_words() {
    let long = "x".repeat(100_000);
    let info = json!({ "name": "far", "version": "1" });
    let result = json!({ "result": { "protocolVersion": "2025-06-18", "serverInfo": info, "more": long } });
    let error = json!({ "error": { "code": -32000, "message": long } });
    let reason = async |members: Value| {
        let url = beginning(members).await;
        let bed = Bed::new(|server| {
            server.command = None;
            server.args.clear();
            server.url = Some(url);
        })
        .await;
        bed.until(|view| view.health == Health::Down).await.reason.unwrap()
    };
    assert_eq!(reason(result).await, "its answer to `initialize` lacks `capabilities`");
    assert_eq!(reason(error).await.chars().count(), 2_001);
}

/// The library gives up its first request after ten seconds of its own clock; the server answers it after that.
#[rstest::rstest]
#[tokio::test]
async fn a_server_that_takes_long_to_answer_first_is_waited_for(#[values("late", "late-modern")] mode: &str) {
    let bed = Bed::new(|server| server.args.push(mode.to_owned())).await;
    assert_eq!(bed.call("structured", json!({})).await.unwrap().output, json!({ "n": 1 }));
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert_eq!(view.restarts, 0);
}

/// The second one does not answer, either, and says what is wrong only when it is ended.
#[rstest::rstest]
#[case::at_once("unlistable", 30_000, "the connection ended")]
#[case::at_its_end("unlistable-later", 5_000, "it was not ready within 5000 ms")]
#[tokio::test]
async fn a_program_that_cannot_list_its_tools_is_down_with_its_last_words(
    #[case] mode: &str,
    #[case] start_timeout_ms: u64,
    #[case] why: &str,
) {
    let args = |server: &mut McpServer| server.args.push(mode.to_owned());
    let bed = Bed::with(args, |config| config.start_timeout_ms = start_timeout_ms).await;
    // On a busy machine the second one is perhaps not asked for its tools in its first time.
    let has_said = |why: &String| why.contains("ValueError");
    let reason = bed.until(|view| view.reason.as_ref().is_some_and(has_said)).await.reason.unwrap();
    let last = "ValueError: Circular reference detected (id repeated) / it ended with status 1";
    assert_eq!(reason, format!("{why}; its last words: {last}"));
}

#[tokio::test]
async fn a_server_sees_nothing_of_our_environment_but_what_it_is_given() {
    let bed = Bed::new(|server| {
        server.env.insert("COLOUR".to_owned(), Reference::from("green".to_owned()));
    })
    .await;
    let said = bed.call("environment", json!({})).await.unwrap().output;
    let seen: Value = serde_json::from_str(said.as_str().unwrap()).unwrap();
    assert_eq!(seen["COLOUR"], "green");
    let handed_on = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"];
    let hidden: Vec<String> = Variables::of_process()
        .iter()
        .map(|(name, _)| name.to_owned())
        // Set by the shell and a wrapper around python3.
        .filter(|name| !handed_on.contains(&name.as_str()) && !name.starts_with("PYENV"))
        .collect();
    assert!(hidden.iter().any(|name| name.starts_with("CARGO")), "there is something to be hidden");
    for name in hidden {
        assert!(seen.get(&name).is_none(), "{name} was handed on");
    }
}

/// Notifies when the server is up; returns when it and all its child processes are gone.
fn watch(folder: &Path) -> (oneshot::Receiver<()>, tokio::task::JoinHandle<()>) {
    let pipe = folder.join("alive");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (up, is_up) = oneshot::channel();
    let gone = tokio::task::spawn_blocking(move || {
        let mut pipe = BufReader::new(std::fs::File::open(pipe).unwrap());
        pipe.read_line(&mut String::new()).unwrap();
        up.send(()).unwrap();
        pipe.read_to_end(&mut Vec::new()).unwrap();
    });
    (is_up, gone)
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (is_up, gone) = watch(folder.path());
    let bed = Bed::new(|server| *server = evil(folder.path())).await;
    soon(is_up).await.unwrap();
    bed.catalog.close();
    soon(gone).await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_of_a_server_when_this_process_is_killed() {
    let place = Place::sqlite("");
    let (is_up, gone) = watch(place.folder());
    let config = json!({ "mcp": { "servers": { "evil": evil(place.folder()) } } });
    let config = toml::Table::try_from(config).unwrap();
    std::fs::create_dir(place.folder().join("config")).unwrap();
    std::fs::write(place.folder().join("config/local.toml"), config.to_string()).unwrap();
    let server = Server::start(&place, None).await;
    soon(is_up).await.unwrap();
    server.kill().await;
    soon(gone).await.unwrap();
}

/// Our environment, which contains keys, is not passed to programs that run as our user.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_cannot_look_into_the_server() {
    let bed = Bed::new(|_| ()).await;
    bed.call("echo", json!({})).await.unwrap();
    let dumpable = rustix::process::dumpable_behavior().unwrap();
    assert_eq!(dumpable, rustix::process::DumpableBehavior::NotDumpable);
}
