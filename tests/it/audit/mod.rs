//! The audit that proves: what is done to its lines in the database is named.

mod acts;
mod arguments;
mod command;
mod forgotten;
mod receipts;
pub mod signed;
mod tampered;
mod tampering;
