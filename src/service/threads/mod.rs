//! Threads: managing them, and reading their contents.

mod manage;
mod profile;
mod prompt;
mod prompt_writers;
mod run_costs;
mod tool_policy;
mod view;

use serde_json::{Map, Value};

use crate::domain::ids::ThreadId;
use crate::domain::settings::ThreadConfig;

pub use manage::{create, delete, delete_unused, get, list, new_id, patch, release};
pub use prompt::{CallPrompt, prompt};
pub use view::{agent_state, messages, newest_messages, put_agent_state, state, tool_call};

pub(in crate::service) use manage::is_valid_id;
pub(crate) use manage::{all_shown, answer, check_id, fresh, new_thread, pk_of, row};
pub(in crate::service) use profile::check_size;
pub(in crate::service) use prompt_writers::{new_writer, prompt_writers, row_of};
pub(in crate::service) use run_costs::RunCostCache;
pub(in crate::service) use tool_policy::signed;
pub(crate) use view::{metadata_payloads, metadata_with_payloads};

/// The body of `POST /threads`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewThreadAsk {
    /// Absent = the server makes one.
    pub thread_id: Option<ThreadId>,
    pub title: Option<String>,
    pub config: ThreadConfig,
    pub metadata: Map<String, Value>,
}
