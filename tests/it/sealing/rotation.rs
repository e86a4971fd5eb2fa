//! A sealing key is lost, restored as an old key, and no longer needed: the binary on both databases.

use std::process::Output;

use rstest::rstest;
use serde_json::{Value, json};

use super::{NEW, OLD};
use crate::support::demo::SCRIPT;
use crate::support::http::{soon, until};
use crate::support::metrics::found;
use crate::support::process::{Place, Server};
use crate::support::wire::{Wire, answer};

/// One receiver for each kind of secret.
struct Outside {
    hook: Wire,
    tool: Wire,
    push: Wire,
    agent: Wire,
}

impl Outside {
    async fn open() -> Self {
        let wire = async || Wire::serve((0..200).map(|_| answer("200 OK", "", "{}")).collect()).await;
        Self { hook: wire().await, tool: wire().await, push: wire().await, agent: wire().await }
    }

    fn all(&self) -> [&Wire; 4] {
        [&self.hook, &self.tool, &self.push, &self.agent]
    }

    /// Number of connections to each receiver so far.
    fn heard(&self) -> [usize; 4] {
        self.all().map(Wire::connections)
    }
}

/// The sealing keys of the next process; a failed delivery is retried every tenth of a second, and so is a failed call of
/// an agent.
fn hold(place: &Place, outside: &Outside, current: &str, old: &[&str]) {
    let allowed: Vec<String> = outside.all().map(|wire| format!("{:?}", wire.address.to_string())).to_vec();
    place.configure(&format!(
        "auth = {{ sealing_key = {current:?}, sealing_keys_old = {old:?} }}\n\
         egress = {{ allow = [{}] }}\n\
         outbox = {{ backoff_ms = {:?}, push_backoff_ms = [100] }}\n\
         delegation = {{ poll_ms = 100, poll_most_ms = 100 }}\n",
        allowed.join(", "),
        vec![100; 1_000],
    ));
}

async fn post(server: &Server, path: &str, body: Value, status: u16) -> Value {
    server.address.ask("POST", path).header("idempotency-key", path).json(&body).send().await.expect(status)
}

async fn get(server: &Server, path: &str) -> Value {
    server.address.ask("GET", path).send().await.expect(200)
}

async fn finish(server: &Server, thread: &str, query: &str) {
    let ask = server.address.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
    ask.json(&json!({ "query": query })).send().await.expect(200);
}

async fn say(server: &Server, id: &str, message: Value, configuration: Value) -> Value {
    let mut said = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "ask" }] });
    said.as_object_mut().unwrap().extend(message.as_object().unwrap().clone());
    let params = json!({ "message": said, "configuration": configuration });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
    let ask = server.address.ask("POST", "/a2a").header("a2a-version", "1.0");
    let answer = ask.json(&call).send().await.expect(200);
    answer["result"]["task"].clone()
}

async fn stopped(mut server: Server) {
    server.stop();
    server.ended().await;
}

