//! A run, from the query that requests it to its one `RUN_FINISHED`.

pub(crate) mod admission;
pub(crate) mod after_items;
pub(crate) mod answer_form;
pub(crate) mod ask;
pub(crate) mod begin;
pub(crate) mod budget;
pub(crate) mod cancel;
pub(crate) mod direct_answer;
pub(crate) mod end_early;
pub(crate) mod finish;
pub(crate) mod fork;
pub(crate) mod imported_history;
pub(crate) mod message;
pub(crate) mod rewind;
pub(crate) mod simple;
pub(crate) mod summary;
pub(crate) mod synthesize;
