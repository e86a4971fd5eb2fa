//! The server as an A2A agent: every operation through real sockets, in both bindings and both versions.

pub mod binding;
mod card;
mod contexts;
mod envelope;
mod errors;
mod killed;
mod kit;
mod lists;
mod messages;
mod once;
mod operations;
mod pushes;
mod races;
mod replicas;
mod replies;
mod scenarios;
mod streams;
