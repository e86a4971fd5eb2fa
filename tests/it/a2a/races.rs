//! A cancel races with the completion: one of them wins, and the task's status stays so.

use futures_util::future::join_all;
use pes::a2a::fault::Error;
use pes::a2a::types::TaskState;

use super::binding::{BINDINGS, NEW, at_once, says};
use crate::support::app::App;

#[tokio::test]
async fn of_a_cancel_and_an_end_one_wins() {
    let app = App::start().await;
    let ended = join_all((0..50).map(async |nth| {
        let binding = BINDINGS[nth % 4];
        let task = binding.send(&app, &at_once(says(&format!("m{nth}"), "count"))).await.unwrap();
        let cancelled = binding.cancel(&app, &task.id).await;
        app.get(&format!("/runs/{}?wait=20", task.id)).await.expect(200);
        let end = NEW.get(&app, &task.id).await.unwrap();
        match cancelled {
            Ok(cancelled) => {
                assert_eq!((cancelled.status.state, end.status.state), (TaskState::Canceled, TaskState::Canceled))
            }
            Err(fault) => {
                assert_eq!((fault.error, end.status.state), (Error::TaskNotCancelable, TaskState::Completed));
            }
        }
        let log = app.observed(&task.context_id, "RUN_FINISHED").await;
        assert_eq!(log.len(), 1, "{log:#?}");
        end
    }))
    .await;
    for end in ended {
        assert_eq!(NEW.get(&app, &end.id).await.unwrap(), end, "it never changes again");
    }
}
