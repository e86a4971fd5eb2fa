//! The documents are tested: every command in them runs, and a server gives every answer in them.

mod alerts;
mod blocks;
mod commands;
mod events;
mod examples;
mod install;
mod shape;
