//! Push notifications of a task: stored with it, sent in order, authenticated, and only to allowed addresses.

use pes::a2a::fault::Error;
use pes::a2a::types::{Authentication, PushConfig, SendRequest, StreamEvent, Task, TaskState};
use pes::a2a::wire::{Method, Version};
use pes::config::Config;
use pes::engine::step::{Keep, RowKind};
use pes::store::PageAsk;
use pes::store::outbox::{DeliveryStatus, TargetKind};
use serde_json::{Value, json};

use super::binding::{BINDINGS, Binding, NEW, about, says};
use crate::support::app::App;
use crate::support::store::fresh_store;
use crate::support::wire::{Request, Step, Wire, answer};

fn ok() -> Vec<Step> {
    answer("200 OK", "", "")
}

fn oks(count: usize) -> Vec<Vec<Step>> {
    (0..count).map(|_| ok()).collect()
}

/// Loopback is allowed, and retries follow at once.
fn allowing(wire: &Wire) -> impl Fn(&mut Config) + use<> {
    let address = wire.address.to_string();
    move |config| {
        config.egress.allow.push(address.clone());
        config.outbox.push_backoff_ms = vec![1];
    }
}

fn config(wire: &Wire) -> PushConfig {
    PushConfig {
        id: Some("here".into()),
        url: format!("http://{}/pushed", wire.address),
        token: Some("token-5".into()),
        authentication: Some(Authentication { scheme: "Bearer".into(), credentials: Some("secret-7".into()) }),
        ..PushConfig::default()
    }
}

fn with(config: PushConfig, mut request: SendRequest) -> SendRequest {
    request.configuration.push = Some(config);
    request
}

async fn next(wire: &mut Wire) -> Request {
    crate::support::http::soon(wire.request()).await
}

fn told(request: &Request) -> StreamEvent {
    Version::V1.read_event(&request.body).unwrap_or_else(|error| panic!("{error}: {:#}", request.body))
}

