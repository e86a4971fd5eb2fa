//! The SQL view shows the tasks that a thread waits for.

use std::sync::Arc;

use pes::store::postgres::Postgres;
use serde_json::Value;

use super::peer::{Dialect, Peer};
use super::{delegated, knows};
use crate::support::app::App;
use crate::support::postgres::Database;

#[tokio::test]
async fn the_view_shows_what_is_waited_for_as_the_api_does() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let database = Database::fresh().await;
    let store = Arc::new(Postgres::open(&database.url().into(), 2).await.unwrap());
    let app = App::of(store, |config| knows(config, peer.card(), 3_600_000)).await;
    let (run, _) = delegated(&app, "t").await;
    app.get(&format!("/runs/{run}")).await.expect(200);
    let told = app.get("/threads/t/state").await.expect(200);
    assert_eq!(told["a2aWaits"].as_array().map(Vec::len), Some(1), "{told:#}");
    let mut connection = database.connect().await;
    let select = "SELECT state FROM pes_agent_state_data WHERE thread_id = 't'";
    let seen: Value = sqlx::query_scalar(select).fetch_one(&mut connection).await.unwrap();
    assert_eq!(seen, told, "seen:\n{seen:#}\ntold:\n{told:#}");
}
