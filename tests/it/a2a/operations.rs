//! Send, get, cancel.

use pes::a2a::fault::Error;
use pes::a2a::types::{TaskQuery, TaskState};
use pes::a2a::wire::Method;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::binding::{BINDINGS, NEW, about, at_once, says, text};
use crate::support::app::App;
use crate::support::ws::is;

#[tokio::test]
async fn a_message_becomes_a_task_whose_answer_is_an_artifact() {
    let app = App::start().await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let task = binding.send(&app, &says(&format!("m{nth}"), "count")).await.unwrap();
        assert_eq!(task.status.state, TaskState::Completed, "{binding:?}");
        assert!(task.status.timestamp.is_some());
        assert!(task.id.starts_with("run_") && task.context_id.starts_with("thr_"), "{task:?}");
        assert_eq!(task.artifacts.len(), 1, "{binding:?}");
        assert_eq!(text(&task.artifacts[0].parts[0]), "Two and two are four.");
        let said: Vec<&str> = task.history.iter().map(|message| text(&message.parts[0])).collect();
        assert_eq!(said, ["count"], "clients that join the history and the artifacts show the answer once");
        assert_eq!(task.history[0].message_id, format!("m{nth}"));
        assert_eq!(task.history[0].task_id.as_ref(), Some(&task.id));
        for other in BINDINGS {
            assert_eq!(other.get(&app, &task.id).await.unwrap(), task, "{other:?} shows the same as {binding:?}");
        }
    }
}

#[tokio::test]
async fn who_does_not_wait_gets_the_task_at_once_and_may_cancel_it() {
    let app = App::start().await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let task = binding.send(&app, &at_once(says(&format!("m{nth}"), "hang"))).await.unwrap();
        assert_eq!(task.status.state, TaskState::Working, "{binding:?}");
        assert!(task.artifacts.is_empty());
        let cancelled = binding.cancel(&app, &task.id).await.unwrap();
        assert_eq!(cancelled.status.state, TaskState::Canceled, "{binding:?}");
        let again = binding.cancel(&app, &task.id).await.unwrap_err();
        assert_eq!(again.error, Error::TaskNotCancelable, "{binding:?}");
        assert_eq!(binding.get(&app, &task.id).await.unwrap(), cancelled);
    }
}

#[tokio::test]
async fn a_queued_task_is_submitted_and_goes_when_its_turn_comes() {
    let app = App::start().await;
    let first = NEW.send(&app, &at_once(says("m1", "hang"))).await.unwrap();
    let mut second = at_once(says("m2", "hello"));
    second.message.context_id = Some(first.context_id.clone());
    let second = NEW.send(&app, &second).await.unwrap();
    assert_eq!((second.status.state, &second.context_id), (TaskState::Submitted, &first.context_id));
    assert_eq!(second.history.len(), 1, "it is told what was asked while it waits");
    NEW.cancel(&app, &first.id).await.unwrap();
    app.get(&format!("/runs/{}?wait=20", second.id)).await.expect(200);
    assert_eq!(NEW.get(&app, &second.id).await.unwrap().status.state, TaskState::Completed);
}

#[tokio::test]
async fn a_failed_run_is_a_failed_task_that_says_why() {
    let app = App::with(|config| config.limits.items_per_plan = 3).await;
    let task = NEW.send(&app, &says("m1", "many")).await.unwrap();
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(!text(&task.status.message.unwrap().parts[0]).is_empty());
    assert!(task.artifacts.is_empty());
}

#[tokio::test]
async fn the_history_is_as_long_as_was_asked_for() {
    let app = App::start().await;
    let asking = NEW.send(&app, &says("m1", "ask")).await.unwrap();
    let task = NEW.send(&app, &about(&asking, says("m2", "blue"))).await.unwrap();
    for binding in BINDINGS {
        for (asked, shown) in [(None, 2), (Some(0), 0), (Some(1), 1), (Some(9), 2)] {
            let query = TaskQuery { id: task.id.clone(), history_length: asked, ..TaskQuery::default() };
            let seen = binding.task(&app, Method::GetTask, query).await.unwrap();
            assert_eq!(seen.history.len(), shown, "{binding:?} {asked:?}");
            assert_eq!(seen.history, task.history[2 - shown..]);
            assert_eq!(seen.artifacts, task.artifacts);
        }
    }
    let asking = NEW.send(&app, &says("m3", "ask")).await.unwrap();
    let mut brief = about(&asking, says("m4", "blue"));
    brief.configuration.history_length = Some(1);
    let shown = NEW.send(&app, &brief).await.unwrap().history;
    assert_eq!(shown.iter().map(|message| &*message.message_id).collect::<Vec<_>>(), ["m4"]);
}

#[tokio::test]
async fn a_message_is_held_for_so_long_and_no_longer() {
    let app = App::with(|config| config.a2a.hold_ms = 50).await;
    let task = NEW.send(&app, &says("m1", "hang")).await.unwrap();
    assert_eq!(task.status.state, TaskState::Working);
    NEW.cancel(&app, &task.id).await.unwrap();
}

#[tokio::test]
async fn who_hangs_up_leaves_the_task_as_it_is() {
    let app = App::start().await;
    let context = NEW.send(&app, &says("m0", "hello")).await.unwrap().context_id;
    let mut socket = app.socket(&format!("/threads/{context}/events?after=latest")).await;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{{"messageId":"m1",
        "contextId":"{context}","role":"ROLE_USER","parts":[{{"text":"hang"}}]}}}}}}"#
    );
    let request = format!(
        "POST /a2a HTTP/1.1\r\nhost: {}\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        app.address,
        body.len()
    );
    let mut wire = TcpStream::connect(app.address).await.unwrap();
    wire.write_all(request.as_bytes()).await.unwrap();
    let told = socket.until(|frame| is(frame, "RUN_STARTED")).await;
    let id = told.last().unwrap()["data"]["runId"].as_str().unwrap();
    drop(wire);
    assert_eq!(NEW.get(&app, id).await.unwrap().status.state, TaskState::Working);
    assert_eq!(NEW.cancel(&app, id).await.unwrap().status.state, TaskState::Canceled);
}
