//! A delivery that cannot be read is given up when it is claimed. The others are claimed as if it was not there.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::store::Store;
use pes::store::outbox::{DeliveryStatus, TargetKind};
use pes::store::sqlite::Sqlite;
use sqlx::{Connection as _, Executor as _, PgConnection, SqliteConnection};

use super::bed::{Bed, page};
use super::deliveries::{claim_some, new, post};
use crate::support::postgres::Database;
use crate::support::store::store_on;

/// No release knows this word.
const DAMAGE: &str = "UPDATE deliveries SET status = 'perhaps' WHERE id = 'hurt'";

async fn three_deliveries(store: Arc<dyn Store>) -> Bed {
    let bed = Bed::on(store, Arc::new(())).await;
    let pk = bed.thread("t").await;
    post(&bed, pk, vec![new("hurt", Some("lane")), new("behind", Some("lane")), new("other", None)]).await;
    bed
}

async fn only_the_unreadable_one_is_given_up(bed: Bed) {
    let ids = async |now| {
        let claimed = claim_some(&bed, now, 10).await;
        claimed.iter().map(|delivery| delivery.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(100).await, ["other"]);
    assert_eq!(ids(101).await, ["behind"], "it is no longer held back");
    assert_eq!(ids(102).await, [""; 0]);
    let dead = Some(DeliveryStatus::Dead);
    let listed = bed.store.deliveries_of_tenant(bed.tenant, TargetKind::Webhook, dead, &page(9)).await.unwrap().items;
    let shown: Vec<_> = listed.iter().map(|it| (it.id.as_str(), it.said.as_deref(), it.finished_at)).collect();
    assert_eq!(shown, [("hurt", Some("nothing was sent: what is stored of it cannot be read"), Some(100))]);
}

#[tokio::test]
async fn on_sqlite_only_it_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let bed = three_deliveries(Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap())).await;
    let url = format!("sqlite://{}", folder.path().join("pes.db").display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    assert_eq!(other.execute(DAMAGE).await.unwrap().rows_affected(), 1);
    only_the_unreadable_one_is_given_up(bed).await;
}

#[tokio::test]
async fn on_postgres_only_it_is_given_up() {
    let database = Database::fresh().await;
    let bed = three_deliveries(store_on(&database).await).await;
    let mut other: PgConnection = database.connect().await;
    assert_eq!(other.execute(DAMAGE).await.unwrap().rows_affected(), 1);
    only_the_unreadable_one_is_given_up(bed).await;
}