/// States, and `answer` for a part of the artifact.
fn word(event: &StreamEvent) -> String {
    match event {
        StreamEvent::StatusUpdate(update) => format!("{:?}", update.status.state),
        StreamEvent::ArtifactUpdate(update) => update.artifact.artifact_id.clone(),
        other @ (StreamEvent::Task(_) | StreamEvent::Message(_)) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_change_is_told_in_order_with_the_proofs_that_were_given() {
    let mut wire = Wire::serve(oks(5)).await;
    let app = App::with(allowing(&wire)).await;
    let task = NEW.send(&app, &with(config(&wire), says("m", "ask"))).await.unwrap();
    NEW.send(&app, &about(&task, says("r", "blue"))).await.unwrap();
    let mut words = Vec::new();
    for _ in 0..5 {
        let request = next(&mut wire).await;
        assert_eq!(request.header("authorization"), Some("Bearer secret-7"));
        assert_eq!(request.header("x-a2a-notification-token"), Some("token-5"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        words.push(word(&told(&request)));
    }
    assert_eq!(words, ["Working", "InputRequired", "Working", "answer", "Completed"]);
}

/// The client names its receiver with each message, without an id.
#[tokio::test]
async fn a_receiver_that_is_named_again_is_told_once() {
    let mut wire = Wire::serve(oks(5)).await;
    let app = App::with(allowing(&wire)).await;
    let unnamed = || PushConfig { id: None, ..config(&wire) };
    let task = NEW.send(&app, &with(unnamed(), says("m", "ask"))).await.unwrap();
    NEW.send(&app, &about(&task, with(unnamed(), says("r", "blue")))).await.unwrap();
    let mut words = Vec::new();
    for _ in 0..5 {
        words.push(word(&told(&next(&mut wire).await)));
    }
    assert_eq!(words, ["Working", "InputRequired", "Working", "answer", "Completed"]);
    let listed = NEW.call(&app, Method::ListPushConfigs, json!({ "taskId": task.id })).await.unwrap();
    assert_eq!(listed["configs"].as_array().map(Vec::len), Some(1), "{listed:#}");
}

#[tokio::test]
async fn a_client_of_the_older_version_is_sent_the_task() {
    let mut wire = Wire::serve(oks(2)).await;
    let app = App::with(allowing(&wire)).await;
    let binding = Binding::Rpc(Version::V03);
    let task = binding.send(&app, &with(config(&wire), says("m", "hello"))).await.unwrap();
    let tasks: Vec<Task> = [next(&mut wire).await, next(&mut wire).await]
        .iter()
        .map(|request| Version::V03.read_task(&request.body).unwrap())
        .collect();
    assert_eq!([tasks[0].status.state, tasks[1].status.state], [TaskState::Working, TaskState::Completed]);
    assert_eq!((&tasks[1].id, tasks[1].artifacts.len()), (&task.id, 1));
}

#[tokio::test]
async fn what_fails_is_told_again_before_anything_that_came_later() {
    let failing = || answer("500 Oops", "", "");
    let moved = answer("302 Found", "location: /elsewhere\r\n", "");
    let mut wire = Wire::serve([vec![failing(), vec![Step::Cut], moved, failing()], oks(3)].concat()).await;
    let app = App::with(allowing(&wire)).await;
    NEW.send(&app, &with(config(&wire), says("m", "hello"))).await.unwrap();
    let mut words = Vec::new();
    for _ in 0..7 {
        words.push(word(&told(&next(&mut wire).await)));
    }
    assert_eq!(words, ["Working", "Working", "Working", "Working", "Working", "answer", "Completed"]);
}

#[tokio::test]
async fn the_end_is_told_however_much_before_it_was_given_up() {
    let mut wire = Wire::serve([vec![answer("410 Gone", "", ""); 2], oks(1)].concat()).await;
    let app = App::with(allowing(&wire)).await;
    NEW.send(&app, &with(config(&wire), says("m", "hello"))).await.unwrap();
    let mut words = Vec::new();
    for _ in 0..3 {
        words.push(word(&told(&next(&mut wire).await)));
    }
    assert_eq!(words, ["Working", "answer", "Completed"]);
}

#[tokio::test]
async fn receivers_are_added_looked_at_and_taken_away() {
    let wire = Wire::serve(oks(9)).await;
    let app = App::with(allowing(&wire)).await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let version = binding.version();
        let task = NEW.send(&app, &says(&format!("m{nth}"), "ask")).await.unwrap();
        let given = PushConfig { task_id: Some(task.id.clone()), ..config(&wire) };
        let made = binding.call(&app, Method::CreatePushConfig, version.push(&given)).await.unwrap();
        let made = version.read_push(&made).unwrap();
        assert_eq!((made.id.as_deref(), &made.url), (Some("here"), &given.url), "{binding:?}");
        let named = json!({ "taskId": task.id, "id": if version == Version::V1 { "here" } else { &task.id },
            "pushNotificationConfigId": "here" });
        let found = binding.call(&app, Method::GetPushConfig, named.clone()).await.unwrap();
        assert_eq!(version.read_push(&found).unwrap(), made);
        for shown in [&found, &version.push(&made)] {
            let text = shown.to_string();
            assert!(!text.contains("secret-7") && !text.contains("token-5"), "secrets are not shown: {text}");
        }
        let list = json!({ "taskId": task.id, "id": task.id });
        let page = version.read_push_page(&binding.call(&app, Method::ListPushConfigs, list).await.unwrap()).unwrap();
        assert_eq!(page.configs, [made], "{binding:?}");
        for _ in 0..2 {
            binding.call(&app, Method::DeletePushConfig, named.clone()).await.unwrap();
        }
        let gone = binding.call(&app, Method::GetPushConfig, named).await.unwrap_err();
        assert_eq!(gone.error, Error::TaskNotFound, "{binding:?}");
        NEW.send(&app, &about(&task, says(&format!("r{nth}"), "blue"))).await.unwrap();
    }
    assert_eq!(wire.waiting(), 0, "nobody who was taken away is told");
    // A finished task accepts a receiver, too, and sends it nothing.
    let over = NEW.send(&app, &says("over", "hello")).await.unwrap();
    let given = PushConfig { task_id: Some(over.id), ..config(&wire) };
    NEW.call(&app, Method::CreatePushConfig, Version::V1.push(&given)).await.unwrap();
    let foreign = PushConfig { task_id: Some("run_none".into()), ..config(&wire) };
    let refused = NEW.call(&app, Method::CreatePushConfig, Version::V1.push(&foreign)).await.unwrap_err();
    assert_eq!(refused.error, Error::TaskNotFound);
}

/// A receiver is loaded with its thread as long as there is something to send.
#[tokio::test]
async fn a_receiver_that_is_added_after_the_end_of_its_task_is_not_loaded_with_the_thread() {
    let (wire, store) = (Wire::serve(oks(9)).await, fresh_store().await);
    let app = App::of(store.clone(), |config| {
        allowing(&wire)(config);
        config.auth.sealing_key = Some("a key that is long enough".to_owned().into());
    })
    .await;
    for (said, keep) in [("hello", Keep::Never), ("ask", Keep::Always)] {
        let task = NEW.send(&app, &says(said, said)).await.unwrap();
        let given = PushConfig { task_id: Some(task.id.clone()), ..config(&wire) };
        NEW.call(&app, Method::CreatePushConfig, Version::V1.push(&given)).await.unwrap();
        let tenant = store.tenant("default", 0).await.unwrap();
        let pk = store.find_row(tenant, RowKind::Run, &task.id).await.unwrap().unwrap().pk;
        let row = store.row(pk, RowKind::Push, &format!("{}/here", task.id)).await.unwrap().unwrap();
        assert_eq!(row.keep, keep, "{said}");
    }
}

#[tokio::test]
async fn a_task_has_eight_receivers_however_many_are_added_at_once() {
    let wire = Wire::serve(oks(9)).await;
    let app = App::with(allowing(&wire)).await;
    let task = NEW.send(&app, &says("m", "ask")).await.unwrap();
    let adding = (0..24).map(|n| {
        let (id, task_id) = (Some(format!("r{n}")), Some(task.id.clone()));
        let new = Version::V1.push(&PushConfig { id, task_id, ..config(&wire) });
        NEW.call(&app, Method::CreatePushConfig, new)
    });
    let (added, refused): (Vec<_>, Vec<_>) =
        futures_util::future::join_all(adding).await.into_iter().partition(Result::is_ok);
    assert_eq!(added.len(), 8);
    assert!(refused.iter().all(|refused| refused.as_ref().is_err_and(|fault| fault.error == Error::InvalidParams)));
    let listed = NEW.call(&app, Method::ListPushConfigs, json!({ "taskId": task.id })).await.unwrap();
    assert_eq!(listed["configs"].as_array().map(Vec::len), Some(8), "{listed:#}");
}

/// A receiver sends a task's messages and its answer to an address outside.
#[tokio::test]
async fn who_added_and_who_removed_a_receiver_is_in_the_audit() {
    let wire = Wire::serve(oks(9)).await;
    let app = App::with(allowing(&wire)).await;
    let named = PushConfig { url: format!("http://{}/pushed?key=hush", wire.address), ..config(&wire) };
    let task = NEW.send(&app, &with(named.clone(), says("m", "ask"))).await.unwrap();
    let other = PushConfig { id: Some("there".into()), task_id: Some(task.id.clone()), ..named.clone() };
    NEW.call(&app, Method::CreatePushConfig, Version::V1.push(&other)).await.unwrap();
    for _ in 0..2 {
        NEW.call(&app, Method::DeletePushConfig, json!({ "taskId": task.id, "id": "here" })).await.unwrap();
    }
    NEW.send(&app, &about(&task, with(named, says("r", "blue")))).await.unwrap();
    let lines = app.get(&format!("/threads/{}/audit", task.context_id)).await.expect(200)["items"].clone();
    let is_about_receivers = |line: &&Value| line["action"].as_str().unwrap().ends_with("push receiver");
    let told = lines.as_array().unwrap().iter().filter(is_about_receivers);
    let told: Vec<Value> = told.map(|line| json!([line["actor"], line["action"], line["detail"]])).collect();
    let line = |action: &str, id: &str| json!(["local", action, { "runId": task.id, "id": id, "url": format!("http://{}", wire.address) }]);
    let expected = [
        line("put push receiver", "here"),
        line("put push receiver", "there"),
        line("delete push receiver", "here"),
        line("put push receiver", "here"),
    ];
    assert_eq!(told, expected, "{lines:#}");
}

#[tokio::test]
async fn private_addresses_are_refused_when_they_are_given_and_when_they_are_called() {
    let store = fresh_store().await;
    let mut wire = Wire::serve(oks(2)).await;
    let sealing = || Some("the same everywhere".to_owned().into());
    let allowing = allowing(&wire);
    let app = App::of(store.clone(), |config| {
        config.auth.sealing_key = sealing();
        allowing(config);
    })
    .await;
    for url in ["http://169.254.169.254/latest", "https://10.0.0.1/x", "https://[::1]/", "ftp://example.com", "no url"]
    {
        let bad = PushConfig { url: url.into(), ..config(&wire) };
        let refused = NEW.send(&app, &with(bad, says(url, "hello"))).await.unwrap_err();
        assert_eq!(refused.error, Error::InvalidParams, "{url}");
        let page = NEW.list(&app, &Default::default()).await.unwrap();
        assert_eq!(page.total_size, 0, "nothing is stored of it");
    }
    let task = NEW.send(&app, &with(config(&wire), says("m", "ask"))).await.unwrap();
    next(&mut wire).await;
    next(&mut wire).await;
    app.stopped().await;
    let before = wire.connections();
    // The same store, where that address is no longer allowed.
    let app = App::of(store.clone(), |config| {
        config.auth.sealing_key = sealing();
        config.outbox.push_backoff_ms = vec![1];
    })
    .await;
    NEW.send(&app, &about(&task, says("r", "blue"))).await.unwrap();
    assert_eq!(NEW.get(&app, &task.id).await.unwrap().status.state, TaskState::Completed);
    assert_eq!((wire.waiting(), wire.connections()), (0, before), "nothing was sent");
    let (tenant, target) = (store.tenant("default", 0).await.unwrap(), format!("{}/here", task.id));
    let ask = PageAsk { cursor: None, limit: 9 };
    let dead = crate::support::http::soon(async {
        loop {
            tokio::task::yield_now().await;
            let kept = store.deliveries(tenant, TargetKind::Push, &target, &ask).await.unwrap().items;
            let (told, left): (Vec<_>, Vec<_>) =
                kept.into_iter().partition(|kept| kept.status == DeliveryStatus::Delivered);
            if left.iter().all(|kept| kept.status == DeliveryStatus::Dead) && told.len() == 2 && !left.is_empty() {
                return left;
            }
        }
    })
    .await;
    assert!(dead.iter().all(|dead| dead.said.as_deref().is_some_and(|said| said.contains("refused"))), "{dead:?}");
}

#[tokio::test]
async fn what_is_given_up_is_seen() {
    let store = fresh_store().await;
    let failing = |_| answer("500 Oops", "", "");
    let mut wire = Wire::serve((0..9).map(failing).collect()).await;
    let allowing = allowing(&wire);
    let app = App::of(store.clone(), |config| {
        allowing(config);
        config.auth.sealing_key = Some("a key for secrets".to_owned().into());
        (config.outbox.push_backoff_ms, config.outbox.push_for_ms) = (vec![1, 1], 0);
    })
    .await;
    let task = NEW.send(&app, &with(config(&wire), says("m", "hello"))).await.unwrap();
    for _ in 0..9 {
        next(&mut wire).await;
    }
    let (tenant, target) = (store.tenant("default", 0).await.unwrap(), format!("{}/here", task.id));
    let ask = PageAsk { cursor: None, limit: 9 };
    let kept = crate::support::http::soon(async {
        loop {
            tokio::task::yield_now().await;
            let kept = store.deliveries(tenant, TargetKind::Push, &target, &ask).await.unwrap().items;
            if kept.iter().all(|kept| kept.finished_at.is_some()) {
                return kept;
            }
        }
    })
    .await;
    for kept in kept {
        assert_eq!((kept.status, kept.attempts), (DeliveryStatus::Dead, 3));
        assert!(kept.said.as_deref().is_some_and(|said| said.contains("500")), "{kept:?}");
    }
}

#[tokio::test]
async fn secrets_are_sealed_where_they_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let wire = Wire::serve(oks(2)).await;
    let data = folder.path().to_owned();
    let app = App::with(|config| {
        allowing(&wire)(config);
        config.store.data_dir = data;
    })
    .await;
    NEW.send(&app, &with(config(&wire), says("m", "ask"))).await.unwrap();
    app.stopped().await;
    let mut seen = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        seen += bytes.len();
        let has = |secret: &str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!has("secret-7") && !has("token-5"));
    }
    assert!(seen > 0);
}
