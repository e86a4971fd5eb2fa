//! The built-in tools. To add one: its file, and two lines here.

mod arithmetic;
mod ask_user;
mod calculator;
mod current_time;
mod demo_email;
#[cfg(feature = "failpoints")]
mod faulty;
mod http_fetch;
mod set_agent_state;

use std::sync::Arc;

use super::Tool;
use crate::domain::thread::AgentState;
use crate::egress::Egress;

/// The tools of every thread.
pub fn all() -> Vec<Arc<dyn Tool>> {
    #[cfg_attr(not(feature = "failpoints"), expect(unused_mut, reason = "extended for tests that kill the process"))]
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(ask_user::AskUser::new()),
        Arc::new(calculator::Calculator::new()),
        Arc::new(current_time::CurrentTime::new()),
        Arc::new(set_agent_state::SetAgentState::new()),
    ];
    #[cfg(feature = "failpoints")]
    tools.extend(faulty::all());
    tools
}

/// The tools that make outgoing calls.
pub fn calling_out(egress: &Arc<Egress>) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(http_fetch::HttpFetch::new(egress.clone()))]
}

/// The tools that exist only where the demo model is configured. They have no real effect.
pub fn demo() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(demo_email::DemoSendEmail::new())]
}

/// Whether the tool changes only this server's own data, so that it needs no policy rule in production.
pub fn is_own(name: &str) -> bool {
    name == AgentState::SET_TOOL
}
