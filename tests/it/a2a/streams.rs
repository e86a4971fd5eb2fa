//! Streams of a task: those that start it, and those that subscribe to it later.

use futures_util::future::join_all;
use pes::a2a::fault::Error;
use pes::a2a::types::{Content, SendRequest, StreamEvent, Task, TaskQuery, TaskState};
use pes::a2a::wire::Method;
use serde_json::Value;

use super::binding::{BINDINGS, Binding, NEW, about, says};
use crate::support::app::App;
use crate::support::http::Events;
use crate::support::store::{Mood, Moody, fresh_store};

pub struct Stream {
    binding: Binding,
    events: Events,
}

impl Stream {
    async fn sent(binding: Binding, app: &App, request: &SendRequest) -> Self {
        let params = binding.version().send_request(request);
        Self { binding, events: binding.ask(app, Method::SendStreamingMessage, params).events().await }
    }

    pub async fn of(binding: Binding, app: &App, task: &Task) -> Self {
        let query = TaskQuery { id: task.id.clone(), ..TaskQuery::default() };
        let params = binding.version().task_query(&query);
        Self { binding, events: binding.ask(app, Method::SubscribeToTask, params).events().await }
    }

    async fn next(&mut self) -> Option<StreamEvent> {
        let event = self.next_as_json().await?;
        Some(self.binding.version().read_event(&event).unwrap_or_else(|error| panic!("{error}: {event:#}")))
    }

    async fn next_as_json(&mut self) -> Option<Value> {
        let event = self.events.next().await?.data;
        Some(match self.binding {
            Binding::Rpc(_) => {
                assert_eq!((&event["jsonrpc"], &event["id"]), (&"2.0".into(), &7.into()), "{event:#}");
                event["result"].clone()
            }
            Binding::Rest(_) => event,
        })
    }

    pub async fn task(&mut self) -> Task {
        match self.next().await {
            Some(StreamEvent::Task(task)) => task,
            other => panic!("the task comes first, not {other:?}"),
        }
    }

    pub async fn rest(mut self) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

pub fn states(events: &[StreamEvent]) -> Vec<TaskState> {
    let state = |event: &StreamEvent| match event {
        StreamEvent::StatusUpdate(update) => Some(update.status.state),
        StreamEvent::Task(_) | StreamEvent::Message(_) | StreamEvent::ArtifactUpdate(_) => None,
    };
    events.iter().filter_map(state).collect()
}

/// The text of the pieces, joined as a client joins them.
pub fn answer(events: &[StreamEvent]) -> (String, bool) {
    let (mut text, mut is_whole) = (String::new(), false);
    for event in events {
        let StreamEvent::ArtifactUpdate(update) = event else { continue };
        assert!(!is_whole, "nothing follows the last piece");
        if !update.append {
            text.clear();
        }
        for part in &update.artifact.parts {
            let Content::Text(piece) = &part.content else { panic!("{part:?}") };
            text.push_str(piece);
        }
        is_whole = update.last_chunk;
    }
    (text, is_whole)
}

/// With the pieces of an artifact joined, or replaced by the whole: a slow reader gets several in one event.
fn joined(events: &[StreamEvent]) -> Vec<StreamEvent> {
    let mut joined: Vec<StreamEvent> = Vec::new();
    for event in events {
        if let (Some(StreamEvent::ArtifactUpdate(whole)), StreamEvent::ArtifactUpdate(next)) =
            (joined.last_mut(), event)
            && next.artifact.artifact_id == whole.artifact.artifact_id
        {
            if !next.append {
                *whole = next.clone();
                continue;
            }
            let (Some(Content::Text(text)), [part]) =
                (whole.artifact.parts.last_mut().map(|part| &mut part.content), next.artifact.parts.as_slice())
            else {
                panic!("{whole:?} {next:?}")
            };
            let Content::Text(more) = &part.content else { panic!("{part:?}") };
            text.push_str(more);
            whole.last_chunk = next.last_chunk;
            continue;
        }
        joined.push(event.clone());
    }
    joined
}

#[tokio::test]
async fn a_stream_is_the_task_and_then_everything_that_happens_to_it() {
    let app = App::start().await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let mut stream = Stream::sent(binding, &app, &says(&format!("m{nth}"), "count")).await;
        let task = stream.task().await;
        assert_eq!((task.status.state, task.history.len()), (TaskState::Submitted, 1), "{binding:?}");
        let events = stream.rest().await;
        assert_eq!(states(&events), [TaskState::Working, TaskState::Completed], "{binding:?}");
        assert_eq!(answer(&events), ("Two and two are four.".to_owned(), true), "{binding:?}");
        let pieces = events.iter().filter(|event| matches!(event, StreamEvent::ArtifactUpdate(_))).count();
        assert!(pieces > 2, "the answer comes as it is written: {events:#?}");
        let Some(StreamEvent::StatusUpdate(last)) = events.last() else { panic!("{events:?}") };
        assert_eq!((&last.task_id, &last.context_id), (&task.id, &task.context_id));
        assert_eq!(NEW.get(&app, &task.id).await.unwrap().status.timestamp, last.status.timestamp);
    }
}

