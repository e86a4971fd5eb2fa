//! Contexts and tenants: a client can continue its own contexts, and those of other tenants do not exist for it.

use pes::a2a::fault::Error;
use pes::a2a::types::{ListQuery, PushConfig, TaskQuery, TaskState};
use pes::a2a::wire::{Method, Version};
use serde_json::json;

use super::binding::{BINDINGS, Binding, NEW, about, at_once, says};
use crate::support::app::App;

#[tokio::test]
async fn a_context_goes_on_and_an_unknown_one_is_refused() {
    let app = App::start().await;
    let first = NEW.send(&app, &says("m1", "hello")).await.unwrap();
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let mut next = says(&format!("n{nth}"), "count");
        next.message.context_id = Some(first.context_id.clone());
        let next = binding.send(&app, &next).await.unwrap();
        assert_eq!(next.context_id, first.context_id);
        assert_ne!(next.id, first.id);
        assert_eq!(next.history.len(), 1, "only what belongs to the task");
        let mut lost = says(&format!("l{nth}"), "hello");
        lost.message.context_id = Some("mine".into());
        assert_eq!(binding.send(&app, &lost).await.unwrap_err().error, Error::InvalidParams, "{binding:?}");
    }
    app.get("/threads/mine").await.problem("not_found");
    let runs = app.get(&format!("/threads/{}/runs", first.context_id)).await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn a_task_of_another_context_is_refused() {
    let app = App::start().await;
    let (asking, other) =
        (NEW.send(&app, &says("m1", "ask")).await.unwrap(), NEW.send(&app, &says("m2", "hello")).await.unwrap());
    let mut reply = about(&asking, says("m3", "blue"));
    reply.message.context_id = Some(other.context_id);
    assert_eq!(NEW.send(&app, &reply).await.unwrap_err().error, Error::InvalidParams);
    assert_eq!(NEW.get(&app, &asking.id).await.unwrap(), asking, "nothing has changed");
}

#[tokio::test]
async fn what_belongs_to_another_tenant_is_not_found() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let task = NEW.send(&app, &says("m1", "ask")).await.unwrap();
    let app = app.key("key-b-0123456789abcdef0123456789");
    for binding in BINDINGS {
        for id in [&*task.id, "run_unknown"] {
            assert_eq!(binding.get(&app, id).await.unwrap_err().error, Error::TaskNotFound, "{binding:?}");
            assert_eq!(binding.cancel(&app, id).await.unwrap_err().error, Error::TaskNotFound, "{binding:?}");
        }
        let same =
            binding.get(&app, &task.id).await.unwrap_err() == binding.get(&app, "run_unknown").await.unwrap_err();
        assert!(same, "nobody can tell which");
        let reply = about(&task, says("m2", "blue"));
        assert_eq!(binding.send(&app, &reply).await.unwrap_err().error, Error::TaskNotFound, "{binding:?}");
        let mut next = says("m3", "hello");
        next.message.context_id = Some(task.context_id.clone());
        assert_eq!(binding.send(&app, &next).await.unwrap_err().error, Error::InvalidParams, "{binding:?}");
    }
    let mine = NEW.list(&app, &ListQuery::default()).await.unwrap();
    assert_eq!((mine.tasks.len(), mine.total_size), (0, 0));
    let theirs = ListQuery { context_id: Some(task.context_id.clone()), ..ListQuery::default() };
    assert_eq!(NEW.list(&app, &theirs).await.unwrap().total_size, 0);
    // The same message id of another tenant.
    assert_eq!(NEW.send(&app, &says("m1", "hello")).await.unwrap().status.state, TaskState::Completed);
}

