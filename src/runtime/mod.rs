//! One task per active thread: events in, commits, effects out.