#[tokio::test]
async fn a_stream_ends_when_the_client_is_asked_and_a_subscription_stays() {
    let app = App::start().await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let mut stream = Stream::sent(binding, &app, &says(&format!("m{nth}"), "ask")).await;
        let task = stream.task().await;
        let events = stream.rest().await;
        assert_eq!(states(&events), [TaskState::Working, TaskState::InputRequired], "{binding:?}");
        let Some(StreamEvent::StatusUpdate(asked)) = events.last() else { panic!("{events:?}") };
        let now = NEW.get(&app, &task.id).await.unwrap();
        assert_eq!(asked.status.message, now.status.message, "the question is the same, however it is asked for");
        let mut subscribed = Stream::of(binding, &app, &task).await;
        assert_eq!(subscribed.task().await.status.state, TaskState::InputRequired);
        let mut replying = Stream::sent(binding, &app, &about(&task, says(&format!("r{nth}"), "blue"))).await;
        let begun = replying.task().await;
        let ended = states(&replying.rest().await).last().copied();
        assert_eq!((begun.id, ended.unwrap_or(begun.status.state)), (task.id.clone(), TaskState::Completed));
        let events = subscribed.rest().await;
        assert_eq!(states(&events), [TaskState::Working, TaskState::Completed], "{binding:?}");
        assert_eq!(answer(&events), ("You were asked.".to_owned(), true));
    }
}

/// A client of 0.3 takes a stream that ends otherwise for one that was cut.
#[tokio::test]
async fn the_last_event_of_a_stream_says_so_to_clients_of_0_3() {
    let app = App::start().await;
    let shown = |event: &Value| {
        let update = event.get("statusUpdate").unwrap_or(event);
        (update["status"]["state"].as_str().unwrap_or_default().to_lowercase(), update["final"].clone())
    };
    for (nth, binding) in [BINDINGS[2], BINDINGS[3]].into_iter().enumerate() {
        let mut sent = Stream::sent(binding, &app, &says(&format!("m{nth}"), "choose")).await;
        let task = sent.task().await;
        let mut told = Vec::new();
        while let Some(event) = sent.next_as_json().await {
            told.push(shown(&event));
        }
        let (state, is_final) = told.pop().unwrap();
        assert!(state.contains("input") && is_final == true, "{binding:?}: {state} {is_final}");
        assert!(told.iter().all(|(_, is_final)| *is_final != true), "{binding:?}: {told:?}");
        let mut subscribed = Stream::of(binding, &app, &task).await;
        subscribed.task().await;
        NEW.send(&app, &about(&task, says(&format!("r{nth}"), "a, b"))).await.unwrap();
        let (state, is_final) = shown(&subscribed.next_as_json().await.unwrap());
        assert!(state.contains("input") && is_final == false, "{binding:?}: {state} {is_final}");
    }
}

