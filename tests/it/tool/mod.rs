//! Tools, policy and arguments.
