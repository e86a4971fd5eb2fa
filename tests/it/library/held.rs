//! A thread is put on hold while its log is being shortened by age.

use pes::domain::retention::{Kept, Terms};
use pes::service::retention;

use crate::support::clocked::{Clocked, DAY};
use crate::support::store::{Mood, Moody};

#[tokio::test]
async fn a_thread_that_is_put_on_hold_while_its_log_is_put_together_keeps_it() {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |config| config.retention.log_days = Kept::Days(10)).await;
    clocked.finish("t").await;
    let log = clocked.page("t", 0).await.unwrap().items.len();
    clocked.clock.advance(20 * DAY);
    store.set("compact", Mood::Hangs);
    let swept = retention::sweep(clocked.instance.service());
    let held = async {
        store.holds("compact").await;
        clocked.keep("t", Terms::default(), Some("a lawsuit")).await;
        store.set("compact", Mood::Well);
    };
    let (swept, ()) = tokio::join!(swept, held);
    swept.unwrap();
    assert_eq!(clocked.page("t", 0).await.unwrap().items.len(), log);
    clocked.keep("t", Terms::default(), None).await;
    clocked.days_pass(1).await;
    assert_eq!(clocked.page("t", 0).await.map(|page| page.min_seq > 1), Ok(true));
    clocked.instance.close().await;
}
