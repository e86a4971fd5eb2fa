//! The audit is tamper-evident: a change of its lines in the database is found and named.

mod acts;
mod arguments;
mod command;
mod decisions;
mod forgotten;
mod receipts;
pub mod signed;
pub mod tampered;
mod tampering;
