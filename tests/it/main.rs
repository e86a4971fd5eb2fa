//! Every test that needs more than one module, in one binary, so that there is one link.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

// The server as an A2A agent: every operation over sockets, in both bindings and both versions.
mod a2a;
// A malicious model against the policy, and input that is made to harm.
mod abuse;
// The door for front ends of AG-UI: `/agui`.
mod agui;
// The door for `useChat` of the AI SDK: `/api/chat`.
mod ai_sdk;
// The audit: a change of its lines in the database is found and named.
mod audit;
// Who is admitted, as whom, and for how long after a revocation.
mod auth;
// The binary as people start it, its commands, and its configuration.
mod cli;
// How many allocations a run and a token take, and how much memory a socket.
mod counts;
// Delegation to other agents.
mod delegate;
// The commands and answers in the documents.
mod docs;
// Which addresses may be called.
mod egress;
// Random use of a whole server, and what must hold of it.
mod explore;
// The HTTP API over sockets: one file for each route or subject.
mod front;
// The same service without HTTP, as the library has it: also retention, exports and rows that cannot be read.
mod library;
// MCP servers: their tools, the results of calls, and attacks.
mod mcp;
// The server as tools of MCP hosts: `/mcp`.
mod mcp_door;
// The door for OpenAI's clients: `/v1`.
mod openai;
// The clients in `clients/`, as their users install them.
mod our_clients;
// The wires of models, against a server that delays, stalls, cuts and corrupts its replies.
mod provider;
// Another process, or the same one again, after kill -9, a stop or a lost lease.
mod recovery;
// Sealing keys: their rotation, and what is not sent without its secret.
mod sealing;
// What each method of a store promises, on SQLite and PostgreSQL.
mod store;
// Shared by all of them.
mod support;
// The built-in tools, their registry, and the policy before they run.
mod tool;
// Traces as an OpenTelemetry collector receives them.
mod traces;

// The files that the tests inside the library also include use `crate::domain`.
use pes::domain;
