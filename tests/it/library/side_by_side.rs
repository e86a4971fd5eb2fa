//! Expired data of several threads is deleted concurrently.

use pes::domain::fault::Code;
use pes::service::retention;
use rstest::rstest;

use crate::support::clocked::{Clocked, DAY};
use crate::support::http::soon;
use crate::support::store::{Mood, Moody};

/// So many share one pause: otherwise a busy server would delete less than it writes. No more are begun at once. All begin
/// by reading the terms of their thread.
#[rstest]
#[case("delete_thread", 401, 16)]
#[case("compact", 91, 8)]
#[tokio::test]
async fn what_is_too_old_goes_side_by_side(#[case] call: &'static str, #[case] days: i64, #[case] most: usize) {
    let threads = most + 1;
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    for n in 0..threads {
        clocked.finish(&format!("t{n}")).await;
    }
    for call in ["row", call] {
        store.set(call, Mood::Hangs);
    }
    store.calls("row");
    clocked.clock.advance(days * DAY);
    let side_by_side = async {
        soon(store.holds_many("row", most)).await;
        assert_eq!(store.calls("row"), most);
        store.set("row", Mood::Well);
        soon(store.holds_many(call, most)).await;
        store.set(call, Mood::Well);
    };
    let (swept, ()) = tokio::join!(retention::sweep(clocked.instance.service()), side_by_side);
    swept.unwrap();
    for n in 0..threads {
        let thread = format!("t{n}");
        let gone = clocked.page(&thread, 1).await.err();
        assert!(matches!(gone, Some(Code::NotFound | Code::HistoryCompacted)), "{thread}: {gone:?}");
    }
    clocked.instance.close().await;
}
