//! Two processes on one PostgreSQL: both report the same task, and when one dies the other continues it.

use futures_util::future::join_all;
use pes::a2a::types::TaskState;

use super::binding::{NEW, about, says};
use super::killed::{is_told_to_the_end, message, rest, sent, subscribed};
use super::streams::{Stream, answer, states};
use crate::support::app::App;
use crate::support::postgres::Database;
use crate::support::process::{Place, Server};
use crate::support::slow_tool::{SCRIPT, Slow};
use crate::support::store::store_on;

/// Far longer than any step may take: no test relies on an expired lease.
const LONG: i64 = 600_000;

async fn replica(database: &Database) -> App {
    let store = store_on(database).await;
    App::of(store, |config| config.runtime.lease_ms = LONG).await
}

#[tokio::test]
async fn who_listens_elsewhere_is_told_the_same_in_the_same_order() {
    let database = Database::fresh().await;
    let (owner, other) = (replica(&database).await, replica(&database).await);
    let task = NEW.send(&owner, &says("m", "ask")).await.unwrap();
    let mut streams = join_all((0..10).map(|nth| Stream::of(NEW, [&owner, &other][nth % 2], &task))).await;
    let first = join_all(streams.iter_mut().map(Stream::task)).await;
    assert!(first.iter().all(|seen| *seen == first[0]), "{first:#?}");
    assert_eq!(first[0].status.state, TaskState::InputRequired);
    // Answered while nobody owns the thread.
    NEW.send(&other, &about(&task, says("r", "blue"))).await.unwrap();
    for (nth, events) in join_all(streams.into_iter().map(Stream::rest)).await.iter().enumerate() {
        assert_eq!(states(events), [TaskState::Working, TaskState::Completed], "subscriber {nth}: {events:#?}");
        assert_eq!(answer(events), ("You were asked.".to_owned(), true), "subscriber {nth}");
    }
    let ends = [NEW.get(&owner, &task.id).await.unwrap(), NEW.get(&other, &task.id).await.unwrap()];
    assert_eq!(ends[0], ends[1]);
}

#[tokio::test]
async fn who_listens_elsewhere_is_told_on_when_the_owner_is_killed() {
    let (place, mut slow) = Slow::on(Place::postgres(SCRIPT).await).await;
    let owner = Server::start(&place, None).await;
    let id = sent(&owner, message("work")).await;
    slow.is_called().await;
    let other = Server::start(&place, None).await;
    let (task, stream) = subscribed(&other, &id).await;
    assert_eq!(task.status.state, TaskState::Working);
    owner.kill().await;
    slow.is_called().await;
    slow.ends();
    let events = rest(stream).await;
    assert_eq!(states(&events), [TaskState::Completed]);
    is_told_to_the_end(&events);
    other.kill().await;
}
