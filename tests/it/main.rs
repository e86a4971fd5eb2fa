//! Every test that needs more than one module, in one binary, so that there is one link.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod a2a;
mod abuse;
mod agui;
mod ai_sdk;
mod audit;
mod auth;
mod cli;
mod counts;
mod delegate;
mod docs;
mod egress;
mod front;
mod library;
mod mcp;
mod mcp_door;
mod openai;
mod our_clients;
mod provider;
mod recovery;
mod sealing;
mod store;
mod support;
mod tool;
mod traces;

// The files that the tests inside the library also include use `crate::domain`.
use pes::domain;
