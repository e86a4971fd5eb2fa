//! The tools that come with the server. A new one: its file, and two lines here.

mod arithmetic;
mod ask_user;
mod calculator;
mod current_time;
mod demo_email;
#[cfg(feature = "failpoints")]
mod evil;
mod http_fetch;
mod set_agent_state;

use std::sync::Arc;

use super::Tool;
use crate::egress::Egress;

/// Every tool that all threads have.
pub fn all() -> Vec<Arc<dyn Tool>> {
    #[cfg_attr(not(feature = "failpoints"), expect(unused_mut, reason = "extended for tests that kill the process"))]
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(ask_user::AskUser::new()),
        Arc::new(calculator::Calculator::new()),
        Arc::new(current_time::CurrentTime::new()),
        Arc::new(set_agent_state::SetAgentState::new()),
    ];
    #[cfg(feature = "failpoints")]
    tools.extend(evil::all());
    tools
}

/// Those that call out.
pub fn calling_out(egress: &Arc<Egress>) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(http_fetch::HttpFetch::new(egress.clone()))]
}

/// Those that only a server with the demo model has: they pretend.
pub fn demo() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(demo_email::DemoSendEmail::new())]
}

/// Whether it touches nothing but this server's own data, so that it needs no rule in production.
pub fn is_own(name: &str) -> bool {
    name == set_agent_state::NAME
}
