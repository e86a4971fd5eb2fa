//! One conformance suite over every store.

mod postgres;
