//! kill -9 and start again.
