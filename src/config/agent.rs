//! `[agent]`

use std::collections::BTreeMap;

use super::section::{by_path, file_only};
use crate::domain::prompt::{Persona, SystemPrompt};
use crate::domain::settings::{ExecutionOverrides, PolicyAction, StateSavingStrategy};

section! {
    /// The server's own layer of thread settings; a thread's config and a call's options override it.
    Agent {
        /// Text, or { content, tag, variables, strategy }.
        system_prompt: Option<SystemPrompt> = None, by_path().example("\"Answer in one paragraph.\"");
        /// Texts that a system prompt refers to by `tag`; {{name}} is replaced from its `variables`.
        templates: BTreeMap<String, String> = BTreeMap::new(),
            file_only().example("{ support = \"You help customers of {{company}}.\" }");
        /// The agent's identity, and its instructions for each stage.
        persona: Persona = Persona::default(),
            file_only().example("{ name = \"Ada\", prompts = { synthesis = \"Be brief.\" } }");
        /// `executionConfig`, spelled as in the API.
        execution: ExecutionOverrides = ExecutionOverrides::default(),
            file_only().example("{ maxIterations = 5, maxParallelItems = 1, planReview = \"risky\" }");
        /// How many of the newest messages of the conversation go into a prompt; 0 = none.
        history_limit: u32 = 50, by_path();
        /// Names or globs. Unset = every tool.
        enabled_tools: Option<Vec<String>> = None, file_only().example("[\"calculator\", \"current_*\"]");
        /// By tool name or glob: auto, ask or deny; the most specific rule decides.
        tool_policy: BTreeMap<String, PolicyAction> = BTreeMap::new(), file_only().example("{ \"mail__*\" = \"ask\" }");
        /// The agent core of threads that choose none.
        core: String = "pes".to_owned(), by_path();
        /// implicit: changes of the application state commit with the run; explicit: only on request.
        state_saving: StateSavingStrategy = StateSavingStrategy::Implicit, by_path();
    }
}
