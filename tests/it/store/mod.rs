//! One conformance suite over every store.
