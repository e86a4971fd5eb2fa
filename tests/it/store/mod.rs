//! One conformance suite for every store: what each method promises.

pub mod bed;

mod chain;
mod claims;
mod commits;
mod compressed;
mod creation;
mod damage;
mod databases;
mod deliveries;
mod differential;
mod documents;
mod erased_deliveries;
mod erasure;
mod fences;
mod figures;
mod idempotency;
mod inbox;
mod keys;
mod log;
mod lookups;
pub mod migrations;
mod newer;
mod postgres;
mod retention;
mod rows;
mod schedules;
mod sealed;
mod sessions;
mod spend;
mod spend_told;
mod sqlite;
mod texts;
mod threads;
mod transfer;
mod unreadable_deliveries;
mod usage;

/// Runs the named cases, `async fn(Bed)`, on every store. A new store is one line here.
///
/// `on_every_store!(a_row_is_kept)` in `store/rows.rs` makes the tests `store::rows::sqlite::a_row_is_kept` and
/// `store::rows::postgres::a_row_is_kept`; `on_every_store!(sqlite: a_row_is_kept)` only the first.
macro_rules! on_every_store {
    ($($case:ident),+ $(,)?) => {
        $crate::store::on_every_store!(sqlite: $($case),+);
        $crate::store::on_every_store!(postgres: $($case),+);
    };
    ($store:ident: $($case:ident),+) => {
        mod $store {
            $(#[tokio::test]
            async fn $case() {
                super::$case($crate::store::bed::Bed::$store().await).await;
            })+
        }
    };
}
use on_every_store;

/// The same for cases about the log, which are run on stores with a compressed log too.
macro_rules! on_every_form_of_log {
    ($($case:ident),+ $(,)?) => {
        $crate::store::on_every_store!($($case),+);
        $crate::store::on_every_store!(sqlite_compressed: $($case),+);
        $crate::store::on_every_store!(postgres_compressed: $($case),+);
    };
}
use on_every_form_of_log;