fn hook(outside: &Outside) -> Value {
    let url = format!("http://{}/", outside.hook.address);
    json!({ "url": url, "events": ["run.finished"], "secrets": ["hook-secret"] })
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Stores every kind of secret under the first key. Returns the id of a task with a question, which sends
/// notifications.
async fn set_up(server: &Server, outside: &Outside) -> String {
    post(server, "/webhooks", hook(outside), 201).await;
    let tool = json!({ "name": "find_order", "description": "Finds an order.", "secret": "tool-secret",
        "url": format!("http://{}/", outside.tool.address), "inputSchema": { "type": "object" } });
    let ask = server.address.ask("POST", "/http-tools");
    ask.json(&tool).send().await.expect(201);
    let card = format!("http://{}/card.json", outside.agent.address);
    let ask = server.address.ask("POST", "/agents");
    ask.json(&json!({ "id": "helper", "card": card, "token": "agent-secret" })).send().await.expect(201);
    let push = json!({ "id": "here", "url": format!("http://{}/", outside.push.address), "token": "push-secret" });
    let task = say(server, "m", json!({}), json!({ "taskPushNotificationConfig": push })).await;
    task["id"].as_str().unwrap_or_else(|| panic!("{task:#}")).to_owned()
}

/// Starts everything that would use a secret; nothing is sent.
async fn nothing_is_sent(server: &Server, outside: &Outside, task: &str, before: [usize; 4]) {
    finish(server, "lost", "hello").await;
    finish(server, "lost-tool", "order").await;
    say(server, "r", json!({ "taskId": task }), json!({})).await;
    server
        .address
        .ask("POST", "/threads/lost-agent/process")
        .json(&json!({ "query": "delegate" }))
        .send()
        .await
        .expect(202);
    soon(async {
        loop {
            let metrics = server.address.ask("GET", "/metrics").send().await.text();
            let is_counted = |kind| {
                let counted = found(&metrics, &format!("pes_secrets_unreadable_total{{kind=\"{kind}\"}}"));
                counted.is_some_and(|counted| counted >= 1.0)
            };
            if ["webhook", "push", "http_tool", "agent"].into_iter().all(is_counted) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let delegated = soon(async {
        loop {
            let tasks = get(server, "/tasks").await;
            if let Some(failed) = tasks["items"].as_array().unwrap().iter().find(|one| one["status"] == "failed") {
                return failed.clone();
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(delegated["threadId"], "lost-agent");
    let why = delegated["reason"].as_str().unwrap_or_else(|| panic!("{delegated:#}"));
    assert!(why.starts_with("secret_unreadable: nothing was sent: "), "{why}");
    let log = get(server, "/threads/lost-tool/events?types=TOOL_EXECUTION&limit=9").await.to_string();
    assert!(log.contains("secret_unreadable") && log.contains("it was not sent"), "{log}");
    let webhooks = get(server, "/webhooks").await;
    let webhook = &webhooks["items"][0];
    assert!(webhook["secretError"].as_str().unwrap().contains("does not hold"), "{webhooks:#}");
    assert_eq!(webhook["secretCount"], 1);
    let path = format!("/webhooks/{}/deliveries", webhook["webhookId"].as_str().unwrap());
    let waits = |one: &Value| {
        one["status"] == "pending" && one["said"].as_str().is_some_and(|said| said.starts_with("secret_unreadable: "))
    };
    let one_waits = async || get(server, &path).await["items"].as_array().unwrap().iter().any(waits);
    until("a delivery waits", one_waits).await;
    for path in ["/http-tools", "/agents"] {
        let shown = get(server, path).await;
        assert!(shown["items"][0]["secretError"].as_str().unwrap().contains("does not hold"), "{shown:#}");
    }
    let again = server.address.ask("POST", "/webhooks").header("idempotency-key", "/webhooks");
    again.json(&hook(outside)).send().await.problem("secret_unreadable");
    assert_eq!(outside.heard(), before, "somebody was told something without a secret");
}

#[rstest]
#[tokio::test]
async fn without_its_key_nothing_is_sent_with_it_all_is_and_resealed_it_is_not_needed(
    #[values(false, true)] is_shared: bool,
) {
    let place = if is_shared { Place::postgres(SCRIPT).await } else { Place::sqlite(SCRIPT) };
    let mut outside = Outside::open().await;
    hold(&place, &outside, OLD, &[]);
    let server = Server::start(&place, None).await;
    let task = set_up(&server, &outside).await;
    stopped(server).await;

    place.configure("");
    let said = place.run(&["reseal"]);
    assert_eq!(said.status.code(), Some(1), "{}", text(&said));
    assert!(text(&said).contains(" could not be opened, and there is no key to seal with: set PES_SEALING_KEY"));

    hold(&place, &outside, NEW, &[]);
    let before = outside.heard();
    let server = Server::start(&place, None).await;
    nothing_is_sent(&server, &outside, &task, before).await;
    stopped(server).await;
    let log = std::fs::read_to_string(place.folder().join("log")).unwrap();
    assert!(log.contains("WARN") && log.contains("cannot be opened with the sealing keys held"), "{log}");
    let said = place.run(&["doctor"]);
    assert!(!said.status.success() && text(&said).contains("FAIL secrets  webhook whk_"), "{}", text(&said));
    assert!(text(&said).contains("FAIL secrets  http_tool find_order of tenant default: "), "{}", text(&said));
    let said = place.run(&["reseal"]);
    assert_eq!(said.status.code(), Some(1), "{}", text(&said));
    for what in ["webhook whk_", "http_tool find_order", "agent helper", "push configuration run_", "answer to the "] {
        assert!(text(&said).contains(&format!("not opened: {what}")), "{what}: {}", text(&said));
    }
    assert!(text(&said).contains("sealed again with the key ") && text(&said).contains(": 0; "), "{}", text(&said));

    hold(&place, &outside, NEW, &[OLD]);
    let server = Server::start(&place, None).await;
    assert!(soon(outside.hook.request()).await.is_signed_only_by("hook-secret"), "what waited is sent, and signed");
    let pushed = soon(outside.push.request()).await;
    assert_eq!(pushed.header("x-a2a-notification-token"), Some("push-secret"));
    finish(&server, "found-tool", "order").await;
    assert!(soon(outside.tool.request()).await.is_signed_only_by("tool-secret"));
    let webhooks = get(&server, "/webhooks").await;
    assert_eq!(webhooks["items"][0]["secretError"], Value::Null, "{webhooks:#}");
    post(&server, "/webhooks", hook(&outside), 201).await;
    let said = place.run(&["reseal"]);
    if is_shared {
        assert!(said.status.success(), "beside a server: {}", text(&said));
        stopped(server).await;
    } else {
        assert!(text(&said).contains("stop the server at http://"), "{}", text(&said));
        stopped(server).await;
        let said = text(&place.run(&["doctor"]));
        assert!(said.contains("ok   secrets  5 can be opened, 5 only with an old key"), "{said}");
        assert!(place.run(&["reseal"]).status.success());
    }
    let said = text(&place.run(&["reseal"]));
    assert!(said.contains(": 0; sealed with it already: 5"), "{said}");

    hold(&place, &outside, NEW, &[]);
    let said = text(&place.run(&["doctor"]));
    assert!(said.contains("ok   secrets  5 can be opened, all with the key that seals"), "{said}");
    while outside.hook.waiting() > 0 {
        outside.hook.request().await;
    }
    let server = Server::start(&place, None).await;
    finish(&server, "new-key", "hello").await;
    assert!(soon(outside.hook.request()).await.is_signed_only_by("hook-secret"));
    finish(&server, "new-tool", "order").await;
    assert!(soon(outside.tool.request()).await.is_signed_only_by("tool-secret"));
    let shown = get(&server, "/webhooks").await;
    assert_eq!(shown["items"][0]["secretError"], Value::Null, "{shown:#}");
    stopped(server).await;
}
