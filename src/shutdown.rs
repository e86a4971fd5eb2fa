//! Stopping cleanly.
