//! The engine alone: every defect of the flow, and properties over random runs with crashes.

mod flow;
mod sim;
mod words;
