//! The OpenAI Chat Completions wire, streamed; and everything that speaks it, told apart by a row of data.
//!
//! A reply is complete only if its end came *and* the vendor said why it stopped; anything else is an error, never a
//! shorter reply.

mod body;
mod client;
pub(crate) mod compatible;
mod reading;
mod request;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use client::OpenAi;
