//! The server as an agent among agents: every operation through real sockets, in both bindings and both versions.

mod card;
mod contexts;
mod door;
mod envelope;
mod errors;
mod kit;
mod lists;
mod messages;
mod once;
mod operations;
mod pushes;
mod races;
mod replies;
mod scenarios;
mod streams;
