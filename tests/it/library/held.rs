//! A thread is put on hold while its log is being shortened by age.

use pes::domain::retention::{Kept, Terms};
use pes::service::retention;

use super::retention::{Aging, DAY};
use crate::support::store::{Mood, Moody};

#[tokio::test]
async fn a_thread_that_is_put_on_hold_while_its_log_is_put_together_keeps_it() {
    let store = Moody::fresh().await;
    let aging = Aging::on(store.clone(), |config| config.retention.log_days = Kept::Days(10)).await;
    aging.finish("t").await;
    let log = aging.page("t", 0).await.unwrap().items.len();
    aging.clock.advance(20 * DAY);
    store.set("compact", Mood::Hangs);
    let swept = retention::sweep(aging.instance.service());
    let held = async {
        store.holds("compact").await;
        aging.keep("t", Terms::default(), Some("a lawsuit")).await;
        store.set("compact", Mood::Well);
    };
    let (swept, ()) = tokio::join!(swept, held);
    swept.unwrap();
    assert_eq!(aging.page("t", 0).await.unwrap().items.len(), log);
    aging.keep("t", Terms::default(), None).await;
    aging.days_pass(1).await;
    assert_eq!(aging.page("t", 0).await.map(|page| page.min_seq > 1), Ok(true));
    aging.instance.close().await;
}
