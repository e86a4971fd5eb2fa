//! The agent cores that come with the server; a thread's `agentCore` names one.

use std::sync::Arc;

use super::pes::Pes;
use super::react::React;
use super::{DynCore, Registered};

pub fn all() -> Vec<Arc<dyn DynCore>> {
    vec![Arc::new(Registered::<Pes>::new()), Arc::new(Registered::<React>::new())]
}