#[tokio::test]
async fn the_first_event_has_no_more_history_than_is_asked_for() {
    let app = App::start().await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let mut brief = says(&format!("m{nth}"), "hello");
        brief.configuration.history_length = Some(0);
        let task = Stream::sent(binding, &app, &brief).await.task().await;
        assert_eq!((task.status.state, task.history.len()), (TaskState::Submitted, 0), "{binding:?}");
    }
}

#[tokio::test]
async fn all_subscribers_of_a_task_see_the_same_in_the_same_order() {
    let app = App::start().await;
    let task = NEW.send(&app, &says("m", "ask")).await.unwrap();
    let mut streams = join_all((0..200).map(|nth| Stream::of(BINDINGS[nth % 2], &app, &task))).await;
    let first = join_all(streams.iter_mut().map(Stream::task)).await;
    assert!(first.iter().all(|seen| *seen == first[0]));
    // A subscriber that disconnects takes nothing from the others.
    drop(streams.pop());
    NEW.send(&app, &about(&task, says("r", "blue"))).await.unwrap();
    let told = join_all(streams.into_iter().map(Stream::rest)).await;
    assert_eq!(states(&told[0]), [TaskState::Working, TaskState::Completed]);
    assert_eq!(answer(&told[0]), ("You were asked.".to_owned(), true));
    for (nth, events) in told.iter().enumerate() {
        assert_eq!(joined(events), joined(&told[0]), "subscriber {nth}");
    }
}

#[tokio::test]
async fn what_happens_while_somebody_subscribes_is_told() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    let task = NEW.send(&app, &says("m", "ask")).await.unwrap();
    // The task is read, and nobody subscribes yet.
    store.set("thread", Mood::Hangs);
    let meanwhile = async {
        store.holds("thread").await;
        app.ask("POST", &format!("/runs/{}/cancel", task.id)).send().await.expect(202);
        store.set("thread", Mood::Well);
    };
    let (mut stream, ()) = tokio::join!(Stream::of(NEW, &app, &task), meanwhile);
    assert_eq!(stream.task().await.status.state, TaskState::InputRequired);
    let told = states(&stream.rest().await);
    assert_eq!(told, [TaskState::Working, TaskState::Canceled], "first the question is withdrawn");
}

#[tokio::test]
async fn a_subscription_goes_on_at_another_process() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), |_| {}).await;
    let task = NEW.send(&app, &says("m", "ask")).await.unwrap();
    let mut stream = Stream::of(NEW, &app, &task).await;
    let before = stream.task().await;
    app.stopped().await;
    let last = stream.events.next().await.expect("why it ends").data;
    assert!(last["error"]["message"].as_str().unwrap().contains("subscribe to the task again"), "{last:#}");
    assert!(stream.rest().await.is_empty());
    let app = App::of(store, |_| {}).await;
    let mut stream = Stream::of(NEW, &app, &task).await;
    assert_eq!(stream.task().await, before);
    NEW.send(&app, &about(&task, says("r", "blue"))).await.unwrap();
    let events = stream.rest().await;
    assert_eq!(states(&events), [TaskState::Working, TaskState::Completed]);
    assert_eq!(answer(&events).0, "You were asked.");
}

#[tokio::test]
async fn nothing_happens_to_a_task_that_is_over_or_is_not_there() {
    let app = App::start().await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let task = NEW.send(&app, &says(&format!("m{nth}"), "hello")).await.unwrap();
        let subscribe = async |id: &str| {
            let query = TaskQuery { id: id.into(), ..TaskQuery::default() };
            binding.call(&app, Method::SubscribeToTask, binding.version().task_query(&query)).await.unwrap_err().error
        };
        assert_eq!(subscribe(&task.id).await, Error::UnsupportedOperation, "{binding:?}");
        assert_eq!(subscribe("run_none").await, Error::TaskNotFound, "{binding:?}");
    }
    let post = app.ask("POST", "/a2a/tasks/run_none:subscribe").header("a2a-version", "1.0").send().await;
    assert_eq!(post.status, 404);
}
