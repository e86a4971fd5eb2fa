//! A provider's key does not leak: whatever fails, no byte of it is stored, logged, shown or sent to a client.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use pes::domain::model::FailureKind;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{ask, openai, stop_chunk, text_chunk};
use crate::support::http::{Ask, soon};
use crate::support::wire::{Step, Wire, answer, end, event, event_stream};

const CANARY: &str = "sk-canary-4f1c9a";

fn command(folder: &Path, base_url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pes"));
    command.env_clear().current_dir(folder).env("PORT", "0").env("PES_DATA_DIR", folder.join("data"));
    command.env("RUST_LOG", "trace").env("OPENAI_BASE_URL", base_url).env("OPENAI_API_KEY_FILE", "key");
    command.kill_on_drop(true);
    command
}

/// The server, its output at the start, and its address.
async fn serve(folder: &Path, base_url: &str) -> (Child, String, SocketAddr) {
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let mut child = command(folder, base_url).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut facts = String::new();
    loop {
        let line = soon(lines.next_line()).await.unwrap().expect("it becomes ready");
        facts += &format!("{line}\n");
        if line == "ready" {
            let address = facts.split("http://").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
            return (child, facts, address);
        }
    }
}

/// How often the canary occurs in the files below.
fn stored(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(stored(&path));
        } else if path.file_name().is_some_and(|name| name != "key") {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[tokio::test]
async fn a_key_is_nowhere_whatever_fails() {
    let echo = json!({"error": {"message": format!("the key {CANARY} is wrong"), "code": CANARY}}).to_string();
    let long = format!("{}{CANARY}{}", "x".repeat(490), "y".repeat(20_000));
    let faults: Vec<Vec<Step>> = vec![
        answer("401 Unauthorized", &format!("www-authenticate: {CANARY}\r\n"), &echo),
        answer("400 Bad Request", "", &long),
        answer("200 OK", "content-type: text/html\r\n", &echo),
        vec![event_stream(), text_chunk("some"), event(&echo)],
        answer("200 OK", "content-type: application/json\r\n", &echo),
        answer("302 Found", &format!("location: http://127.0.0.1:1/{CANARY}\r\n"), &echo),
    ];
    let runs = faults.len();
    let plan = json!({"title": "t", "intent": "i", "plan": "p", "answer": "ok", "todoList": []});
    let good = vec![event_stream(), text_chunk(&plan.to_string()), stop_chunk(), end()];
    let check = answer("401 Unauthorized", "", &echo);
    let wire = Wire::serve(faults.into_iter().chain([good, check.clone(), check]).collect()).await;

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), format!("{CANARY}\n")).unwrap();
    let (mut child, facts, address) = serve(folder.path(), &wire.url()).await;
    let mut told = facts.clone();
    for run in 0..=runs {
        let path = format!("/threads/t{run}/process");
        let ask = Ask::new(address, "POST", &path).header("prefer", "wait=30");
        let said = ask.json(&json!({"query": "hi"})).send().await;
        let status = said.expect(200)["metadata"]["status"].clone();
        assert_eq!(status, if run == runs { "success" } else { "error" }, "run {run}: {}", said.text());
        told += &said.text();
        for what in ["events", "state", "runs", "messages"] {
            told += &Ask::new(address, "GET", &format!("/threads/t{run}/{what}")).send().await.text();
        }
    }
    told += &Ask::new(address, "GET", "/models?check=true").send().await.text();
    assert!(told.contains("[redacted]"), "the providers' words are told");
    assert!(!told.contains(CANARY), "{told}");

    let doctor = command(folder.path(), &wire.url()).arg("doctor").output().await.unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&doctor.stdout), String::from_utf8_lossy(&doctor.stderr));
    assert_eq!((doctor.status.code(), said.contains(CANARY)), (Some(1), false), "{said}");
    assert!(said.contains("key refused") && said.contains("[redacted]"), "{said}");
    let shown = command(folder.path(), &wire.url()).arg("config").output().await.unwrap();
    assert!(!String::from_utf8_lossy(&shown.stdout).contains(CANARY));

    child.start_kill().unwrap();
    soon(child.wait()).await.unwrap();
    assert_eq!(stored(folder.path()), Vec::<String>::new());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("TRACE"), "everything was logged");
}

#[tokio::test]
async fn a_key_that_cannot_be_used_is_named_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), format!("{CANARY}\nline two")).unwrap();
    let bad = soon(command(folder.path(), "http://127.0.0.1:9/v1").output()).await.unwrap();
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert_eq!((bad.status.code(), said.contains(CANARY)), (Some(2), false), "{said}");
    assert!(said.contains("API key of openai"), "{said}");
}

#[tokio::test]
async fn a_file_that_lost_its_key_is_told_once_and_shown_where_models_are_checked() {
    let good = || vec![event_stream(), text_chunk("ok"), stop_chunk(), end()];
    let wire = Wire::serve(vec![good(), good(), good(), good()]).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), CANARY).unwrap();
    let (mut child, _, address) = serve(folder.path(), &wire.url()).await;
    let check = async || Ask::new(address, "GET", "/models?check=true").send().await.expect(200)["items"][0].clone();
    assert_eq!(check().await["check"].get("warning"), None);
    std::fs::remove_file(folder.path().join("key")).unwrap();
    for _ in 0..2 {
        let said = check().await["check"].clone();
        assert_eq!(said["status"], "ok", "the last key is used: {said:#}");
        assert!(said["warning"].as_str().unwrap().contains("No such file"), "{said:#}");
    }
    std::fs::write(folder.path().join("key"), CANARY).unwrap();
    assert_eq!(check().await["check"].get("warning"), None, "it is back");
    child.start_kill().unwrap();
    soon(child.wait()).await.unwrap();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let told = log.matches("the file of its key holds none; the last one is used").count();
    assert_eq!((told, log.contains(CANARY)), (1, false));
}

#[tokio::test]
async fn a_key_in_a_file_is_renewed_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "key-one\n").unwrap();
    let good = || vec![event_stream(), text_chunk("hi"), stop_chunk(), end()];
    let no = || answer("401 Unauthorized", "", "{}");
    let mut wire = Wire::serve(vec![good(), no(), good(), no()]).await;
    let model = openai(&wire, |models| models.openai.api_key = Some(format!("file:{}", file.display()).into()));
    ask(&model).await.1.unwrap();
    assert_eq!(wire.request().await.header("authorization"), Some("Bearer key-one"));

    // As if at the same moment: only the refusal shows it.
    let at = std::fs::metadata(&file).unwrap().modified().unwrap();
    std::fs::write(&file, "key-two\n").unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(at).unwrap();
    let refused = ask(&model).await.1.unwrap_err();
    assert_eq!((refused.kind, refused.http_status), (FailureKind::Retry, Some(401)));
    ask(&model).await.1.unwrap();
    let refused = ask(&model).await.1.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Refused, "the file holds no other key");
    let shown: Vec<String> = [wire.request().await, wire.request().await, wire.request().await]
        .iter()
        .map(|request| request.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(shown, ["Bearer key-one", "Bearer key-two", "Bearer key-two"]);
}
