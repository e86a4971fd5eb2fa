//! The command line and the configuration, as a process.
