//! A message is accepted once, however often and to whichever process it is sent.

use std::sync::Arc;

use futures_util::future::join_all;
use pes::a2a::fault::Error;
use pes::a2a::types::{ListQuery, Part};
use pes::a2a::wire::Method;
use pes::store::Store;

use super::binding::{BINDINGS, NEW, at_once, says};
use crate::support::app::App;
use crate::support::http::in_no_time;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, store_on};

#[tokio::test]
async fn the_same_message_again_is_the_same_task() {
    let app = App::start().await;
    let first = NEW.send(&app, &says("m1", "hello")).await.unwrap();
    for binding in BINDINGS {
        assert_eq!(binding.send(&app, &says("m1", "hello")).await.unwrap(), first, "{binding:?}");
        let other = binding.send(&app, &says("m1", "count")).await.unwrap_err();
        assert_eq!(other.error, Error::InvalidParams, "{binding:?}");
        assert!(other.detail.starts_with("This message id was used for another message;"), "{}", other.detail);
        let mut more = says("m1", "hello");
        more.message.parts.push(Part::text("and more"));
        assert_eq!(binding.send(&app, &more).await.unwrap_err().error, Error::InvalidParams, "{binding:?}");
    }
    assert_eq!(NEW.list(&app, &ListQuery::default()).await.unwrap().total_size, 1);
}

/// The first one waits for the store longer than the others wait for the first one.
#[tokio::test]
async fn a_message_that_is_still_being_accepted_is_to_be_sent_again_later() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    store.set("idempotency", Mood::Hangs);
    let request = at_once(says("m1", "hang"));
    let again = async {
        store.holds("idempotency").await;
        let asks = BINDINGS
            .map(|binding| binding.ask(&app, Method::SendMessage, binding.version().send_request(&request)).send());
        for said in join_all(asks).await {
            assert_eq!((said.status, said.header("retry-after")), (503, Some("1")), "{:#}", said.json());
            assert!(said.json().to_string().contains(r#""reason":"UNAVAILABLE""#), "{:#}", said.json());
        }
        store.set("idempotency", Mood::Well);
    };
    let (first, ()) = tokio::join!(NEW.send(&app, &request), again);
    let first = first.unwrap();
    for binding in BINDINGS {
        assert_eq!(binding.send(&app, &request).await.unwrap().id, first.id, "{binding:?}");
    }
    NEW.cancel(&app, &first.id).await.unwrap();
}

/// However long it takes until each had its turn, none is told to come back later.
async fn many_at_once_are_one(app: App) {
    let request = at_once(says("m1", "hang"));
    let sent = in_no_time(join_all((0..20).map(|nth| BINDINGS[nth % 4].send(&app, &request)))).await;
    let ids: Vec<String> = sent.into_iter().map(|task| task.unwrap().id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(NEW.list(&app, &ListQuery::default()).await.unwrap().total_size, 1);
    assert_eq!(app.get("/threads").await.expect(200)["items"].as_array().unwrap().len(), 1);
    NEW.cancel(&app, &ids[0]).await.unwrap();
}

#[tokio::test]
async fn many_at_once_are_one_on_sqlite() {
    many_at_once_are_one(App::start().await).await;
}

#[tokio::test]
async fn many_at_once_are_one_on_postgres() {
    let database = Database::fresh().await;
    let store: Arc<dyn Store> = store_on(&database).await;
    many_at_once_are_one(App::of(store, |_| {}).await).await;
}
