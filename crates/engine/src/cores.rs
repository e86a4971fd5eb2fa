//! The agent cores that come with the server; a thread's `agentCore` names one.

use std::sync::Arc;

use super::Core;
use super::pes::Pes;

/// `pes` and `react`, in that order.
pub fn all() -> Vec<Arc<dyn Core>> {
    vec![Arc::new(Pes::planned()), Arc::new(Pes::react())]
}
