//! `delegate_to_agent`: offered to tenants that have agents, which its description lists. Its calls become tasks; the
//! tool itself never runs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Directory;
use crate::domain::agent::KnownAgent;
use crate::domain::ids::TenantPk;
use crate::domain::task;
use crate::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use crate::store::documents::DocumentKind;
use crate::tool::{Tool, ToolContext, ToolOutput, ToolSource};

/// How many characters of each text of an agent are passed to the planner.
const MAX_TEXT_CHARS: usize = 300;
/// How many skills of one agent are listed.
const MAX_SKILLS: usize = 20;

struct DelegateToAgent {
    spec: Arc<ToolSpec>,
}

#[async_trait]
impl Tool for DelegateToAgent {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Err(ToolError::new(CallCode::Failed, "A delegation is carried out by another agent, it does not run."))
    }
}

/// A tenant's tools, with their generation.
type CachedTools = (u64, Arc<[Arc<dyn Tool>]>);

/// The source of that tool.
pub struct Delegating {
    directory: Arc<Directory>,
    made: Mutex<HashMap<TenantPk, CachedTools>>,
}

impl Delegating {
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory, made: Mutex::default() }
    }
}

impl ToolSource for Delegating {
    fn generation(&self, tenant: TenantPk) -> u64 {
        let cards = self.directory.cards.generation.load(Ordering::SeqCst);
        self.directory.documents.changes_of(tenant, DocumentKind::Agent).wrapping_add(cards)
    }

    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]> {
        let generation = self.generation(tenant);
        let mut made = self.made.lock();
        if let Some((_, tools)) = made.get(&tenant).filter(|(of, _)| *of == generation) {
            return tools.clone();
        }
        let agents = self.directory.known(tenant);
        let tool = (!agents.is_empty()).then(|| Arc::new(DelegateToAgent { spec: Arc::new(spec(&agents)) }) as _);
        let tools: Arc<[Arc<dyn Tool>]> = tool.into_iter().collect();
        made.insert(tenant, (generation, tools.clone()));
        tools
    }
}

fn spec(agents: &[KnownAgent]) -> ToolSpec {
    let mut description =
        "Gives a task to another agent and waits for its result, however long that takes. Agents:".to_owned();
    for agent in agents {
        let _ = write!(description, "\n- {}", agent.id);
        if let Some(name) = &agent.name {
            let _ = write!(description, " ({})", line(name));
        }
        if let Some(about) = &agent.description {
            let _ = write!(description, ": {}", line(about));
        }
        for skill in agent.skills.iter().take(MAX_SKILLS) {
            let [id, name, about] = [&skill.id, &skill.name, &skill.description].map(|text| line(text));
            let _ = write!(description, "\n  - skill {id}: {name}. {about}");
        }
    }
    let ids: Vec<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
    ToolSpec {
        name: task::TOOL.to_owned(),
        description,
        input_schema: json!({
            "type": "object",
            "properties": {
                "agentId": { "enum": ids },
                "taskType": { "type": "string", "description": "The id of one of the agent's skills, or what kind of task it is.", "maxLength": 200 },
                "input": { "description": "What the agent needs to know, as text or as an object." },
                "instructions": { "type": "string", "minLength": 1, "maxLength": 100_000, "description": "What the agent is to do." }
            },
            "required": ["agentId", "instructions"],
            "additionalProperties": false
        }),
        output_schema: None,
        class: ToolClass::External,
        idempotent: false,
        timeout_ms: 0,
        risk_level: None,
    }
}

/// A text from another agent, as one bounded line.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::super::agents::known_skill;
    use super::*;
    use crate::a2a::types::Skill;
    use crate::domain::agent::KnownSkill;

    #[test]
    fn whatever_a_card_says_the_planner_is_told_bounded_lines() {
        let long = |start: &str| format!("{start}\n- {}", "x".repeat(1 << 20));
        let mut agent = KnownAgent::illegible("helper".to_owned(), String::new());
        (agent.name, agent.description) = (Some(long("Helper")), Some(long("It helps.")));
        let texts = || vec![long("text")];
        let skill = Skill {
            id: long("help"),
            name: long("Help"),
            description: long("Helps."),
            tags: texts(),
            examples: texts(),
            input_modes: texts(),
            output_modes: texts(),
        };
        let shown = known_skill(&skill);
        assert_eq!([&shown.id, &shown.name].map(|text| text.chars().count()), [MAX_TEXT_CHARS; 2]);
        agent.skills = vec![KnownSkill { id: skill.id, name: skill.name, ..shown }];
        let told = spec(&[agent]).description;
        assert!(told.len() < 6 * MAX_TEXT_CHARS, "{} bytes", told.len());
        assert_eq!(told.lines().count(), 3, "{told}");
        assert!(told.contains("\n- helper (Helper - xx") && told.contains("\n  - skill help - xx"), "{told}");
    }
}
