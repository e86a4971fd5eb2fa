//! What commands print with `--json`, apart from lists.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::client::Stage;
use super::serving::text;
use super::{answer_once, run};

fn document(said: &str) -> Value {
    serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn the_version_and_the_settings_are_documents() {
    let folder = tempfile::tempdir().unwrap();
    let pes = |arguments: &[&str]| {
        let proxy = ("OLLAMA_HOST", "http://ann:hush@ollama.example:11434");
        let output = run(folder.path(), arguments, &[proxy, ("OPENAI_API_KEY", "hush"), ("PORT", "1")]);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        assert!(!text(&output.stdout).contains("hush"), "{arguments:?}: {}", text(&output.stdout));
        document(&text(&output.stdout))
    };
    assert_eq!(pes(&["version", "--json"]), json!({ "name": "pes", "version": env!("CARGO_PKG_VERSION") }));
    let settings = pes(&["config", "--json", "--port", "2"]);
    assert_eq!((&settings["server"]["port"], &settings["limits"]["json_depth"]), (&json!(2), &json!(64)));
    assert_eq!(settings["models"]["ollama"]["host"], "http://ollama.example:11434");
    let sources = pes(&["config", "--explain", "--json"]);
    let port = sources["items"].as_array().unwrap().iter().find(|one| one["name"] == "server.port").unwrap();
    assert_eq!(port, &json!({ "name": "server.port", "value": 1, "source": "PORT" }));
    let both = run(folder.path(), &["config", "--template", "--json"], &[]);
    assert_eq!(both.status.code(), Some(2), "the template is TOML");
}

#[test]
fn the_health_is_the_servers_response() {
    let stage = Stage::new();
    assert_eq!(document(&stage.said(&["health", "--json"]))["status"], "ready");

    let body = r#"{ "code": "draining", "failing": ["the server is stopping"] }"#;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let head = format!("HTTP/1.1 503 Service Unavailable\r\nContent-Length: {}\r\n\r\n", body.len());
    let answering = answer_once(listener, head + body);
    let output = stage.pes(&["health", "--json", "--url", &url]);
    answering.join().unwrap();
    assert_eq!((output.status.code(), document(&text(&output.stdout))), (Some(1), document(body)));
    assert!(text(&output.stderr).contains(" is not ready: 503 "), "{}", text(&output.stderr));
}

#[test]
fn the_past_of_a_thread_is_its_frames() {
    let stage = Stage::new();
    stage.said(&["run", "hello", "--thread", "t"]);
    let frames = |more: &[&str]| -> Vec<Value> {
        stage.said(&[&["replay", "t", "--json"], more].concat()).lines().map(document).collect()
    };
    let all = frames(&[]);
    assert_eq!((&all[0]["event"], &all[0]["data"]["type"]), (&json!("observation"), &json!("RUN_STARTED")));
    assert_eq!(all.last().unwrap()["data"]["type"], "RUN_FINISHED");
    let seqs: Vec<usize> = all.iter().map(|frame| frame["data"]["seq"].as_u64().unwrap() as usize).collect();
    assert_eq!(seqs, (1..=all.len()).collect::<Vec<_>>());
    assert_eq!(frames(&["--at", "2"]), all[..2]);
    let beyond = (all.len() + 1).to_string();
    stage.refused(&["replay", "t", "--json", "--at", &beyond], 2, &format!("The last observation is {}.", all.len()));
    let both = stage.pes(&["replay", "t", "--json", "--speed", "2"]);
    assert_eq!(both.status.code(), Some(2), "nothing is drawn");
}
