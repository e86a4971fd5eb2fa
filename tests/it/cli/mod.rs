//! The binary as people start it, and the configuration it starts from.

mod binary;
mod config;
mod serving;
