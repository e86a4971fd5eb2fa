//! The documents, tried: every command in them is run, and every answer in them is one that a server gives.

mod alerts;
mod blocks;
mod commands;
mod events;
mod examples;
mod shape;
