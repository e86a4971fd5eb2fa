//! `ListTasks`

use pes::a2a::fault::Error;
use pes::a2a::types::{ListQuery, Task, TaskState};
use pes::a2a::wire::Version;

use super::binding::{Binding, NEW, about, at_once, says};
use crate::support::app::App;

const BINDINGS: [Binding; 2] = [NEW, Binding::Rest(Version::V1)];

async fn some_tasks(app: &App) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (nth, text) in ["hello", "count", "ask", "hang"].into_iter().enumerate() {
        let request = says(&format!("m{nth}"), text);
        let request = if text == "hang" { at_once(request) } else { request };
        tasks.push(NEW.send(app, &request).await.unwrap());
    }
    tasks
}

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| &*task.id).collect()
}

#[tokio::test]
async fn the_last_to_change_comes_first_a_page_at_a_time() {
    let app = App::start().await;
    let tasks = some_tasks(&app).await;
    // The third task is now the last one changed.
    let answered = NEW.send(&app, &about(&tasks[2], says("r", "blue"))).await.unwrap();
    for binding in BINDINGS {
        let mut query = ListQuery { page_size: Some(3), ..ListQuery::default() };
        let first = binding.list(&app, &query).await.unwrap();
        assert_eq!((first.page_size, first.total_size), (3, 4));
        query.page_token = Some(first.next_page_token.clone());
        let last = binding.list(&app, &query).await.unwrap();
        assert_eq!((&*last.next_page_token, last.total_size), ("", 4));
        let all = [first.tasks, last.tasks].concat();
        assert_eq!(ids(&all), [&*tasks[2].id, &tasks[3].id, &tasks[1].id, &tasks[0].id], "{binding:?}");
        assert!(all.is_sorted_by_key(|task| std::cmp::Reverse(task.status.timestamp)));
        assert_eq!(all[0].status, answered.status);
        assert_eq!(all[0].history, answered.history);
    }
    NEW.cancel(&app, &tasks[3].id).await.unwrap();
}

/// The total is counted once, for the first page.
#[tokio::test]
async fn all_pages_tell_how_many_there_were_at_the_first() {
    let app = App::start().await;
    NEW.send(&app, &says("m1", "hello")).await.unwrap();
    NEW.send(&app, &says("m2", "count")).await.unwrap();
    let mut query = ListQuery { page_size: Some(1), ..ListQuery::default() };
    let first = NEW.list(&app, &query).await.unwrap();
    NEW.send(&app, &says("m3", "hello")).await.unwrap();
    query.page_token = Some(first.next_page_token.clone());
    let second = NEW.list(&app, &query).await.unwrap();
    assert_eq!((first.total_size, second.total_size), (2, 2));
    assert_eq!(NEW.list(&app, &ListQuery::default()).await.unwrap().total_size, 3);
    let (_, without_total) = first.next_page_token.split_once('.').unwrap();
    for (token, is_ours) in [(without_total, true), ("x.", false), ("2.x", false), (".", false)] {
        query.page_token = Some(token.to_owned());
        assert_eq!(NEW.list(&app, &query).await.is_ok(), is_ours, "{token}");
    }
}

#[tokio::test]
async fn tasks_are_chosen_by_context_state_and_time() {
    let app = App::start().await;
    let tasks = some_tasks(&app).await;
    let none = ListQuery::default;
    let since = |task: &Task| task.status.timestamp.unwrap();
    for (query, wanted) in [
        (ListQuery { context_id: Some(tasks[1].context_id.clone()), ..none() }, vec![1]),
        (ListQuery { context_id: Some("unknown".into()), ..none() }, vec![]),
        (ListQuery { status: Some(TaskState::Completed), ..none() }, vec![1, 0]),
        (ListQuery { status: Some(TaskState::InputRequired), ..none() }, vec![2]),
        (ListQuery { status: Some(TaskState::Working), ..none() }, vec![3]),
        (ListQuery { status: Some(TaskState::Submitted), ..none() }, vec![]),
        (ListQuery { status: Some(TaskState::Rejected), ..none() }, vec![]),
        (
            ListQuery { status: Some(TaskState::Completed), context_id: Some(tasks[2].context_id.clone()), ..none() },
            vec![],
        ),
        (ListQuery { status_timestamp_after: Some(since(&tasks[3]) + 3_600_000), ..none() }, vec![]),
        (ListQuery { status_timestamp_after: Some(0), ..none() }, vec![3, 2, 1, 0]),
    ] {
        for binding in BINDINGS {
            let page = binding.list(&app, &query).await.unwrap();
            let wanted: Vec<&str> = wanted.iter().map(|nth: &usize| &*tasks[*nth].id).collect();
            assert_eq!(ids(&page.tasks), wanted, "{binding:?} {query:?}");
            assert_eq!(page.total_size as usize, wanted.len());
        }
    }
    NEW.cancel(&app, &tasks[3].id).await.unwrap();
    let cancelled = ListQuery { status: Some(TaskState::Canceled), ..none() };
    assert_eq!(NEW.list(&app, &cancelled).await.unwrap().total_size, 1);
}

#[tokio::test]
async fn artifacts_and_history_come_as_far_as_they_are_asked_for() {
    let app = App::start().await;
    let task = NEW.send(&app, &says("m", "hello")).await.unwrap();
    for binding in BINDINGS {
        let shown = async |include_artifacts, history_length| {
            let query = ListQuery { include_artifacts, history_length, ..ListQuery::default() };
            let page = binding.list(&app, &query).await.unwrap();
            (page.tasks[0].artifacts.len(), page.tasks[0].history.len())
        };
        assert_eq!(shown(false, None).await, (0, 1));
        assert_eq!(shown(false, Some(0)).await, (0, 0));
        assert_eq!(shown(true, Some(0)).await, (1, 0));
        assert_eq!(shown(true, Some(1)).await, (1, 1));
    }
    assert_eq!(task.artifacts.len(), 1);
}

#[tokio::test]
async fn a_failed_task_says_why_however_short_its_history_is_to_be() {
    let app = App::with(|config| config.limits.items_per_plan = 3).await;
    let task = NEW.send(&app, &says("m", "many")).await.unwrap();
    assert_eq!((task.status.state, task.status.message.is_some()), (TaskState::Failed, true));
    for binding in BINDINGS {
        let page = binding.list(&app, &ListQuery { history_length: Some(0), ..ListQuery::default() }).await.unwrap();
        assert_eq!((&page.tasks[0].status, page.tasks[0].history.len()), (&task.status, 0), "{binding:?}");
    }
}

#[tokio::test]
async fn a_page_that_cannot_be_is_refused() {
    let app = App::start().await;
    let none = ListQuery::default;
    for query in [
        ListQuery { page_size: Some(0), ..none() },
        ListQuery { page_size: Some(101), ..none() },
        ListQuery { page_token: Some("nonsense".into()), ..none() },
    ] {
        for binding in BINDINGS {
            assert_eq!(
                binding.list(&app, &query).await.unwrap_err().error,
                Error::InvalidParams,
                "{binding:?} {query:?}"
            );
        }
    }
    let unknown = app.ask("GET", "/a2a/tasks?status=DREAMING").header("a2a-version", "1.0").send().await;
    assert_eq!(unknown.expect(400)["error"]["details"][1]["fieldViolations"][0]["field"], "/status");
    assert_eq!(NEW.list(&app, &ListQuery { page_size: Some(100), ..none() }).await.unwrap().page_size, 100);
}
