//! The engine alone: every defect of the flow, and properties over random runs with crashes.

mod asked_again;
mod asking;
mod at_once;
mod budget;
mod cancel;
mod custom_core;
mod cut_off;
mod delegate;
mod fit;
mod flow;
mod lasting;
mod once;
mod peers;
mod plans;
mod random;
mod react;
mod retry;
mod script;
mod sim;
mod states;
mod steps;
mod suspend;
mod terms;
mod told;
mod waiting;
mod words;