#[tokio::test]
async fn nor_is_who_is_told_of_it_and_nobody_else_listens_to_it() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let task = NEW.send(&app, &says("m1", "ask")).await.unwrap();
    let given = |id: &str| PushConfig {
        id: Some("here".into()),
        task_id: Some(id.into()),
        url: "https://example.com/pushed".into(),
        ..PushConfig::default()
    };
    NEW.call(&app, Method::CreatePushConfig, Version::V1.push(&given(&task.id))).await.unwrap();
    let app = app.key("key-b-0123456789abcdef0123456789");
    for binding in BINDINGS {
        let version = binding.version();
        let refused = async |id: &str| {
            let named = json!({ "taskId": id, "id": if version == Version::V1 { "here" } else { id },
                "pushNotificationConfigId": "here" });
            let query = version.task_query(&TaskQuery { id: id.into(), ..TaskQuery::default() });
            let asked = [
                (Method::CreatePushConfig, version.push(&given(id))),
                (Method::GetPushConfig, named.clone()),
                (Method::ListPushConfigs, json!({ "taskId": id, "id": id })),
                (Method::DeletePushConfig, named),
                (Method::SubscribeToTask, query),
            ];
            let mut refused = Vec::new();
            for (method, params) in asked {
                refused.push(binding.call(&app, method, params).await.unwrap_err());
            }
            refused
        };
        let theirs = refused(&task.id).await;
        assert!(theirs.iter().all(|fault| fault.error == Error::TaskNotFound), "{binding:?}: {theirs:#?}");
        assert_eq!(theirs, refused("run_unknown").await, "nobody can tell which");
    }
    let app = app.key("key-a-0123456789abcdef0123456789");
    let named = json!({ "taskId": task.id, "id": "here" });
    NEW.call(&app, Method::GetPushConfig, named).await.expect("it is still there");
}

#[tokio::test]
async fn a_tenant_may_be_named_if_it_is_ones_own() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let mut request = at_once(says("m1", "hello"));
    request.tenant = Some("one".into());
    let task = NEW.send(&app, &request).await.unwrap();
    let at = |path: String| app.ask("GET", &path).header("a2a-version", "1.0").send();
    assert_eq!(at(format!("/a2a/one/tasks/{}", task.id)).await.expect(200)["id"], json!(task.id));
    assert_eq!(at("/a2a/one/tasks".into()).await.expect(200)["totalSize"], 1);
    for tenant in ["two", "three"] {
        let refused = at(format!("/a2a/{tenant}/tasks/{}", task.id)).await.expect(404);
        assert_eq!(refused["error"]["details"][0]["reason"], "TASK_NOT_FOUND");
        request.tenant = Some(tenant.into());
        assert_eq!(NEW.send(&app, &request).await.unwrap_err().error, Error::TaskNotFound);
    }
}

#[tokio::test]
async fn who_may_only_look_starts_nothing() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let task = NEW.send(&app, &says("m1", "hello")).await.unwrap();
    let app = app.key("reader-0123456789abcdef0123456789");
    for binding in BINDINGS {
        assert_eq!(binding.get(&app, &task.id).await.unwrap().id, task.id);
        assert_eq!(binding.send(&app, &says("m2", "hello")).await.unwrap_err().error, Error::PermissionDenied);
        assert_eq!(binding.cancel(&app, &task.id).await.unwrap_err().error, Error::PermissionDenied);
    }
    let said = Binding::Rest(Version::V1).ask(&app, Method::SendMessage, json!({})).send().await;
    assert_eq!(said.status, 403, "nothing is read of who may not send");
    for binding in [NEW, Binding::Rest(Version::V1)] {
        assert_eq!(binding.list(&app, &ListQuery::default()).await.unwrap().total_size, 1);
    }
    let changing = [Method::SendStreamingMessage, Method::CreatePushConfig, Method::DeletePushConfig];
    // The URL of a push receiver may contain a secret.
    let secret = [Method::GetPushConfig, Method::ListPushConfigs];
    for binding in BINDINGS {
        for method in changing.into_iter().chain(secret) {
            let params = json!({ "taskId": task.id, "id": task.id, "pushNotificationConfigId": "here" });
            let refused = binding.call(&app, method, params).await.unwrap_err();
            assert_eq!(refused.error, Error::PermissionDenied, "{binding:?} {method:?}");
        }
    }
}
