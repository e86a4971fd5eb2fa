//! What a thread costs is the sum over its runs. Those that ended are read once.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::usage::Price;
use pes::service::threads;
use pes::store::sqlite::Sqlite;
use pes::store::{PageAsk, ThreadFilter};
use sqlx::{Connection, SqliteConnection};

use crate::support::clocked::Clocked;

#[tokio::test]
async fn what_ended_runs_cost_is_not_summed_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let clocked = Clocked::on(store, |config| {
        config.prices.insert("demo:*".to_owned(), Price { output_per_million: 1.0, ..Price::default() });
    })
    .await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let shown = async || threads::get(service, caller, &"t".into()).await.unwrap().cost_usd;
    let listed = async || {
        let page = threads::list(service, caller, ThreadFilter::default(), PageAsk::first(10)).await.unwrap();
        page.items[0].cost_usd
    };
    clocked.finish("t").await;
    let one = shown().await.expect("calls have a price");
    assert_eq!(listed().await, Some(one));

    let url = format!("sqlite://{}", folder.path().join("pes.db").display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    let forget = "UPDATE thread_rows SET body = json_remove(body, '$.counters.costNanos') WHERE kind = 1";
    assert_eq!(sqlx::query(forget).execute(&mut other).await.unwrap().rows_affected(), 1);
    assert_eq!((shown().await, listed().await), (Some(one), Some(one)), "it ended");

    clocked.finish("t").await;
    let both = shown().await.unwrap();
    assert!(both > one, "{both} {one}");
    assert_eq!(listed().await, Some(both));
    clocked.instance.close().await;
}
